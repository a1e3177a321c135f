"""A page over all periods of a series: what is spent, how many rows came with what noise, and which columns drift. Costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.engine.horizon import Horizon
from dpicl.engine.one_release import plan_of
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError
from dpicl.methods import METHODS
from dpicl.quality.series import Drift, PeriodRows, drifts, rows_by_period
from dpicl.report.blocks import Cell, Pairs, Report, Section, Table, Text
from dpicl.report.html import to_html

_ROWS = (
    "Rows that entered{less}, from published sums: the noise of each number has the standard deviation beside it. A period's own number is little but "
    "noise where few rows come; that of all periods is what the budget is spent on."
)
_DRIFT = (
    "The last {window} periods against all before, by columns with the label: a chi-square test that takes the noise of both, and that they share "
    "some of it, into account. A small chance says that the shares have changed. With {columns} columns looked at, one of them is below "
    "{one_in} by chance in one page of twenty."
)


@dataclass(frozen=True)
class SeriesFacts:
    """What the page says: public names, the account, and what follows from published sums."""

    contract: str
    statement: str
    account: str
    spent: float
    cap: float | None
    periods: int
    rows: Sequence[PeriodRows]
    drifts: Sequence[Drift]
    window: int
    takes_back: bool


def series_facts(dataset: str, settings: Settings, *, epsilon: str, options: Mapping[str, Any], window: int) -> SeriesFacts:
    """Of the horizon that a contract states, at this epsilon; reads published sums only.
    Raises ParameterError: the contract has no horizon; LedgerError: none of its periods is released.
    """
    contract, plan = settings.contract(dataset), plan_of(dataset, None, settings, epsilon=epsilon, shots=1, options=options)
    ((_, unit),) = plan.units.items()
    method = METHODS[unit.method]
    if not method.is_series(contract):
        raise ParameterError("contract", dataset, "one with a horizon of periods, `releases.horizon`")
    with open_ledger(settings) as ledger:
        horizon = Horizon.of(ledger, plan, contract, unit, settings)
        released = horizon.published(horizon.series.periods)
        if not released:
            raise LedgerError(
                f"{dataset}: no period of this horizon is released; expected `dpicl protect {dataset}` with the same --epsilon first"
            )
        account, names = horizon.release.account, contract.releases.calendar.periods
        cap = next(one.epsilon_cap for one in ledger.accounts() if one.name == account)
        return SeriesFacts(
            dataset,
            method.statement(contract, unit, horizon.cell, method.releases(contract, unit)[horizon.cell]),
            account,
            ledger.spent(account).epsilon,
            cap,
            horizon.series.periods,
            rows_by_period(horizon.series, released, names),
            drifts(horizon.series, released, contract.features, window),
            window,
            contract.takes_back,
        )


def series_page(facts: SeriesFacts) -> str:
    """The whole page: HTML that fetches nothing and runs nothing."""
    cap = "none" if facts.cap is None else f"{facts.cap:.4g}"
    tiles = (("Periods released", f"{len(facts.rows)} of {facts.periods}"), ("ε spent", f"{facts.spent:.4g}"), ("Cap", cap))
    budget = f"Account {facts.account}: all periods of this horizon were charged with its first; those to come cost nothing more."
    opening = (Pairs(tiles, are_tiles=True), Text(budget))
    return to_html(Report(f"Series of {facts.contract}", facts.statement, opening, (_drift(facts), _rows(facts))))


def _rows(facts: SeriesFacts) -> Section:
    head = (*Cell.of_text("period"), *map(Cell, ("rows", "± noise", "all until then", "± noise")))
    lines = [
        (Cell(one.period), *(Cell(f"{value:,.0f}") for value in (one.arrived, one.arrived_deviation, one.total, one.total_deviation)))
        for one in reversed(facts.rows)
    ]
    said = _ROWS.format(less=", less those that took others back" if facts.takes_back else "")
    return Section("rows", "Rows by period", (Text(said), Table("Rows by period", head, tuple(lines))))


def _drift(facts: SeriesFacts) -> Section:
    said = _DRIFT.format(window=facts.window, columns=len(facts.drifts), one_in=f"{0.05 / max(1, len(facts.drifts)):.2g}")
    if not facts.drifts:
        return Section("drift", "Drift", (Text(f"There is nothing before the last {facts.window} periods to compare them with."),))
    head = (*Cell.of_text("column"), *map(Cell, ("chi-square", "degrees", "chance without drift")))
    lines = [
        (
            Cell(one.column),
            Cell("" if one.statistic is None else f"{one.statistic:.1f}"),
            Cell(f"{one.degrees}"),
            Cell("hidden by noise" if one.chance is None else f"{one.chance:.2g}"),
        )
        for one in facts.drifts
    ]
    return Section("drift", "Drift", (Text(said), Table("Drift", head, tuple(lines))))
