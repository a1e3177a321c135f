"""What the published sums of a series say by themselves: rows by period, with their noise, and
which columns drift.

Guarantee   none spent: post-processing of published noisy sums.

    (1)  r, e       noisy counts of a column with the label (of group averages: within a group), of
         the last w periods and of all before;
                    n_r, n_e their sums
    (2)  d        = r / n_r - e / n_e;   p = (r + e) / (n_r + n_e)
    (3)  cov d    = (diag p - p p') (1 / n_r + 1 / n_e)  +  (v_r / n_r^2 + v_e / n_e^2 - 2 c / (n_r
         n_e)) (I - p 1') N (I - 1 p')
    (4)  d' cov^+ d is chi-square with one degree less than there are cells, where nothing drifts;
         so is the sum over groups, whose rows and noise are independent

A mean is two cells, the shares of a value's distances to its bounds: (3) has the variance of the
widest law with that mean, so that a drift is rather missed than feigned. The shares of the groups
are one more column.

Symbols     v_r, v_e, c variances of a counter's noise in both and their covariance, which
            `continual_counts` states; N how it falls on the cells, the identity where each has its
            own counter.
Not covered rows that are not independent of each other, such as a person's; cells of few rows, of
which (4) is near.

How good what each period releases is, from published sums, and from rows that the contract declares
public.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.ground.types import QueryTable
from dpicl.methods.base import draws_for
from dpicl.methods.counted_horizon import SURE, Arrays, Compared, CountedHorizon
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.replicates import learned, scores


@dataclass(frozen=True)
class PeriodRows:
    """How many rows a period let in and how many there are until then, each with the standard
    deviation of its noise.
    """

    period: str
    arrived: float
    arrived_deviation: float
    total: float
    total_deviation: float


@dataclass(frozen=True)
class Drift:
    """Of one column: equation (4), and how likely as much or more is without drift; None where
    noise hides it.
    """

    column: str
    statistic: float | None
    degrees: int
    chance: float | None


def rows_by_period(
    series: CountedHorizon[Any, Any], released: Sequence[Arrays], names: Sequence[str]
) -> list[PeriodRows]:
    """Of each published period."""
    periods = range(1, len(released) + 1)
    arrived, total = (
        series.window_rows(released, [(first or last, last) for last in periods])
        for first in (0, 1)
    )
    of_periods = zip(
        names, arrived.rows, arrived.deviations, total.rows, total.deviations, strict=False
    )
    return [PeriodRows(name, *map(float, numbers)) for name, *numbers in of_periods]


def drifts(
    series: CountedHorizon[Any, Any],
    released: Sequence[Arrays],
    columns: Sequence[str],
    window: int,
) -> list[Drift]:
    """Equation (4) of every column that is counted: the last so many periods against all before;
    none where there are none before. `columns` are the contract's features, and what
    `Compared.column` counts after them.
    """
    last = len(released)
    split = last - window
    if split < 1 or window < 1:
        return []
    windows = [(split + 1, last), (1, split)]
    covariance, parts = (
        series.counters.covariance(windows),
        defaultdict[int, list[tuple[float | None, int]]](list),
    )
    for one in series.compared(released, windows):
        parts[one.column].append(_statistic(one, covariance))
    return [_drift(columns[column], of_column) for column, of_column in sorted(parts.items())]


def _drift(name: str, parts: Sequence[tuple[float | None, int]]) -> Drift:
    """Equation (4) of one column's parts; those that noise hides say nothing."""
    from scipy.special import chdtrc  # imported only where it is called

    seen = [(statistic, degrees) for statistic, degrees in parts if statistic is not None]
    if not seen:
        return Drift(name, None, sum(degrees for _, degrees in parts), None)
    statistic, degrees = sum(one for one, _ in seen), sum(one for _, one in seen)
    return Drift(name, statistic, degrees, float(chdtrc(degrees, statistic)))


