"""Which released rows demonstrate for which query: post-processing by public rules, at no cost.

    icl            k rows for each query, drawn afresh: the paper's way
    icl-nested     the same, but fewer shots are the beginning of more: k = 1 in 2 in 4 in 8
    icl-shared     50 sets of k rows, taken in turn by the queries
    icl-prototype  k rows for all queries, labels in turn: those that all rows of their label are
                   nearest to
    icl-diverse    k rows for all queries, labels in turn: of each label the first prototype, then
                   the farthest from all before
    icl-near       for each query the k rows nearest to it, the nearest last

Nearness is the number of equal columns. The last three choose among 2,048 rows drawn at random.
Labels are all that occur among these, the more frequent first; where a contract has none, all rows
are of one label. Of one release there may be several draws (`Cell.draw`): each has streams of its
own, so that the rows that are chosen, or chosen among, are drawn anew.

Paper       `near` [LSZDCC22] Liu et al. 2022 (arXiv 2101.06804); `diverse` [G85] Gonzalez 1985.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpicl.pipeline import Cell
from dpicl.randomness import Draws

SHARED_SETS, POOL = 50, 2048
MOST_SHOTS = 512
Item = TypeVar("Item")
_NESTED = 64
"""So many nested shots are drawn at once; further ones follow them."""
SAME_FOR_ALL = ("icl-prototype", "icl-diverse")
"""Systems whose demonstrations are chosen by a rule that looks at no query."""


def picked_rows(rows: np.ndarray, queries: np.ndarray, cell: Cell, draws: Draws) -> np.ndarray:
    """Positions of the rows that demonstrate: int64 of shape (queries, k); of fewer rows than shots
    some demonstrate more than once.

    Args:
        rows: bins of released rows, shape (rows, columns), the label last.
        queries: bins of the queries; their last column, the truth, is not looked at.
    """
    shots, row_count, query_count = cell.shots or 0, len(rows), len(queries)
    if row_count < shots:
        return (
            picked_rows(np.resize(rows, (shots, rows.shape[1])), queries, cell, draws) % row_count
        )
    if cell.system == "icl-nested":
        every = replace(cell, shots=None)
        first = _draws(row_count, query_count, min(_NESTED, row_count), every, draws)
        return (
            first[:, :shots]
            if shots <= _NESTED
            else _with_further(first, row_count, shots, every, draws)
        )
    if cell.system == "icl-shared":
        return _draws(row_count, SHARED_SETS, shots, cell, draws)[
            np.arange(query_count) % SHARED_SETS
        ]
    if cell.system in (*SAME_FOR_ALL, "icl-near"):
        # of all rows every draw would be the same
        size = row_count if cell.draw is None else max(shots, row_count // 2)
        pool = _draws(
            row_count, 1, min(POOL, size), replace(cell, shots=None, sampling_rate=None), draws
        )[0]
        if cell.system == "icl-near":  # of equals those that were drawn first
            nearest = [
                np.argsort((rows[pool, :-1] != query).sum(axis=1), kind="stable")[:shots][::-1]
                for query in queries[:, :-1]
            ]
            return pool[np.reshape(np.array(nearest, dtype=np.int64), (query_count, shots))]
        # Of all labels in turn, the more frequent first, and from the start again where there are
        # no more.
        of_labels = [pool[rows[pool, -1] == label] for label in np.unique(rows[pool, -1])]
        diverse = cell.system == "icl-diverse"
        ranked = [
            some[_ranked(rows[some, :-1], shots, diverse=diverse)]
            for some in sorted(of_labels, key=len, reverse=True)
        ]
        turns = in_turn(
            np.concatenate([one[:shots] for one in ranked]).tolist(), lambda place: rows[place, -1]
        )
        return np.tile(np.resize(turns, shots), (query_count, 1))
    return _draws(row_count, query_count, shots, cell, draws)


def in_turn(items: Iterable[Item], part_of: Callable[[Item], Hashable]) -> list[Item]:
    """The first item of every part, in the order in which parts first occur, then the second of
    every part that has one, and so on.
    """
    parts: dict[Hashable, list[Item]] = {}
    for item in items:
        parts.setdefault(part_of(item), []).append(item)
    most = max(map(len, parts.values()), default=0)
    return [part[turn] for turn in range(most) for part in parts.values() if turn < len(part)]


def _draws(row_count: int, count: int, shots: int, cell: Cell, draws: Draws) -> np.ndarray:
    rng = draws.public("sample", cell.key).generator()
    return np.array(
        [rng.choice(row_count, shots, replace=False, shuffle=True) for _ in range(count)]
    ).reshape(count, shots)


def _with_further(
    first: np.ndarray, row_count: int, shots: int, cell: Cell, draws: Draws
) -> np.ndarray:
    """First rows for each query, and behind them further ones: the beginning of the same for more
    shots.
    """
    rng = draws.public("sample", f"{cell.key},further").generator()
    picked = np.empty((len(first), shots), dtype=first.dtype)
    for own, begun in zip(picked, first, strict=True):
        further = rng.choice(row_count, min(MOST_SHOTS, row_count), replace=False, shuffle=True)
        own[:] = np.concatenate([begun, further[~np.isin(further, begun)]])[:shots]
    return picked


def _ranked(rows: np.ndarray, count: int, *, diverse: bool) -> np.ndarray:
    """Positions of at most `count` different rows, the most typical first."""
    distinct, first, weights = np.unique(rows, axis=0, return_index=True, return_counts=True)
    # Whole numbers far below 2^24, exact as float32: columns that agree are counted as a product of
    # indicators.
    weights = weights.astype(np.float32)
    indicators = np.hstack(
        [column[:, np.newaxis] == np.unique(column) for column in distinct.T]
    ).astype(np.float32)
    apart = distinct.shape[1] - indicators @ indicators.T
    chosen = [int((weights @ apart).argmin())]
    nearest = apart[:, chosen[0]]
    while len(chosen) < min(count, len(distinct)):
        if diverse:
            chosen.append(int(np.lexsort((weights, nearest))[-1]))
        else:
            gains = weights @ np.maximum(nearest[:, np.newaxis] - apart, 0)
            gains[chosen] = -1
            chosen.append(int(gains.argmax()))
        nearest = np.minimum(nearest, apart[:, chosen[-1]])
    return first[chosen]
