"""Noisy counts of columns with the label, and of the pairs of columns that say more than these: what MST measures.

Trust       Central: the curator reads every row; only noisy counts and the chosen pairs leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row adds 1 to one cell of every count.
Guarantee   epsilon-DP, delta = 0: all steps in sequence. What a step asks depends on earlier
            answers, its epsilon on what is left, and they add up to epsilon whatever is chosen
            (a filter of pure guarantees, [RRUV16]).
Paper       [MMS21] McKenna, Miklau and Sheldon, MST (arXiv 2108.04978), with the label in every count;
            the end is AIM's [MMSM22]: no pair is measured whose counts would be noise.

    (1)  c_i  <- counts over (x_i, y) + noise                           a third of epsilon, over d columns
    (2)  s_ij <- | counts over (x_i, x_j, y) - those of independence under (1) |_1  -  cells of ij * scale of (4)
    (3)  the best pair that joins two trees, or none, by exponential noise on s        a sixth, over d - 1 choices
    (4)  c_ij <- counts over (x_i, x_j, y) + noise                      a half, over d - 1 pairs
         where none is the best: (1) once more, with all that is left

Symbols     d columns, y the label, noise discrete Laplace. One row moves s_ij by at most 1, two of them apart by 2.
Not covered persons (the caller pays for their rows); running time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np

from dpicl.accounting.events import pure
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.errors import ParameterError
from dpicl.mechanisms import noisy_count, noisy_max
from dpicl.randomness import Stream
from dpicl.types import PrivateCodes

CITATIONS = ("mckenna2021winning", "mckenna2022aim", "rogers2016privacy")
FIRST, CHOICE, SECOND = Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)
"""Parts of epsilon for equations (1), (3) and (4)."""
_SPREAD = 2
_MOST_COUNTS = 1 << 24
Pair = tuple[int, int]


@dataclass(frozen=True)
class NoisyMarginal:
    """Counts over some columns, shape (sizes of the columns), with discrete Laplace noise of this scale (0: none)."""

    columns: tuple[int, ...]
    counts: np.ndarray
    scale: float


@dataclass(frozen=True)
class Shares:
    """What each step may spend; None stands for infinity."""

    first: Fraction | None
    choice: Fraction | None
    second: Fraction | None

    @staticmethod
    def of(epsilon: float | Fraction, columns: int) -> Shares:
        """Of one column there is no pair: the first step has all."""
        total = noisy_count.exact_epsilon(epsilon)
        if total is None or columns == 1:
            return Shares(total, None, None)
        return Shares(total * FIRST / columns, total * CHOICE / (columns - 1), total * SECOND / (columns - 1))


def guarantee(epsilon: float | Fraction) -> Guarantee:
    """What `measure` costs, whatever it chooses: one event, since which steps there are depends on the rows."""
    total = noisy_count.exact_epsilon(epsilon)
    cost = math.inf if total is None else float(total)
    return Guarantee(cost, 0.0, Neighbours.ADD_OR_REMOVE_ONE, "row", pure(cost))


@dataclass(frozen=True)
class ExactCounts:
    """Private: int64 counts over every column with the label, and every two with it; those of two parts of the rows add up."""

    sizes: tuple[int, ...]
    tables: Mapping[tuple[int, ...], np.ndarray]

    @staticmethod
    def of(truth: PrivateCodes, sizes: Sequence[int]) -> ExactCounts:
        """Of rows with codes of shape (rows, columns), the label last."""
        label = len(sizes) - 1
        columns = [(column, label) for column in range(label)] + [(*pair, label) for pair in combinations(range(label), 2)]
        return ExactCounts(tuple(sizes), {some: _counts(truth.codes, some, sizes) for some in columns})

    def __add__(self, other: ExactCounts) -> ExactCounts:
        return ExactCounts(self.sizes, {columns: counts + other.tables[columns] for columns, counts in self.tables.items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file."""
        return {",".join(map(str, columns)): counts for columns, counts in self.tables.items()}

    @staticmethod
    def read(arrays: Mapping[str, np.ndarray]) -> ExactCounts:
        """The counts that `arrays` gave."""
        tables = {tuple(map(int, name.split(","))): counts for name, counts in arrays.items()}
        sizes = [counts.shape[0] for columns, counts in sorted(tables.items()) if len(columns) == 2]
        return ExactCounts((*sizes, tables[0, len(sizes)].shape[1]), tables)