def _statistic(one: Compared, covariance: np.ndarray) -> tuple[float | None, int]:
    """Equations (2) to (4), and the degrees; None where noise hides one of the windows."""
    (recent, earlier), sums = one.counts, one.counts.sum(axis=1)
    cells = len(recent)
    if (sums < SURE * np.sqrt(one.noise.sum() * np.diagonal(covariance)) + 1).any():
        return None, cells - 1
    shares = np.maximum(recent + earlier, 0)
    shares = shares / shares.sum()
    difference = recent / sums[0] - earlier / sums[1]
    weights = np.array([1, -1]) / sums
    centred = np.eye(cells) - np.outer(shares, np.ones(cells))
    spread = (np.diag(shares) - np.outer(shares, shares)) * (1 / sums).sum()
    spread += (weights @ covariance @ weights) * centred @ one.noise @ centred.T
    return float(
        difference @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ difference
    ), cells - 1


MOST_MODELS = 24
"""Periods whose models are judged on public rows: each takes a fit or two."""


@dataclass(frozen=True)
class PeriodErrors:
    """Equation (1) until a period: the mean over columns and the largest one's, of all until then
    and of the last w.
    """

    period: str
    total: float
    total_worst: float
    worst_column: str
    recent: float
    recent_worst: float


@dataclass(frozen=True)
class PeriodAuc:
    """Equation (2) until a period, of all until then and of the last w; the deviations are None
    where there are more than two answers.
    """

    period: str
    total: float
    total_deviation: float | None
    recent: float
    recent_deviation: float | None


def errors_by_period(
    series: CountedHorizon[Any, Any],
    released: Sequence[Arrays],
    names: Sequence[str],
    columns: Sequence[str],
    window: int,
) -> list[PeriodErrors]:
    """Of each published period."""
    periods = range(1, len(released) + 1)
    totals, recents = (
        series.errors(released, [(max(1, last - reach + 1), last) for last in periods])
        for reach in (len(released), window)
    )
    found = []
    for name, total, recent in zip(names, totals, recents, strict=False):
        worst = int(np.argmax(total))
        measured = (
            float(total.mean()),
            float(total[worst]),
            columns[worst],
            float(recent.mean()),
            float(recent.max()),
        )
        found.append(PeriodErrors(name, *measured))
    return found


@dataclass(frozen=True)
class RowMaker:
    """What makes rows of a horizon's sums."""

    method: TabularMethod[Any]
    contract: Contract
    point: Point[Any]
    series: CountedHorizon[Any, Any]

    def aucs_by_period(
        self, released: Sequence[Arrays], names: Sequence[str], public: QueryTable, window: int
    ) -> list[PeriodAuc]:
        """Of the first, the last, and as many between as `MOST_MODELS` lets be; none where the
        public rows have no two answers.
        """
        test = self.method.bins(public, self.contract)
        if len(np.unique(test[:, -1])) < 2:
            return []
        found = []
        for last in _some(len(released)):
            total, recent = (
                self._auc(released, first, last, test) for first in (1, max(1, last - window + 1))
            )
            found.append(
                PeriodAuc(
                    names[last - 1],
                    total,
                    _deviation(total, test),
                    recent,
                    _deviation(recent, test),
                )
            )
        return found

    def _auc(self, released: Sequence[Arrays], first: int, last: int, test: np.ndarray) -> float:
        draws = draws_for(self.contract, self.point.seed)
        window = self.series.window(released[:last], first, last)
        rows = self.method.rows(window, self.contract, self.point, draws)
        encoding = self.method.form(self.contract, self.point).encoding
        return scores(
            learned(encoding.decode(rows.codes), encoding.bin_counts, draws),
            test,
            encoding.bin_counts,
        )[0]


def _some(periods: int) -> list[int]:
    """The last, the first, and evenly between."""
    return sorted({round(place) for place in np.linspace(1, periods, min(periods, MOST_MODELS))})


def _deviation(auc: float, test: np.ndarray) -> float | None:
    """Equation (2)'s; None of more than two answers."""
    one, other, *more = np.bincount(test[:, -1], minlength=2)
    if more:
        return None
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (one - 1) * (first - auc**2) + (other - 1) * (second - auc**2)
    return float(np.sqrt(max(0.0, spread) / (one * other)))
