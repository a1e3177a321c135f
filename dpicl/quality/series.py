"""What the published sums of a series say by themselves: rows by period, with their noise; which
columns drift; and how good what each period releases is, on public rows too.

Guarantee   none spent: post-processing of published noisy sums, and rows that the contract declares
            public.
Paper       (6) Hanley and McNeil 1982 (`measures`).

    (1)  r, e       noisy counts of a column with the label (of group averages: within a group), of
         the last w periods and of all before;
                    n_r, n_e their sums
    (2)  d        = r / n_r - e / n_e;   p = (r + e) / (n_r + n_e)
    (3)  cov d    = (diag p - p p') (1 / n_r + 1 / n_e)  +  (v_r / n_r^2 + v_e / n_e^2 - 2 c / (n_r
         n_e)) (I - p 1') N (I - 1 p')
    (4)  d' cov^+ d is chi-square with one degree less than there are cells, where nothing drifts;
         so is the sum over groups, whose rows and noise are independent
    (5)  e_c        what noise alone is expected to do to a column, at as many rows as the sums say
         there are (`CountedHorizon.error_is`)
    (6)  AUC        of logistic regression fitted on rows of a window's model, on public rows; the
         deviation that so few of these give it. Of methods that have such rows: group averages are
         no model of rows

A mean is two cells, the shares of a value's distances to its bounds: (3) has the variance of the
widest law with that mean, so that a drift is rather missed than feigned. The shares of the groups
are one more column.

Symbols     v_r, v_e, c variances of a counter's noise in both and their covariance, which
            `continual_counts` states; N how it falls on the cells, the identity where each has its
            own counter. A window is all periods until one, or the last w of these.
Not covered rows that are not independent of each other, such as a person's; cells of few rows, of
            which (4) is near; what rows differ by from those that come next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from dpicl.ground.types import QueryTable
from dpicl.methods.base import draws_for
from dpicl.methods.counted_horizon import SURE, Arrays, Compared, CountedHorizon
from dpicl.quality.measures import auc_variance, learned, scores
from dpicl.quality.worth import ReleasePoint


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
    covariance = series.counters.covariance(windows)
    parts = defaultdict[int, list[tuple[float | None, int]]](list)
    for compared in series.compared(released, windows):
        parts[compared.column].append(_statistic(compared, covariance))
    return [_drift(columns[column], of_column) for column, of_column in sorted(parts.items())]


def _drift(name: str, parts: Sequence[tuple[float | None, int]]) -> Drift:
    """Equation (4) of one column's parts; those that noise hides say nothing."""
    from scipy.special import chdtrc  # imported only where it is called

    seen = [(statistic, degrees) for statistic, degrees in parts if statistic is not None]
    if not seen:
        return Drift(name, None, sum(degrees for _, degrees in parts), None)
    statistic, degrees = map(sum, zip(*seen, strict=True))
    return Drift(name, statistic, degrees, float(chdtrc(degrees, statistic)))


def _statistic(compared: Compared, covariance: np.ndarray) -> tuple[float | None, int]:
    """Equations (2) to (4), and the degrees; None where noise hides one of the windows."""
    recent, earlier = compared.counts
    sums = compared.counts.sum(axis=1)
    cells = len(recent)
    if (sums < SURE * np.sqrt(compared.noise.sum() * np.diagonal(covariance)) + 1).any():
        return None, cells - 1
    shares = np.maximum(recent + earlier, 0)
    shares = shares / shares.sum()
    difference = recent / sums[0] - earlier / sums[1]
    weights = np.array([1, -1]) / sums
    centred = np.eye(cells) - np.outer(shares, np.ones(cells))
    spread = (np.diag(shares) - np.outer(shares, shares)) * (1 / sums).sum()
    spread += (weights @ covariance @ weights) * centred @ compared.noise @ centred.T
    return float(
        difference @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ difference
    ), cells - 1


MOST_MODELS = 24
"""Periods whose models are judged on public rows: each takes a fit or two."""


@dataclass(frozen=True)
class PeriodErrors:
    """Equation (5) until a period: the mean over columns and the largest one's, of all until then
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
    """Equation (6) until a period, of all until then and of the last w; the deviations are None
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
    return [
        PeriodErrors(
            name,
            float(total.mean()),
            float(total.max()),
            columns[int(np.argmax(total))],
            float(recent.mean()),
            float(recent.max()),
        )
        for name, total, recent in zip(names, totals, recents, strict=False)
    ]


def aucs_by_period(
    point: ReleasePoint,
    series: CountedHorizon[Any, Any],
    released: Sequence[Arrays],
    public: QueryTable,
    window: int,
) -> list[PeriodAuc]:
    """Equation (6) of the first period, the last, and as many between as `MOST_MODELS` lets be;
    none where the public rows have no two answers.
    """
    test = point.bins(public)
    encoding = point.encoding
    names = point.contract.periods
    draws = draws_for(point.contract, point.asked.seed)

    def tested(first: int, last: int) -> tuple[float, float | None]:
        rows = point.method.rows(series.window(released[:last], first, last), *point.place, draws)
        model = learned(encoding.decode(rows.codes), encoding.bin_counts, draws)
        auc = scores(model, test, encoding.bin_counts).auc
        return auc, _deviation(auc, test)

    if len(np.unique(test[:, -1])) < 2:
        return []
    some = np.linspace(1, len(released), min(len(released), MOST_MODELS))
    return [
        PeriodAuc(names[last - 1], *tested(1, last), *tested(max(1, last - window + 1), last))
        for last in sorted({round(place) for place in some})
    ]


def _deviation(auc: float, test: np.ndarray) -> float | None:
    """Equation (6)'s; None of more than two answers."""
    no, yes, *more = np.bincount(test[:, -1], minlength=2)
    if more:
        return None
    return sqrt(auc_variance(auc, no, yes))
