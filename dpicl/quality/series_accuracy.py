"""How good what each period releases is, from published sums, and from rows that the contract
declares public.

Guarantee   none spent: post-processing of published noisy sums, and public rows with their answers.
Paper       (2) Hanley and McNeil 1982.

    (1)  e_c    what noise alone is expected to do to a column, at as many rows as the sums say
         there are (`CountedHorizon.error_is`)
    (2)  AUC    of logistic regression fitted on rows of a window's model, on public rows; the
         deviation that so few of these give it.
                Of methods that have such rows: group averages are no model of rows

Symbols     a window is all periods until one, or the last w of these.
Not covered what rows differ by from those that come next, which (1) does not know, and (2) only as
far as public rows are like them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.methods.common import draws_for
from dpicl.methods.counted_horizon import Arrays, CountedHorizon
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Cell, Unit
from dpicl.quality.replicates import learned, scores
from dpicl.types import QueryTable

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
    unit: Unit
    cell: Cell
    series: CountedHorizon[Any, Any]

    def aucs_by_period(
        self, released: Sequence[Arrays], names: Sequence[str], public: QueryTable, window: int
    ) -> list[PeriodAuc]:
        """Of the first, the last, and as many between as `MOST_MODELS` lets be; none where the
        public rows have no two answers.
        """
        test = self.method.bins(public, self.contract, self.unit, self.cell)
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
        draws = draws_for(self.contract, self.unit.seed)
        rows = self.method.rows(
            self.series.window(released[:last], first, last),
            self.contract,
            self.unit,
            self.cell,
            draws,
        )
        encoding = self.method.form(self.contract, self.unit, self.cell).encoding
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
