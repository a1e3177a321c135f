"""Audit of what is told of held-out private rows: noisy counts of right answers, and of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpicl.audit.bounds import Trial
from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.audit.neighbours import numbers
from dpicl.contract.models import Contract
from dpicl.contract.sources import Split
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.methods import Options, held_out_evaluation, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.randomness import Stream

UNIT = unit_of(GdpTabicl.name, "audit", 0, (1.0,), (1,), (), False, Options())
COUNTS = len(held_out_evaluation.measured_cells(UNIT)) + 1
Release = Callable[[Sequence[int], Stream], list[int]]


def _contract(epsilon: Fraction) -> Contract:
    split = Split(test_fraction=0.5, evaluation_epsilon=float(epsilon))
    return numbers({"age": 1}).model_copy(update={"split": split})


def _stated(epsilon: Fraction) -> Release:
    contract = _contract(epsilon)
    return lambda counts, stream: held_out_evaluation.released_counts(counts, contract, UNIT, stream)


def _exact_rows(counts: Sequence[int], stream: Stream) -> list[int]:
    noisy = _stated(Fraction(1))(counts, stream)
    noisy[COUNTS - 1 :: COUNTS] = counts[COUNTS - 1 :: COUNTS]
    return noisy


def _each_all(counts: Sequence[int], stream: Stream) -> list[int]:
    return noisy_counts(counts, epsilon=Fraction(1), stream=stream)


def _trial(release: Release) -> Trial:
    """No held-out row, and one that every cell answers rightly."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(release([int(which)] * COUNTS * count, stream), dtype=np.int64).reshape(count, COUNTS)

    return Trial(
        draw, {"all at least one": lambda counts: np.asarray((counts >= 1).all(axis=1)), "one row": lambda counts: counts[:, -1] >= 1}
    )


def evaluation_case() -> AuditCase:
    """All counts of a unit together."""
    contract = _contract(Fraction(1))
    stated = held_out_evaluation.cost(contract, UNIT)
    return AuditCase(
        "held-out-evaluation",
        "noisy counts of right answers on held-out rows",
        stated.epsilon,
        stated.neighbours,
        stated.unit,
        _trial(_stated(Fraction(1))),
        (
            less_noise(_trial(_stated(LESS_NOISE))),
            Mutant("exact-rows", "the number of held-out rows is told without noise", _trial(_exact_rows)),
            Mutant("whole-epsilon-each", "every count spends what all of them may", _trial(_each_all)),
        ),
    )
