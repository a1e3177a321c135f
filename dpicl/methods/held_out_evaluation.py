"""Accuracy on held-out private rows: noisy counts of right answers, and of the rows, as a release
of its own.

Trust       Central: the curator asks a local model; only noisy counts leave.
Unit        One row; or one person, of whom at most m held-out rows are asked.
Neighbours  ADD_OR_REMOVE_ONE; a contract with REPLACE_ONE is charged twice, a person m times.
Guarantee   epsilon-DP, delta = 0, for all cells of a unit together: what the contract's
            `split.evaluation_epsilon` says, shared equally by all counts.
Paper       Ghosh, Roughgarden and Sundararajan 2009, the geometric mechanism, by
            `mechanisms.noisy_count`.

    (1)  r_c = sum over the rows asked of [answer of cell c is right],   n the rows asked
    (2)  released = (r_1 + Z_1 ... r_C + Z_C, n + Z_0),   Z discrete Laplace of scale (C + 1) t /
         epsilon
    (3)  accuracy_c = clip((r_c + Z_c) / max(n + Z_0, 1), 0, 1)       post-processing

What a row is answered depends on the row and on what is released alone: every row is asked with the
same demonstrations (or the nearest to itself), and by itself, so that no other row's place or
length enters. One row more is one term more in every sum of (1); where at most N are asked it comes
for another one, and a count moves by one at most as well.

Symbols     C cells of the unit; t = 1, times 2 under replace-one, times m for persons; epsilon in
            nats.
Not covered the time that it takes, which tells about how many rows were asked; a model that keeps
what it is told; prompts, predictions and
            AUC, which are not released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Guarantee, compose_sequential
from dpicl.contract.models import Contract
from dpicl.errors import RunError
from dpicl.evaluation import Metrics
from dpicl.mechanisms import noisy_count
from dpicl.methods.common import ZERO_SHOT, for_unit
from dpicl.methods.tabular_answers import answered, averaged_cell
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Stream

MECHANISM, VERSION = "evaluation", 1
"""What the ledger calls it; raised when the same parameters would give another release."""


def measured_cells(unit: Unit) -> list[Cell]:
    """The cells that are counted, whatever rows there are: public."""
    asked = (ZERO_SHOT, *unit.evaluated_cells)
    return list(dict.fromkeys(cell if cell.draw is None else averaged_cell(cell) for cell in asked))


def cost(contract: Contract, unit: Unit) -> Guarantee:
    """What the evaluation of a unit is charged, known before any row is read."""
    counts = len(measured_cells(unit)) + 1
    return for_unit(
        compose_sequential([noisy_count.guarantee(_each(contract, unit))] * counts), contract
    )


def right_counts(scores: Mapping[Cell, np.ndarray], truth: np.ndarray, unit: Unit) -> list[int]:
    """Equation (1): right answers of every measured cell, and the rows; private.
    Raises RunError: a cell lacks answers, which would be counted as wrong ones and published so.
    """
    answers = answered(scores) if len(truth) else {}
    if len(truth) and any(
        len(answers.get(cell, ())) != len(truth) for cell in measured_cells(unit)
    ):
        raise RunError(f"{unit.key}: answers to be counted are missing; resume the run")
    return [
        *(
            int((answers[cell] == truth).sum()) if cell in answers else 0
            for cell in measured_cells(unit)
        ),
        len(truth),
    ]


def released_counts(
    counts: Sequence[int], contract: Contract, unit: Unit, stream: Stream
) -> list[int]:
    """Equation (2): the only draw of noise."""
    return noisy_count.noisy_counts(counts, epsilon=_each(contract, unit), stream=stream)


def metrics_of(released: Sequence[int], unit: Unit) -> dict[Cell, Metrics]:
    """Equation (3) for every measured cell; nothing but accuracy is known."""
    *right, rows = released
    shares = (min(max(count / max(rows, 1), 0.0), 1.0) for count in right)
    return {
        cell: Metrics(max(rows, 0), share, None, None)
        for cell, share in zip(measured_cells(unit), shares, strict=True)
    }


def deviation(contract: Contract, unit: Unit) -> float:
    """Standard deviation of the noise of one count, in rows."""
    ratio = math.exp(-float(_each(contract, unit)))
    return math.sqrt(2 * ratio) / (1 - ratio)


def _each(contract: Contract, unit: Unit) -> Fraction:
    """Epsilon of one count for one row."""
    assert contract.split is not None and contract.split.evaluation_epsilon is not None
    times = Fraction(for_unit(noisy_count.guarantee(Fraction(1)), contract).epsilon)
    return Fraction(contract.split.evaluation_epsilon) / (times * (len(measured_cells(unit)) + 1))
