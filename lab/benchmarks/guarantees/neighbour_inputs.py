"""Generated neighbours with every nasty value, and noise of nothing that remembers what it was
added to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn, RealColumn
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms import noisy_count

MOST_ROWS = 12
NASTY = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e308, -1e308, 5e-324)
_WHOLE_NASTY = (0, -1, 2**63 - 1, -(2**63), 2**53 + 1)
_SEED_BYTES = bytes(32)


@dataclass(frozen=True)
class Neighbours:
    """Positions in a pool of rows: two tables that differ in one, in any order; `rows_changed` is 2
    if it was replaced.
    """

    one: np.ndarray
    other: np.ndarray
    rows_changed: int

    @property
    def pool(self) -> int:
        """Rows of the pool."""
        return int(max(self.one.max(initial=-1), self.other.max(initial=-1))) + 1


def neighbours(rng: np.random.Generator, *, permuted: bool = True) -> Neighbours:
    """A row more, or another row in the place of one; none at all to begin with, now and then."""
    rows = int(rng.integers(0, MOST_ROWS + 1))
    one = np.arange(rows)
    if rows and rng.integers(2):
        other, changed = one.copy(), 2
        other[rng.integers(rows)] = rows
    else:
        other, changed = np.append(one, rows), 1
    if permuted:
        one, other = rng.permutation(one), rng.permutation(other)
    return Neighbours(one, other, changed)


def numbers(rng: np.random.Generator, low: float, high: float, rows: int) -> np.ndarray:
    """Within the bounds, on them, beyond them, or nasty: shape (rows,), float64."""
    width = high - low
    choices = [
        rng.uniform(low, high, rows),
        rng.uniform(low - 3 * width, high + 3 * width, rows),
        rng.choice(NASTY, rows),
    ]
    choices += [rng.choice((low, high), rows)]
    return np.choose(rng.integers(len(choices), size=rows), choices)


def table(rng: np.random.Generator, contract: Contract, rows: int) -> pa.Table:
    """Rows of a contract's types; often of few categories, so that groups stay empty."""
    return pa.table(
        {name: _column(rng, declared, rows) for name, declared in contract.columns.items()}
    )


def _column(
    rng: np.random.Generator, declared: CategoryColumn | IntegerColumn | RealColumn, rows: int
) -> pa.Array:
    if isinstance(declared, CategoryColumn):
        codes = rng.integers(rng.integers(1, len(declared.categories) + 1), size=rows).astype(
            np.int16
        )
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(declared.categories))
    low, high = declared.bounds
    if isinstance(declared, IntegerColumn):
        width = int(high - low)
        whole = rng.integers(int(low) - 2 * width, int(high) + 2 * width + 1, rows)
        return pa.array(
            np.where(rng.random(rows) < 0.2, rng.choice(np.array(_WHOLE_NASTY), rows), whole)
        )
    return pa.array(numbers(rng, low, high, rows))


def chosen(pool: pa.Table, positions: np.ndarray) -> PrivateTable:
    """These rows of a pool."""
    return PrivateTable(pool.take(pa.array(positions, type=pa.int64())))


@dataclass
class Noised:
    """Every exact whole number that noise was asked for, with the noise's scale, in order."""

    sums: list[tuple[Fraction, int]]
    asked: int = 0

    def loss(self, other: Noised) -> Fraction:
        """The largest log-ratio of what both may release: the sum of |difference| / scale.

        Raises:
            AssertionError: a number got no noise, or how many do, or their scales, depend on the
                rows.
        """
        assert self.asked == other.asked == len(self.sums) == len(other.sums)
        assert [scale for scale, _ in self.sums] == [scale for scale, _ in other.sums]
        pairs = zip(self.sums, other.sums, strict=True)
        return sum(
            (abs(one - another) / scale for (scale, one), (_, another) in pairs), Fraction(0)
        )


class _Nothing(int):
    """Zero, which notes what it is added to."""

    noised: Noised
    scale: Fraction

    def __radd__(self, exact: int) -> int:
        self.noised.sums.append((self.scale, exact))
        return exact


@contextmanager
def noised() -> Iterator[Noised]:
    """While this lasts the product's mechanisms get noise of nothing, and what they add it to is
    noted.
    """
    seen = Noised([])

    def nothings(scale: Fraction, count: int, stream: Stream) -> list[int]:
        seen.asked += count
        drawn = [_Nothing() for _ in range(count)]
        for nothing in drawn:
            nothing.noised, nothing.scale = seen, scale
        return list(drawn)

    with patch.object(noisy_count, "discrete_laplaces", nothings):
        yield seen


class Fixed(Stream):
    """Gives these words, one per row."""

    def __init__(self, words: np.ndarray | None = None) -> None:
        super().__init__(_SEED_BYTES, simulated=True)
        self._words = words

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        """The words, as they were given."""
        assert self._words is not None and len(self._words) == count
        return self._words.astype(dtype)