def check_counts(sizes: Sequence[int], where: str) -> None:
    """Refuse more counts than memory is for.

    Raises:
        ParameterError: there are more than 2^24.
    """
    features, label = sizes[:-1], sizes[-1]
    cells = label * (sum(features) + (sum(features) ** 2 - sum(size**2 for size in features)) // 2)
    if cells > _MOST_COUNTS:
        raise ParameterError("columns", len(sizes), f"such with at most {_MOST_COUNTS:,} counts of pairs of columns; {where} has {cells:,}")


def _counts(codes: np.ndarray, columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    shape = tuple(sizes[column] for column in columns)
    cells = np.ravel_multi_index(tuple(codes[:, column].astype(np.int64) for column in columns), shape)
    return np.bincount(cells, minlength=prod(shape)).reshape(shape)


def measure(exact: ExactCounts, *, epsilon: float | Fraction, stream: Stream) -> list[NoisyMarginal]:
    """Equations (1) to (4): noisy counts of every column with the label, then those of the chosen pairs."""
    return measure_with(exact, Shares.of(epsilon, len(exact.sizes) - 1), stream)


def measure_with(exact: ExactCounts, shares: Shares, stream: Stream) -> list[NoisyMarginal]:
    """`measure`, with what each step may spend."""
    table = _Table(exact, stream)
    found = table.star(shares.first)
    scores = table.scores(found, shares.second)
    trees, left = list(range(table.features)), table.features - 1
    while left:
        joining = [pair for pair in scores if trees[pair[0]] != trees[pair[1]]]
        votes = [0, *(scores[pair] for pair in joining)]
        best = noisy_max.exponential_max(votes, epsilon=shares.choice, spread=_SPREAD, stream=stream)
        if best == 0:
            return found + table.star(_rest(shares, left, table.features))
        one, other = joining[best - 1]
        found.append(table.counted((one, other), shares.second))
        trees = [trees[one] if tree == trees[other] else tree for tree in trees]
        left -= 1
    return found


def _rest(shares: Shares, left: int, columns: int) -> Fraction | None:
    """For each column, once a choice has said that of `left` pairs none is worth counting."""
    if shares.choice is None or shares.second is None:
        return None
    return (left * shares.second + (left - 1) * shares.choice) / columns


@dataclass(frozen=True)
class _Table:
    """Private counts, and their noise."""

    exact: ExactCounts
    stream: Stream

    @property
    def features(self) -> int:
        return len(self.exact.sizes) - 1

    def counted(self, features: Iterable[int], epsilon: Fraction | None) -> NoisyMarginal:
        """Equations (1) and (4): counts over some columns and the label."""
        columns = (*features, self.features)
        exact = self.exact.tables[columns]
        noisy = noisy_count.noisy_counts(exact.ravel().tolist(), epsilon=epsilon, stream=self.stream)
        return NoisyMarginal(columns, np.array(noisy).reshape(exact.shape), _scale(epsilon))

    def star(self, epsilon: Fraction | None) -> list[NoisyMarginal]:
        """Equation (1) for all columns."""
        return [self.counted([column], epsilon) for column in range(self.features)]

    def scores(self, star: Sequence[NoisyMarginal], epsilon: Fraction | None) -> Mapping[Pair, int]:
        """Equation (2): whole numbers, each of which one row moves by at most 1."""
        of_label = np.maximum(np.mean([one.counts.sum(axis=0) for one in star], axis=0), 1)
        given = [np.maximum(one.counts, 0.5) / np.maximum(one.counts, 0.5).sum(axis=0) for one in star]
        found = {}
        for i, j in combinations(range(self.features), 2):
            independent = np.rint(given[i][:, np.newaxis] * given[j] * of_label).astype(np.int64)
            worth = np.abs(self.exact.tables[i, j, self.features] - independent).sum()
            found[i, j] = int(worth) - round(independent.size * _scale(epsilon))
        return found


def _scale(epsilon: Fraction | None) -> float:
    return 0.0 if epsilon is None else float(1 / epsilon)


def added(marginals: Iterable[NoisyMarginal]) -> list[NoisyMarginal]:
    """Counts of the same columns as one: their mean, weighted by how exact they are; post-processing."""
    found: dict[tuple[int, ...], NoisyMarginal] = {}
    for one in marginals:
        before = found.get(one.columns)
        found[one.columns] = one if before is None else _weighted(before, one)
    return list(found.values())


def _weighted(one: NoisyMarginal, other: NoisyMarginal) -> NoisyMarginal:
    if not one.scale or not other.scale:
        return one if not one.scale else other
    weight = other.scale**2 / (one.scale**2 + other.scale**2)
    counts = weight * one.counts + (1 - weight) * other.counts
    return replace(one, counts=counts, scale=one.scale * other.scale / float(np.hypot(one.scale, other.scale)))
