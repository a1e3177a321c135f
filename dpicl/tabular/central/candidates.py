"""Candidate rows, how far apart they are, and variations of them: what Tab-PE makes of public
knowledge and of votes.

    (1)  place of a number's bin      12 i / (bins - 1), rounded, on an axis of its own; a missing
         one in the middle, 8 away on another
         place of a category          4 on an axis of its own: two of them are as far apart as bins
                                      over nearly half of the bounds
    (2)  distance of two rows         the sum over columns of the squared distance of places: a
         whole number, which is computed exactly
    (3)  variation                    of d columns each anew with probability 1 / d: a category any
         one, a bin the same or one beside it

Guarantee   none spent: public bins and public randomness, and post-processing where candidates are
            chosen by noisy votes.
Paper       Weights and variations of Tab-PE (arXiv 2606.08259) on bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpicl.contract.models import Contract
from dpicl.randomness import stream
from dpicl.tabular.central.bins import row_encoding

_WIDTH, _APART, _MISSING = 12, 4, 8
_ORDERS, _BLOCK = 16, 4096
"""Of equals; and rows at a time."""


@dataclass(frozen=True)
class Space:
    """Every row there can be.

    Attributes:
        sizes: codes of each column, the label last.
        ordered: of each column but the label, how many of its codes, the first ones, stand in
            order: none of a category.
    """

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]

    @staticmethod
    def of(contract: Contract) -> Space:
        """By the bins of `central.bins`."""
        sizes = row_encoding(contract).sizes
        ordered = [
            size - contract.numbers[name].nullable if name in contract.numbers else 0
            for name, size in zip(contract.features, sizes[:-1], strict=True)
        ]
        return Space(sizes, tuple(ordered))

    @property
    def cells(self) -> int:
        """How many rows there can be."""
        return math.prod(self.sizes)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Equation (1): whole numbers of shape (rows, axes), float32, for the columns but the
        label.
        """
        tables = [
            _places(size, ordered)
            for size, ordered in zip(self.sizes[:-1], self.ordered, strict=True)
        ]
        return np.hstack([table[rows[:, column]] for column, table in enumerate(tables)]).astype(
            np.float32
        )

    def varied(self, rows: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Equation (3)."""
        columns, count = [], len(self.ordered)
        for size, ordered, codes in zip(self.sizes[:-1], self.ordered, rows.T[:-1], strict=True):
            beside = np.clip(
                codes + chance.integers(-1, 2, size=len(codes)), 0, max(0, ordered - 1)
            )
            anew = np.where(codes < ordered, beside, chance.integers(size, size=len(codes)))
            columns.append(np.where(chance.random(len(codes)) < 1 / count, anew, codes))
        return np.stack([*columns, rows[:, -1]], axis=1)


def every_row(sizes: Sequence[int]) -> np.ndarray:
    """All rows of columns with so many codes, in order: shape (cells, columns), int64."""
    return np.stack(np.unravel_index(np.arange(math.prod(sizes)), tuple(sizes)), axis=1)


def _places(size: int, ordered: int) -> np.ndarray:
    """Equation (1) of one column: shape (codes, axes)."""
    if not ordered:
        return np.eye(size) * _APART
    along = np.rint(_WIDTH * np.arange(size) / max(1, ordered - 1))
    if ordered == size:
        return along[:, np.newaxis]
    along[ordered:] = _WIDTH // 2
    return np.stack([along, np.where(np.arange(size) < ordered, 0, _MISSING)], axis=1)


def nearest(rows: np.ndarray, candidates: np.ndarray, space: Space) -> np.ndarray:
    """For each row the candidate of its label that is nearest by equation (2); -1 where its label
    has none.

    Of several the first in one of `_ORDERS` orders, which one by a digest of the row: what a row
    votes for depends on no other row. Whole numbers below 2^24 are exact in float32, in whatever
    order they are added.
    """
    found, order_of = np.full(len(rows), -1), (_digest(rows) >> np.uint64(32)) % np.uint64(_ORDERS)
    located, places = space.places(rows), space.places(candidates)
    turns, digests = _words("orders", _ORDERS) | np.uint64(1), _digest(candidates)
    for order in np.unique(order_of):
        shuffled = np.argsort(digests * turns[order], kind="stable")
        for label in range(space.sizes[-1]):
            some = np.flatnonzero((order_of == order) & (rows[:, -1] == label))
            among = shuffled[candidates[shuffled, -1] == label] if len(some) else some
            if not len(among):
                continue
            axes = places[among]
            lengths = (axes * axes).sum(axis=1)
            for start in range(0, len(some), _BLOCK):
                block = some[start : start + _BLOCK]
                found[block] = among[(lengths - 2 * (located[block] @ axes.T)).argmin(axis=1)]
    return found


def _digest(rows: np.ndarray) -> np.ndarray:
    """A number of 64 bits for each row, by its codes."""
    return np.asarray(rows.astype(np.uint64) @ _words("codes", rows.shape[1]))


@lru_cache(1 << 8)
def _words(what: str, count: int) -> np.ndarray:
    """Numbers of 64 bits that are always the same."""
    words = stream(0, "candidates", what, "").words(count, np.uint64)
    words.flags.writeable = False
    return words
