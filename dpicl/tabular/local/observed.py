"""What reports say about the population, in one form for every collection: counts of cells, and what is left of each moment.

Guarantee   none spent: post-processing of epsilon-LDP reports.

    (1)  shares of reports over the cells of some columns  =  synthesise(left * moments of these columns) / cells
    (2)  log-likelihood = sum of counts * log (1)

All columns of one report on their own: `left` is the product of what each column's law leaves.
One report over the cells of several columns: L for every moment, 1 for the constant. Unary
encoded reports have no such law; they are restated as reports over cells of the same variance.

Symbols     L = p - q, truth and lie probability of a response.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np

from dpicl.mechanisms.randomised_response import Response
from dpicl.mechanisms.unary_encoding import Unary
from dpicl.tabular.local.moments import analyse, places, synthesise
from dpicl.tabular.local.reconstruct import report_counts
from dpicl.tabular.local.tally import Tally
from dpicl.types import LocalReports

_TINY = 1e-300


@dataclass(frozen=True)
class Asked:
    """Reports on one set of columns: counts and what is left of moments, both of shape (cells of the columns)."""

    columns: tuple[int, ...]
    counts: np.ndarray
    left: np.ndarray


@dataclass(frozen=True)
class Observed:
    """All reports on a population with columns of these sizes."""

    sizes: tuple[int, ...]
    asked: tuple[Asked, ...]

    @cached_property
    def count(self) -> float:
        """Reports in all."""
        return float(sum(one.counts.sum() for one in self.asked))

    @cached_property
    def spoken_of(self) -> np.ndarray:
        """Whether some question has all columns of a moment: shape `sizes`."""
        found = np.zeros(prod(self.sizes), dtype=bool)
        for columns in {one.columns for one in self.asked}:
            found[places(columns, self.sizes)] = True
        return found.reshape(self.sizes)

    @cached_property
    def _batches(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Questions over cells of one shape together: where their moments stand, `left` and counts, each (questions, *shape)."""
        by_shape: dict[tuple[int, ...], list[Asked]] = {}
        for one in self.asked:
            by_shape.setdefault(one.counts.shape, []).append(one)
        return [
            (
                np.stack([places(one.columns, self.sizes) for one in some]).reshape(len(some), *shape),
                np.stack([one.left for one in some]),
                np.stack([one.counts for one in some]),
            )
            for shape, some in by_shape.items()
        ]

    def likelihood(self, moments: np.ndarray) -> tuple[float, np.ndarray]:
        """Equation (2) at the moments of all columns, flat, and its gradient there."""
        total, gradient = 0.0, np.zeros_like(moments)
        for where, left, counts in self._batches:
            shares = np.maximum(synthesise(left * moments[where], first=1) / left[0].size, _TINY)
            total += float((counts * np.log(shares)).sum())
            slope = left * analyse(counts / shares, first=1) / left[0].size
            gradient += np.bincount(where.ravel(), slope.ravel(), minlength=len(moments))
        return total, gradient

    def on(self, columns: Sequence[int]) -> Observed:
        """What is said about some columns alone, which get the numbers 0, 1, 2, ...; reports on none of them are left out."""
        numbers = np.full(len(self.sizes), -1)
        numbers[list(columns)] = np.arange(len(columns))
        parts = [part for asked, counts, left in self._stacks for part in _parts(numbers[asked], counts, left)]
        return Observed(tuple(self.sizes[column] for column in columns), tuple(_pooled(parts)))

    @cached_property
    def _stacks(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Questions under one law together: their columns, shape (questions, axes), their counts, and `left`."""
        by_law: dict[tuple[tuple[int, ...], bytes], list[Asked]] = {}
        for one in self.asked:
            by_law.setdefault((one.left.shape, one.left.tobytes()), []).append(one)
        return [(np.array([one.columns for one in some]), np.stack([one.counts for one in some]), some[0].left) for some in by_law.values()]


def _parts(numbers: np.ndarray, counts: np.ndarray, left: np.ndarray) -> Iterator[Asked]:
    """Of questions under one law, what is said of the axes with a new number, -1 being none: those alike are added first."""
    kinds, kind_of = np.unique(numbers, axis=0, return_inverse=True)
    for kind, renamed in enumerate(kinds.tolist()):
        kept = [axis for axis, number in enumerate(renamed) if number >= 0]
        if kept:
            others = tuple(axis for axis in range(left.ndim) if axis not in kept)
            constants = tuple(slice(None) if axis in kept else 0 for axis in range(left.ndim))
            order = np.argsort([renamed[axis] for axis in kept])
            summed = counts[kind_of.ravel() == kind].sum(axis=0).sum(axis=others)
            yield Asked(tuple(sorted(renamed[axis] for axis in kept)), summed.transpose(order), left[constants].transpose(order))


def _pooled(parts: Iterable[Asked]) -> list[Asked]:
    """Counts of the same columns under the same law add up."""
    found: dict[tuple[tuple[int, ...], bytes], Asked] = {}
    for one in parts:
        same = (one.columns, one.left.tobytes())
        found[same] = Asked(one.columns, one.counts + found[same].counts, one.left) if same in found else one
    return list(found.values())


@dataclass(frozen=True)
class Reported:
    """Of clients that report every column on its own, under public laws: counts are made for those columns only that are looked at."""

    reports: LocalReports
    laws: tuple[Response, ...]

    @property
    def stored(self) -> np.ndarray:
        """What is released: shape (clients, columns)."""
        return self.reports.codes

    @property
    def clients(self) -> int:
        """How many reported."""
        return len(self.reports.codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all columns."""
        return tuple(law.categories for law in self.laws)

    def on(self, columns: Sequence[int]) -> Observed:
        """What is said about some columns alone, which get the numbers 0, 1, 2, ..."""
        laws = [self.laws[column] for column in columns]
        sizes = tuple(law.categories for law in laws)
        factors = [np.where(np.arange(law.categories) == 0, 1.0, law.truth_probability - law.lie_probability) for law in laws]
        counts = report_counts(LocalReports(self.reports.codes[:, list(columns)]), sizes).reshape(sizes)
        return Observed(sizes, (Asked(tuple(range(len(sizes))), counts, reduce(np.multiply.outer, factors)),))


def observed_tally(found: Tally) -> Observed:
    """Of clients that answer one question each; questions that nobody was asked are left out."""
    sizes, asked = found.questionnaire.sizes, []
    for question, clients, counts in zip(found.questionnaire.questions, found.asked.tolist(), found.counts, strict=True):
        if clients:
            restated, kept = _restated(counts, clients, question.law)
            left = np.full(question.sizes, kept)
            left[(0,) * left.ndim] = 1.0
            asked.append(Asked(question.columns, restated.reshape(question.sizes), left))
    return Observed(sizes, tuple(asked))


def _restated(counts: np.ndarray, clients: int, law: Response | Unary) -> tuple[np.ndarray, float]:
    """Counts of cells under a response, and L; those of few clients may be negative, which adding up to many mends without bias."""
    if isinstance(law, Response):
        return counts.astype(np.float64), law.truth_probability - law.lie_probability
    even, odds = 1 / law.categories, math.exp(law.epsilon)
    shares = (counts / clients - law.lie_probability) / (0.5 - law.lie_probability)
    kept = math.sqrt(even * (1 - even)) * (odds - 1) / (2 * math.sqrt(odds))
    return clients * (even + kept * (shares - shares.mean())), kept
