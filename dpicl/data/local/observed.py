"""Reports on a population, in one form for every collection: counts of cells, and how far each
moment is attenuated.

Guarantee   none spent: post-processing of epsilon-LDP reports.

    (1)  shares of reports over the cells of some columns  =  synthesise(L * moments of these
         columns) / cells
    (2)  log-likelihood = sum of counts * log (1)

All columns of one report on their own: the attenuation L is the product of those of each column's
law. One report over the cells of several columns: L for every moment, 1 for the constant. Unary
encoded reports have no such law; they are restated as reports over cells of the same variance.
Reports of an agreement are one over two halves of the cells, which have as many each: in (1) every
cell has the mean of its half, and of the counts an equal part.

Symbols     L = p - q, truth and lie probability of a response.

From randomised reports to rows that look like the population's.

Shares of cells and moments of columns: two views of one distribution over categories.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, reduce
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpicl.data.local.questions import Tally, same_half
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.types import LocalReports, ReleasedRows
from dpicl.mechanisms.randomised_response import Response

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_TINY = 1e-300


@dataclass(frozen=True)
class ColumnReports:
    """Reports on one set of columns: counts and how far moments are attenuated, both of shape
    (cells of the columns).
    """

    columns: tuple[int, ...]
    counts: np.ndarray
    attenuation: np.ndarray
    agreement: bool = False


@dataclass(frozen=True)
class Observed:
    """All reports on a population with columns of these sizes."""

    sizes: tuple[int, ...]
    reports: tuple[ColumnReports, ...]

    @cached_property
    def count(self) -> float:
        """Reports in all."""
        return float(sum(report.counts.sum() for report in self.reports))

    @cached_property
    def covered(self) -> np.ndarray:
        """Whether some question has all columns of a moment: shape `sizes`."""
        covered = np.zeros(prod(self.sizes), dtype=bool)
        for columns in {report.columns for report in self.reports}:
            covered[places(columns, self.sizes)] = True
        return covered.reshape(self.sizes)

    @cached_property
    def _by_shape(self) -> list[tuple[bool, np.ndarray, np.ndarray, np.ndarray]]:
        """Questions over cells of one shape together: whether they ask for agreement, where their
        moments stand, attenuation and counts, each (questions, *shape).
        """
        by_shape = []
        for some in _alike(self.reports, lambda report: (report.counts.shape, report.agreement)):
            where = np.stack(
                [places(report.columns, self.sizes).reshape(report.counts.shape) for report in some]
            )
            arrays = (
                np.stack([report.attenuation for report in some]),
                np.stack([report.counts for report in some]),
            )
            by_shape.append((some[0].agreement, where, *arrays))
        return by_shape

    def likelihood(self, moments: np.ndarray) -> tuple[float, np.ndarray]:
        """Equation (2) at the moments of all columns, flat, and its gradient there."""
        total, gradient = 0.0, np.zeros_like(moments)
        for agreement, where, attenuation, counts in self._by_shape:
            shares = np.maximum(
                synthesise(attenuation * moments[where], first=1) / attenuation[0].size, _TINY
            )
            if agreement:
                shares = _by_half(shares)
            total += float((counts * np.log(shares)).sum())
            slope = (
                attenuation
                * analyse(_by_half(counts / shares) if agreement else counts / shares, first=1)
                / attenuation[0].size
            )
            gradient += np.bincount(where.ravel(), slope.ravel(), minlength=len(moments))
        return total, gradient

    def on(self, columns: Sequence[int]) -> Observed:
        """The reports restricted to some columns, which get the numbers 0, 1, 2, ...; reports on
        none of them are left out. Counts of the same columns under the same law add up.
        """
        numbers = np.full(len(self.sizes), -1)
        numbers[list(columns)] = np.arange(len(columns))
        pooled: dict[tuple[tuple[int, ...], bytes, bool], ColumnReports] = {}
        for agreement, old_columns, counts, attenuation in self._by_law:
            for report in _restricted(numbers[old_columns], counts, attenuation, agreement):
                same = (report.columns, report.attenuation.tobytes(), agreement)
                pooled[same] = (
                    replace(report, counts=report.counts + pooled[same].counts)
                    if same in pooled
                    else report
                )
        return Observed(tuple(self.sizes[column] for column in columns), tuple(pooled.values()))

    @cached_property
    def _by_law(self) -> list[tuple[bool, np.ndarray, np.ndarray, np.ndarray]]:
        """Questions under one law together: whether they ask for agreement, their columns, shape
        (questions, axes), their counts, and the attenuation.
        """
        by_law = _alike(
            self.reports,
            lambda report: (
                report.attenuation.shape,
                report.attenuation.tobytes(),
                report.agreement,
            ),
        )
        return [
            (
                some[0].agreement,
                np.array([report.columns for report in some]),
                np.stack([report.counts for report in some]),
                some[0].attenuation,
            )
            for some in by_law
        ]


def _alike(
    reports: Iterable[ColumnReports], kind: Callable[[ColumnReports], Hashable]
) -> Iterable[list[ColumnReports]]:
    """Reports of one kind together, kinds as they come."""
    alike = defaultdict(list)
    for report in reports:
        alike[kind(report)].append(report)
    return alike.values()


def _restricted(
    numbers: np.ndarray, counts: np.ndarray, attenuation: np.ndarray, agreement: bool
) -> Iterator[ColumnReports]:
    """Of questions under one law, the reports on the axes with a new number, -1 being none: those
    alike are added first. That two columns agree says nothing of one alone.
    """
    kinds, kind_of = np.unique(numbers, axis=0, return_inverse=True)
    for kind, renamed in enumerate(kinds.tolist()):
        named = [number for number in renamed if number >= 0]
        others = tuple(axis for axis, number in enumerate(renamed) if number < 0)
        if named and not (agreement and any(counts.shape[1 + axis] > 1 for axis in others)):
            constants = tuple(slice(None) if number >= 0 else 0 for number in renamed)
            order = np.argsort(named)
            summed = counts[kind_of.ravel() == kind].sum(axis=0).sum(axis=others)
            columns = tuple(sorted(named))
            yield ColumnReports(
                columns, summed.transpose(order), attenuation[constants].transpose(order), agreement
            )


def _by_half(values: np.ndarray) -> np.ndarray:
    """Values of shape (questions, *shape), each replaced by the mean of those cells that agree as
    this one does.
    """
    same = same_half(values.shape[1:])
    agreeing, others = (
        values[:, cells].mean(axis=1).reshape(-1, *(1,) * same.ndim) for cells in (same, ~same)
    )
    return np.where(same, agreeing, others)


@dataclass(frozen=True)
class Reported:
    """Of clients that report every column on its own, under public laws: counts are made of the
    columns that are requested.
    """

    reports: LocalReports
    laws: tuple[Response, ...]

    @property
    def stored(self) -> np.ndarray:
        """What is released: shape (clients, columns), client after client, since a release's bytes
        tell one order from the other.
        """
        return np.ascontiguousarray(self.reports.codes)

    @property
    def clients(self) -> int:
        """How many reported."""
        return len(self.reports.codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all columns."""
        return tuple(law.categories for law in self.laws)

    def on(self, columns: Sequence[int]) -> Observed:
        """The reports restricted to some columns, which get the numbers 0, 1, 2, ..."""
        laws = [self.laws[column] for column in columns]
        sizes = tuple(law.categories for law in laws)
        factors = [
            np.where(
                np.arange(law.categories) == 0, 1.0, law.truth_probability - law.lie_probability
            )
            for law in laws
        ]
        counts = report_counts(LocalReports(self.reports.codes[:, list(columns)]), sizes).reshape(
            sizes
        )
        return Observed(
            sizes,
            (ColumnReports(tuple(range(len(sizes))), counts, reduce(np.multiply.outer, factors)),),
        )


