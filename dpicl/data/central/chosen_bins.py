"""Bins that nobody has to write: of public grids over the bounds of a column, the one is chosen in
which its rows are best told apart.

Trust       Central: the curator reads every row; only which grids were chosen leaves.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row more moves every score of a column by 0 to 512 downwards, so
            the difference of two of them by at most 512.
Guarantee   that of the budget, pure or Gaussian (`noisy_steps`): one choice for each column, in
            sequence.
Paper       The score is ours; [MT07] McSherry and Talwar for the choice.

    (1)  s_g  =  - 256 max_b n_gb  -  sum_b n_gb W_gb        W_gb  =  256 of a bin as wide as the
         bounds, less by a 14th of that for each halving, at least 0
    (2)  g    <- a noisy maximum of s, that of the usual grid 512 t (3 + log |G|) higher   for each
         column the same part of the budget

The first part of (1) is small where no bin holds most of the rows, the second where rows lie in
narrow bins. The usual grid is preferred as far as noise may choose another one (2).

Symbols     g a grid of G, those of `NumberColumn.grids`; b its bins, n_gb the rows in one; t the
            choice's scale: a score of 512 t less is e times less likely.
Not covered persons (the caller pays for their rows); the label, whose bins are its answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from dpicl.contract.columns.number import NumberColumn, bin_codes
from dpicl.contract.models import Contract
from dpicl.ground.randomness import Stream
from dpicl.ground.types import Table
from dpicl.mechanisms.noisy_steps import StepBudget

Bins = Mapping[str, tuple[float, ...]]
"""Chosen edges by column."""
NO_BINS: Bins = MappingProxyType({})
Cells = Mapping[str, np.ndarray]
"""Private: by column, how many rows lie between any two edges of its grids."""
_WIDTHS, _HALVINGS, _AHEAD = 256, 14, 3
_SPREAD = 2 * _WIDTHS
_FEW, _MANY = Fraction(1, 10), Fraction(1, 5)
"""Parts of a budget for up to five columns and for more."""
VERSION = 1
"""Raised when other bins would be chosen: part of a release's name."""


def share(contract: Contract) -> Fraction:
    """Which part of the budget of a release is spent on choosing bins: public."""
    if not contract.bins_are_chosen:
        return Fraction(0)
    return _FEW if len(contract.open_numbers) <= 5 else _MANY


def cells(table: Table, contract: Contract, entering: np.ndarray) -> dict[str, np.ndarray]:
    """Of the rows that enter, in every column that is open; those of two batches add up.

    Args:
        entering: places of the rows.
    """
    counts = {}
    for name in contract.open_numbers if share(contract) else ():
        column = contract.numbers[name]
        edges = _all_edges(column)
        codes = bin_codes(table.stored(name)[entering], edges, nullable=column.nullable)
        counts[name] = np.bincount(codes, minlength=len(edges) + 1)[: len(edges) + 1]
    return counts


def chosen(
    counted: Cells, contract: Contract, budget: StepBudget, stream: Stream
) -> dict[str, tuple[float, ...]]:
    """Equation (2) by this budget together."""
    each = budget.times(Fraction(1, max(1, len(counted))))
    found = {}
    for name, counts in counted.items():
        column = contract.numbers[name]
        grids = column.grids()
        scores = _scores(counts, column)
        scores[0] += round(_SPREAD * each.choice_scale * (_AHEAD + math.log(len(grids))))
        found[name] = grids[each.chosen(scores, spread=_SPREAD, stream=stream)]
    return found


def _scores(counts: np.ndarray, column: NumberColumn) -> list[int]:
    """Equation (1), by grid."""
    low, high = column.bounds
    begins, scores = [low, *_all_edges(column)], []
    for grid in column.grids():
        of_bins = np.zeros(len(grid) + 1, dtype=np.int64)
        np.add.at(of_bins, np.searchsorted(grid, begins, side="right"), counts)
        halvings = -np.log2(np.diff([low, *grid, high]) / (high - low))
        widths = np.rint(_WIDTHS * np.clip(1 - halvings / _HALVINGS, 0, 1)).astype(np.int64)
        scores.append(-int(_WIDTHS * of_bins.max() + of_bins @ widths))
    return scores


def _all_edges(column: NumberColumn) -> np.ndarray:
    return np.unique([edge for grid in column.grids() for edge in grid])
