"""What the published sums of a series say by themselves: rows by period, with their noise, and which columns drift.

Guarantee   none spent: post-processing of published noisy sums.

    (1)  r, e       noisy counts of a column with the label, of the last w periods and of all before; n_r, n_e their sums
    (2)  d        = r / n_r - e / n_e;   p = (r + e) / (n_r + n_e)
    (3)  cov d    = (diag p - p p') (1 / n_r + 1 / n_e)  +  (v_r / n_r^2 + v_e / n_e^2 - 2 c / (n_r n_e)) (I - p 1') (I - 1 p')
    (4)  d' cov^+ d is chi-square with one degree less than there are cells, where nothing drifts

Symbols     v_r, v_e, c variances of the noise in a cell and their covariance, which `continual_counts` states.
Not covered rows that are not independent of each other, such as a person's; cells of few rows, of which (4) is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.methods.mst_series import SURE, Arrays, Series, window_rows


@dataclass(frozen=True)
class PeriodRows:
    """How many rows a period let in and how many there are until then, each with the standard deviation of its noise."""

    period: str
    arrived: float
    arrived_deviation: float
    total: float
    total_deviation: float


@dataclass(frozen=True)
class Drift:
    """Of one column with the label: equation (4), and how likely as much or more is without drift; None where noise hides it."""

    column: str
    statistic: float | None
    degrees: int
    chance: float | None


def rows_by_period(series: Series, released: Sequence[Arrays], names: Sequence[str]) -> list[PeriodRows]:
    """Of each published period."""
    periods = range(1, len(released) + 1)
    arrived, total = (window_rows(series, released, [(first or last, last) for last in periods]) for first in (0, 1))
    of_periods = zip(names, arrived.rows, arrived.deviations, total.rows, total.deviations, strict=False)
    return [PeriodRows(name, *map(float, numbers)) for name, *numbers in of_periods]


def drifts(series: Series, released: Sequence[Arrays], columns: Sequence[str], window: int) -> list[Drift]:
    """Equation (4) of every column: the last so many periods against all before; none where there are none before."""
    last = len(released)
    split = last - window
    if split < 1 or window < 1:
        return []
    recent, earlier = (series.window(released, *places) for places in ((split + 1, last), (1, split)))
    covariance = series.columns.covariance([(split + 1, last), (1, split)])
    of_columns = zip(columns, recent, earlier, strict=False)
    return [_drift(name, one.counts.ravel(), other.counts.ravel(), covariance) for name, one, other in of_columns]


def _drift(name: str, recent: np.ndarray, earlier: np.ndarray, covariance: np.ndarray) -> Drift:
    """Equations (2) to (4)."""
    from scipy.special import chdtrc  # imported only where it is called

    cells, sums = len(recent), np.array([recent.sum(), earlier.sum()])
    if (sums < SURE * np.sqrt(cells * np.diagonal(covariance)) + 1).any():
        return Drift(name, None, cells - 1, None)
    shares = np.maximum(recent + earlier, 0)
    shares = shares / shares.sum()
    difference = recent / sums[0] - earlier / sums[1]
    weights = np.array([1, -1]) / sums
    centred = np.eye(cells) - np.outer(shares, np.ones(cells))
    spread = (np.diag(shares) - np.outer(shares, shares)) * (1 / sums).sum() + (weights @ covariance @ weights) * centred @ centred.T
    statistic = float(difference @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ difference)
    return Drift(name, statistic, cells - 1, float(chdtrc(cells - 1, statistic)))
