"""Audit of bins that nobody has to write: which of public grids is chosen for a column of numbers.

A row more moves the scores of most grids, in which it joins the fullest bin, and hardly that of the
one in which it has a narrow bin for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpicl.data.central.chosen_bins import Cells, cells, chosen
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_steps import PureBudget
from lab.audit.case import AuditCase, Mutant, Trial
from lab.audit.neighbours import declared, typed

_EPSILON = 1.0
_COLUMNS: dict[str, dict[str, Any]] = {
    "x": {"type": "real", "bounds": [-10, 10]},
    "y": {"type": "category", "categories": ["no", "yes"]},
}
_CONTRACT = declared("audit", _COLUMNS, "y")
_GRIDS = _CONTRACT.numbers["x"].grids()
_ROWS, _ONE_MORE = [9.997] * 13, 9.9997


def _cells(values: Sequence[float]) -> Cells:
    table = typed(_CONTRACT, {"x": values, "y": ["no"] * len(values)})
    return cells(table, _CONTRACT, np.arange(len(values)))


def _trial(budget: PureBudget, *, rows_count: int = 1) -> Trial:
    """Of grids by place.

    Args:
        rows_count: how often a row moves each score.
    """
    counted = {
        which: {name: rows_count * counts for name, counts in _cells(values).items()}
        for which, values in ((False, _ROWS), (True, [*_ROWS, _ONE_MORE]))
    }

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(
            [
                _GRIDS.index(chosen(counted[which], _CONTRACT, budget, stream)["x"])
                for _ in range(count)
            ]
        )

    return Trial(draw, {f"grid {place}": partial(np.equal, place) for place in range(len(_GRIDS))})


_BUDGET = PureBudget(Fraction(_EPSILON))
CASES = (
    AuditCase(
        "chosen-bins",
        "choice of one of public grids for the bins of a column",
        _EPSILON,
        _trial(_BUDGET),
        share=5,
        near=0.35,
    ).with_mutants(
        Mutant(
            "twice-the-budget",
            "each column spends what all of them have",
            _trial(_BUDGET.times(Fraction(2))),
        ),
        Mutant("row-twice", "a row moves each score twice", _trial(_BUDGET, rows_count=2)),
    ),
)