def observed_tally(tally: Tally) -> Observed:
    """Of clients that answer one question each; questions that no client was given are left out."""
    sizes, reports = tally.questionnaire.sizes, []
    for question, clients, counts in zip(
        tally.questionnaire.questions, tally.clients_of.tolist(), tally.counts, strict=True
    ):
        if clients:
            law = question.law
            if isinstance(law, Response):
                restated = counts.astype(np.float64)
                factor = law.truth_probability - law.lie_probability
                if question.agreement:
                    restated = (restated / (prod(question.sizes) / 2))[
                        same_half(question.sizes).astype(np.int64)
                    ]
            else:
                # those of few clients may be negative, which adding up to many mends without bias
                even = 1 / law.categories
                odds = math.exp(law.epsilon)
                shares = (counts / clients - law.lie_probability) / (0.5 - law.lie_probability)
                factor = math.sqrt(even * (1 - even)) * (odds - 1) / (2 * math.sqrt(odds))
                restated = clients * (even + factor * (shares - shares.mean()))
            attenuation = np.full(question.sizes, factor)
            attenuation[(0,) * attenuation.ndim] = 1.0
            reports.append(
                ColumnReports(
                    question.columns,
                    restated.reshape(question.sizes),
                    attenuation,
                    question.agreement,
                )
            )
    return Observed(sizes, tuple(reports))


