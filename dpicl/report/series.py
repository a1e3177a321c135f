"""A page over all periods of a series: what is spent, how good each period's rows or averages are,
how many came, and which columns drift. Costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.engine.horizon import Horizon
from dpicl.engine.one_release import planned_table
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.request import ReleaseRequest
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError, SourceError
from dpicl.methods import METHODS, tabular
from dpicl.methods.counted_horizon import Arrays
from dpicl.quality.series import Drift, PeriodRows, drifts, rows_by_period
from dpicl.quality.series_accuracy import (
    MOST_MODELS,
    PeriodAuc,
    PeriodErrors,
    RowMaker,
    errors_by_period,
)
from dpicl.report.blocks import Cell, Figure, Pairs, Report, Section, Table, Text
from dpicl.report.html import to_html
from dpicl.report.series_figure import period_figure
from dpicl.tabular.reading.queries import load_queries
from dpicl.types import QueryTable

_ROWS = (
    "Rows that entered{less}, from published sums: the noise of each number has the standard "
    "deviation beside it. A period's own number is little "
    "but noise where few rows come; that of all periods is what the budget is spent on."
)
_DRIFT = (
    "The last {window} periods against all before, by {what}: a chi-square test that takes the "
    "noise of both, and that they share "
    "some of it, into account. A small chance says that {change} changed. With {columns} columns "
    "looked at, one of them is below "
    "{one_in} by chance in one page of twenty.{of_means}"
)
_ERRORS = (
    "{what}. Of rows of all periods until one, and of the last {window} of these; the mean over "
    "columns."
)
_BY_LABEL = "columns with the label"
_BY_GROUP = "columns within each group, then the label and how rows are shared among the groups"
_OF_MEANS = " A change of a mean is rather missed than feigned."
_AFTER_FEATURES = ("(label)", "(rows of groups)")
"""What is compared beside columns."""
_AUC = (
    "AUC of logistic regression that is fitted on rows of each model, on {count} public rows, "
    "with the standard deviation that so few rows give it. "
    "It says how well the rows predict what is like these public rows, not what comes next. {some}"
)
_NO_ROWS = (
    "No classifier is tested: group averages are no model of rows, and what they are worth as "
    "demonstrations a run says that asks a model with them."
)
_NO_LABEL, _NO_QUERIES = (
    "The contract has no label to predict.",
    "The contract declares no public rows (`queries`) to test a classifier on.",
)
_ONE_ANSWER = "All public rows have one answer, of which no AUC can be told."


@dataclass(frozen=True)
class SeriesFacts:
    """What the page says: public names, the account, and what follows from published sums and
    public rows. `untested` is why there is no AUC.
    """

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
    errors: Sequence[PeriodErrors]
    error_is: str
    has_rows: bool
    aucs: Sequence[PeriodAuc]
    public_rows: int
    untested: str


def series_facts(request: ReleaseRequest, settings: Settings, *, window: int) -> SeriesFacts:
    """Of the horizon that a contract states, of a method at this epsilon, and of so many shots
    where they are horizons of their own; reads published sums and public rows only. The last
    `window` periods are judged by themselves.
    Raises ParameterError: the contract has no horizon that the method counts; LedgerError: none of
    its periods is released; DataError: the public rows break a rule.
    """
    dataset = request.dataset
    contract, unit = settings.contract(dataset), planned_table(request, settings).unit
    counting = tabular(unit.method)
    if contract.releases.horizon is None:
        raise ParameterError(
            "contract", dataset, "one with a horizon of periods, `releases.horizon`"
        )
    if not counting.is_series(contract):
        able = ", ".join(name for name, one in METHODS.items() if one.is_series(contract))
        raise ParameterError("method", unit.method, f"one that counts a horizon: {able}")
    with open_ledger(settings) as ledger:
        horizon = Horizon.of(ledger, contract, unit, settings)
        released = horizon.published(horizon.series.periods)
        if not released:
            raise LedgerError(
                f"{dataset}: no period of this horizon is released; expected `dpicl protect "
                f"{dataset}` with the same --epsilon, --method and --shots first"
            )
        account, names, series = (
            horizon.release.account,
            contract.releases.calendar.periods,
            horizon.series,
        )
        cap = next(one.epsilon_cap for one in ledger.accounts() if one.name == account)
        spent = ledger.spent(account).epsilon
    return SeriesFacts(
        dataset,
        counting.statement(
            contract, unit, horizon.cell, counting.releases(contract, unit)[horizon.cell]
        ),
        account,
        spent,
        cap,
        series.periods,
        rows_by_period(series, released, names),
        drifts(series, released, (*contract.features, *_AFTER_FEATURES), window),
        window,
        contract.takes_back,
        errors_by_period(series, released, names, contract.features, window),
        series.error_is,
        counting.derive_stage is not None,
        *_tested(
            RowMaker(counting, contract, unit, horizon.cell, series), released, settings, window
        ),
    )


def _tested(
    rows: RowMaker, released: Sequence[Arrays], settings: Settings, window: int
) -> tuple[list[PeriodAuc], int, str]:
    """On public rows; how many these are; or why there is no AUC."""
    contract = rows.contract
    if rows.method.derive_stage is None:
        return [], 0, _NO_ROWS
    if contract.label is None:
        return [], 0, _NO_LABEL
    try:
        public = load_queries(contract, data_folder=settings.data)
    except SourceError as error:
        return [], 0, f"No classifier is tested: {error}."
    if public is None:
        return [], 0, _NO_QUERIES
    aucs = rows.aucs_by_period(
        released, contract.releases.calendar.periods, QueryTable(public), window
    )
    return aucs, public.num_rows, "" if aucs else _ONE_ANSWER


def series_page(facts: SeriesFacts) -> str:
    """The whole page: HTML that fetches nothing and runs nothing."""
    cap = "none" if facts.cap is None else f"{facts.cap:.4g}"
    tiles = (
        ("Periods released", f"{len(facts.rows)} of {facts.periods}"),
        ("ε spent", f"{facts.spent:.4g}"),
        ("Cap", cap),
    )
    budget = (
        f"Account {facts.account}: all periods of this horizon were charged with its first; those "
        f"to come cost nothing more."
    )
    opening = (Pairs(tiles, are_tiles=True), Text(budget))
    return to_html(
        Report(
            f"Series of {facts.contract}",
            facts.statement,
            opening,
            (_accuracy(facts), _drift(facts), _rows(facts)),
        )
    )


def _accuracy(facts: SeriesFacts) -> Section:
    recent, names = f"last {facts.window}", [one.period for one in facts.errors]
    head = (
        *Cell.of_text("period"),
        *map(Cell, ("all until then", "worst column", recent, "worst column")),
    )
    lines = [
        (
            Cell(one.period),
            Cell(f"{one.total:.3f}"),
            Cell(f"{one.total_worst:.3f}", note=one.worst_column),
            Cell(f"{one.recent:.3f}"),
            Cell(f"{one.recent_worst:.3f}"),
        )
        for one in reversed(facts.errors)
    ]
    means = {
        "all until then": [one.total for one in facts.errors],
        recent: [one.recent for one in facts.errors],
    }
    shown = (
        Text(_ERRORS.format(what=facts.error_is, window=facts.window)),
        period_figure(
            "Expected error of a column, the mean over columns",
            names,
            names,
            means,
            "expected error",
        ),
        Table("Expected error by period", head, tuple(lines)),
    )
    return Section("accuracy", "Accuracy by period", (*shown, *_aucs(facts, recent, names)))


def _aucs(
    facts: SeriesFacts, recent: str, names: Sequence[str]
) -> tuple[Text | Figure | Table, ...]:
    if facts.untested:
        return (Text(facts.untested),)
    some = (
        ""
        if len(facts.aucs) == len(names)
        else f"{MOST_MODELS} of the periods are judged, the first and the last among them."
    )
    by_way = {
        "all until then": [one.total for one in facts.aucs],
        recent: [one.recent for one in facts.aucs],
    }
    head = (
        *Cell.of_text("period"),
        *map(Cell, ("all until then", "± of so few rows", recent, "± of so few rows")),
    )
    lines = [
        (
            Cell(one.period),
            *(
                Cell("" if value is None else f"{value:.3f}")
                for value in (one.total, one.total_deviation, one.recent, one.recent_deviation)
            ),
        )
        for one in reversed(facts.aucs)
    ]
    return (
        Text(_AUC.format(count=facts.public_rows, some=some).rstrip()),
        period_figure(
            "AUC on public rows", names, [one.period for one in facts.aucs], by_way, "AUC"
        ),
        Table("AUC by period", head, tuple(lines)),
    )


def _rows(facts: SeriesFacts) -> Section:
    head = (*Cell.of_text("period"), *map(Cell, ("rows", "± noise", "all until then", "± noise")))
    lines = [
        (
            Cell(one.period),
            *(
                Cell(f"{value:,.0f}")
                for value in (one.arrived, one.arrived_deviation, one.total, one.total_deviation)
            ),
        )
        for one in reversed(facts.rows)
    ]
    said = _ROWS.format(less=", less those that took others back" if facts.takes_back else "")
    return Section(
        "rows", "Rows by period", (Text(said), Table("Rows by period", head, tuple(lines)))
    )


def _drift(facts: SeriesFacts) -> Section:
    what, change = (
        (_BY_LABEL, "the shares have") if facts.has_rows else (_BY_GROUP, "averages or shares have")
    )
    said = _DRIFT.format(
        window=facts.window,
        what=what,
        change=change,
        columns=len(facts.drifts),
        one_in=f"{0.05 / max(1, len(facts.drifts)):.2g}",
        of_means="" if facts.has_rows else _OF_MEANS,
    )
    if not facts.drifts:
        return Section(
            "drift",
            "Drift",
            (
                Text(
                    f"There is nothing before the last {facts.window} periods to compare them with."
                ),
            ),
        )
    head = (*Cell.of_text("column"), *map(Cell, ("chi-square", "degrees", "chance without drift")))
    lines = [
        (
            Cell(one.column),
            Cell("" if one.statistic is None else f"{one.statistic:.1f}"),
            Cell(f"{one.degrees}"),
            Cell("too few rows" if one.chance is None else f"{one.chance:.2g}"),
        )
        for one in facts.drifts
    ]
    return Section("drift", "Drift", (Text(said), Table("Drift", head, tuple(lines))))
