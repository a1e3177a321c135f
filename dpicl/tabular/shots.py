"""Which reconstructed rows demonstrate for which query: post-processing, at no cost.

    icl         k rows for each query, drawn afresh: the paper's way
    icl-nested  the same, but fewer shots are the beginning of more: k = 1 in 2 in 4 in 8
    icl-shared  50 draws of k rows, taken in turn by the queries

The last two let a scoring engine read shared beginnings once; they are columns of their own
in a report, because they change how answers vary together.
"""

from __future__ import annotations

import numpy as np

from dpicl.errors import DataError
from dpicl.pipeline import Cell
from dpicl.randomness import Draws

SHARED_SETS = 50
_MOST_SHOTS = 64


def picked_rows(row_count: int, query_count: int, cell: Cell, draws: Draws) -> np.ndarray:
    """Positions of the rows that demonstrate, distinct for each query: int64 of shape (queries, k).

    Raises:
        DataError: fewer rows than shots.
    """
    shots = cell.shots or 0
    if row_count < shots:
        raise DataError("LDP-TabICL", f"too few rows to draw {shots} shots from", count=row_count)
    if cell.system == "icl-nested":
        every = Cell(cell.system, cell.epsilon, None, cell.sampling_rate)
        return _draws(row_count, query_count, min(_MOST_SHOTS, row_count), every, draws)[:, :shots]
    if cell.system == "icl-shared":
        return _draws(row_count, SHARED_SETS, shots, cell, draws)[np.arange(query_count) % SHARED_SETS]
    return _draws(row_count, query_count, shots, cell, draws)


def _draws(row_count: int, count: int, shots: int, cell: Cell, draws: Draws) -> np.ndarray:
    rng = draws.public("sample", cell.key).generator()
    return np.array([rng.choice(row_count, shots, replace=False, shuffle=True) for _ in range(count)]).reshape(count, shots)