Estimator = Literal["simplex", "clip", "none"]
_GROUPED_CELLS = 32
"""Attributes are inverted together up to this many cells: small dense products run fastest."""


def report_counts(reports: LocalReports, sizes: Sequence[int]) -> np.ndarray:
    """How many reports fall into each cell: shape (prod sizes,), int64, last answer fastest."""
    cells = np.zeros(len(reports.codes), dtype=np.int64)
    for column, size in enumerate(sizes):
        cells *= size
        cells += reports.codes[:, column]
    return np.bincount(cells, minlength=prod(sizes))


def inverse_matrix(law: Response) -> np.ndarray:
    """Equation (1): shape (categories, categories).
    Raises PrivacyError: a lie is as likely as the truth, so that nothing can be recovered.
    """
    p = law.truth_probability
    q = law.lie_probability
    k = law.categories
    if p <= q:
        raise PrivacyError(
            f"keep_probability={p}: expected more than {q}; the reports carry no information"
        )
    return (np.eye(k) - q) / (p - q)


_ALONE = Lock()
"""The number of threads is the whole process's: set back by the thread that has set it."""


@cache
def _blas() -> ThreadpoolController:
    """What numpy has loaded: to look for it takes longer than to invert a few thousand cells."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def invert(shares: np.ndarray, laws: Sequence[Response]) -> np.ndarray:
    """Equation (1) for all columns: the inverse of the Kronecker product of their matrices times
    shares of cells, last answer fastest. Shape (cells,), float64; sums to the same total, may be
    negative. Works in the memory of two such vectors.

    In one thread: those of BLAS wait busily for each other, ten times as long as the work takes
    where another process has a core, and their number changes how sums are rounded.
    """
    values = np.array(shares, dtype=np.float64)
    result = np.empty(len(shares))
    before = 1
    with _ALONE, _blas().limit(limits=1):
        for matrix in _grouped(tuple(laws)):
            shape = (before, len(matrix), -1)
            # the last answers: one product instead of many with a column
            if before * len(matrix) == len(values):
                np.matmul(
                    values.reshape(before, len(matrix)),
                    matrix.T,
                    out=result.reshape(before, len(matrix)),
                )
            else:
                np.matmul(matrix, values.reshape(shape), out=result.reshape(shape))
            values, result, before = result, values, before * len(matrix)
    return values


@lru_cache(maxsize=256)
def _grouped(laws: tuple[Response, ...]) -> list[np.ndarray]:
    groups: list[list[np.ndarray]] = [[]]
    cells = 1
    for law in laws:
        if groups[-1] and cells * law.categories > _GROUPED_CELLS:
            groups.append([])
            cells = 1
        groups[-1].append(inverse_matrix(law))
        cells *= law.categories
    return [reduce(np.kron, group) for group in groups]


def project_on_simplex(values: np.ndarray) -> np.ndarray:
    """The nearest point of the probability simplex; equation (2)."""
    # A common shift changes nothing, and one must not drown in 10^18. What is nothing at a level
    # too low stays so (Michelot 1986).
    kept = values = values - values.max()
    while True:
        level = max((kept.sum() - 1) / len(kept), -1.0)
        above = kept[kept > level]
        if len(above) == len(kept):
            break
        kept = above
    values -= level
    return np.maximum(values, 0, out=values)


def clip_and_renormalise(values: np.ndarray) -> np.ndarray:
    """Negatives to zero, then divided by the sum; equation (3)."""
    clipped = np.maximum(values, 0)
    return np.asarray(clipped / clipped.sum())


def exact_row_counts(
    shares: np.ndarray, row_count: int, *, total: float | None = None
) -> np.ndarray:
    """Whole numbers of rows per cell that add up to `row_count`; equation (4). `total`: of the
    shares, those that are left out included.
    """
    ideal = shares * (row_count / (shares.sum() if total is None else total))
    counts = np.floor(ideal).astype(np.int64)
    missing = row_count - int(counts.sum())
    if missing:
        ideal -= counts
        least = np.partition(ideal, -missing)[-missing]
        counts[ideal > least] += 1
        ties = np.flatnonzero(ideal == least)  # the first cells, as many as are left
        counts[ties[: row_count - int(counts.sum())]] += 1
    return counts


def reconstruct(
    reports: LocalReports, laws: Sequence[Response], *, estimator: Estimator
) -> ReleasedRows:
    """As many rows as reports, ordered by cell, distributed as the population is estimated to be;
    `none` returns the reports themselves. There is at least one report. Raises ParameterError:
    unknown estimator.
    """
    if estimator == "none":
        return ReleasedRows(reports.codes)
    row_count = len(reports.codes)
    project = {"simplex": project_on_simplex, "clip": clip_and_renormalise}.get(estimator)
    if project is None:
        raise ParameterError("estimator", estimator, "simplex, clip or none")
    sizes = [law.categories for law in laws]
    estimate = project(invert(report_counts(reports, sizes) / row_count, laws))
    cells = np.flatnonzero(estimate)
    repeats = exact_row_counts(estimate[cells], row_count, total=float(estimate.sum()))
    cells, repeats = cells[repeats > 0], repeats[repeats > 0]
    levels = np.empty((len(cells), len(sizes)), dtype=np.uint8)
    for column, size in reversed([*enumerate(sizes)]):
        cells, levels[:, column] = np.divmod(cells, size)
    return ReleasedRows(np.repeat(levels, repeats, axis=0))


@lru_cache(maxsize=256)
def contrasts(categories: int) -> np.ndarray:
    """B: functions of one column, shape (categories, functions), constant first."""
    start = np.eye(categories)
    start[:, 0] = 1
    orthonormal, upper = np.linalg.qr(start)
    return np.asarray(orthonormal * np.sign(np.diag(upper)) * np.sqrt(categories))


def synthesise(moments: np.ndarray, first: int = 0) -> np.ndarray:
    """The sum of functions weighted by `moments`, axis by axis from axis `first` on: equation (2)
    times the cells.
    """
    for axis in range(first, moments.ndim):
        moments = _along(contrasts(moments.shape[axis]), moments, axis)
    return moments


def analyse(values: np.ndarray, first: int = 0) -> np.ndarray:
    """Equation (1), axis by axis from axis `first` on."""
    for axis in range(first, values.ndim):
        values = _along(contrasts(values.shape[axis]).T, values, axis)
    return values


def _along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    parts = values.reshape(-1, values.shape[axis], prod(values.shape[axis + 1 :]))
    mapped = parts[..., 0] @ matrix.T if parts.shape[2] == 1 else matrix @ parts
    return mapped.reshape(values.shape)


def orders(sizes: Sequence[int]) -> np.ndarray:
    """How many columns a moment speaks of, shape `sizes`."""
    return np.asarray(reduce(np.add.outer, [np.minimum(np.arange(size), 1) for size in sizes]))


def places(columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Where the moments of these columns alone stand among all, flat: shape (cells of the
    columns,).
    """
    steps = [np.arange(sizes[column]) * prod(sizes[column + 1 :]) for column in columns]
    return np.asarray(reduce(np.add.outer, steps)).reshape(-1)
