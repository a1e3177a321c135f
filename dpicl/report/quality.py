"""How good a release is, as one page.

How good a release of texts is, as one page.

A page over all periods of a series: what is spent, how good each period's rows or averages are, how
many came, and which columns drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpicl.data.reading.queries import load_queries
from dpicl.ground.errors import LedgerError, ParameterError, SourceError
from dpicl.ground.types import QueryTable
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, tabular
from dpicl.methods.counted_horizon import Arrays
from dpicl.quality import Quality, TextQuality
from dpicl.quality.measures import JUDGED, LEVEL, largest
from dpicl.quality.series import (
    MOST_MODELS,
    Drift,
    PeriodAuc,
    PeriodErrors,
    PeriodRows,
    RowMaker,
    drifts,
    errors_by_period,
    rows_by_period,
)
from dpicl.quality.texts import N_GRAMS
from dpicl.release.horizon import Horizon
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from dpicl.report.blocks import (
    Block,
    Figure,
    Pairs,
    Paragraph,
    Report,
    Section,
    TableBlock,
    TableCell,
    to_html,
)
from dpicl.report.figures import period_figure

_MOST = 50
_COUNTED = (
    "Total variation between released and counted rows: the share of rows that would have to "
    "move, 0 to 1, as releases simulated from "
    "this one have it on average."
)


def quality_page(quality: Quality | TextQuality) -> str:
    """The whole page: HTML that fetches nothing and runs nothing."""
    if isinstance(quality, TextQuality):
        return to_html(text_report(quality))
    about = (
        f"{quality.method}, ε = {quality.epsilon:g}. Computed from what was released alone, so "
        f"that it costs nothing."
    )
    tiles: list[tuple[str, str]] = []
    opening: list[Block] = []
    if quality.row_count is not None and quality.effective_rows is not None:
        tiles += [
            ("Effective rows", f"{round(quality.effective_rows):,d}"),
            ("Rows, about", f"{round(quality.row_count):,d}"),
        ]
    tiles += [(score.measure, f"{score.low:.2f} – {score.high:.2f}") for score in quality.scores]
    if quality.effective_rows is not None:
        rows = "Effective rows: so many rows without noise would have marginals as exact as these."
        opening = [Pairs(tuple(tiles), are_tiles=True), Paragraph(rows)]
    return to_html(
        Report(f"Quality of {quality.dataset}", about, tuple(opening), tuple(_sections(quality)))
    )


def _sections(quality: Quality) -> Iterator[Section]:
    for what, marginals in quality.kinds:
        shown = largest(marginals, _MOST)
        known = any(one.true is not None for one in shown)
        rows = [
            (
                TableCell(" & ".join(one.columns)),
                _number(one.expected),
                *([_number(one.true)] if known else []),
            )
            for one in shown
        ]
        some = (
            ""
            if len(shown) == len(marginals)
            else f": the {len(shown)} largest of {len(marginals)}"
        )
        head = (
            *TableCell.of_text("columns"),
            TableCell("expected"),
            *([TableCell("true")] if known else []),
        )
        yield Section(
            what.replace(" ", "-"),
            f"Errors of {what}",
            (Paragraph(_COUNTED), TableBlock(f"Errors of {what}{some}", head, tuple(rows))),
        )
    if quality.scores:
        head = (
            *TableCell.of_text("measure"),
            *map(
                TableCell, ("estimate", f"{LEVEL:.0%} between", "and", "promised by its own rows")
            ),
        )
        rows = [
            (TableCell(one.measure), *map(_number, (one.estimate, one.low, one.high, one.promised)))
            for one in quality.scores
        ]
        if any(one.true is not None for one in quality.scores):  # on benchmarks
            head = (*head, TableCell("true"))
            rows = [
                (*row, _number(one.true)) for row, one in zip(rows, quality.scores, strict=True)
            ]
        yield Section(
            "classifier",
            "A classifier",
            (Paragraph(JUDGED), TableBlock("A classifier", head, tuple(rows))),
        )
    if quality.noise:
        rows = [(TableCell(name), _number(error)) for name, error in quality.noise.items()]
        noise = TableBlock(
            "Noise of averages",
            (*TableCell.of_text("column"), TableCell("share of its range")),
            tuple(rows),
        )
        yield Section("noise", "Noise of averages", (noise,))
    if quality.actual is not None:
        pmse = (
            f"pMSE = {quality.actual.pmse:.4f}: 0 where nothing tells released from real rows, at "
            f"most 0.25."
        )
        variation = [
            (TableCell(f"{count}"), _number(value))
            for count, value in quality.actual.total_variation.items()
        ]
        trained = [
            (TableCell(one.model), TableCell(one.measure), _number(one.released), _number(one.real))
            for one in quality.actual.trained
        ]
        counted = TableBlock(
            "Total variation",
            (*TableCell.of_text("number of columns"), TableCell("mean total variation")),
            tuple(variation),
        )
        head = (
            *TableCell.of_text("model", "measure"),
            TableCell("fitted on released rows"),
            TableCell("fitted on real rows"),
        )
        tested = TableBlock("Train on released, test on real", head, tuple(trained))
        yield Section(
            "true", "True values", (Paragraph(f"The rows are public. {pmse}"), counted, tested)
        )


def _number(value: float | None) -> TableCell:
    return TableCell("" if value is None else f"{value:.3f}")


_ACCURACY = (
    "Logistic regression on hashed words and pairs of words, fitted on texts and their labels, "
    "asked the public texts."
)
_DISTANCE = (
    "Energy distance of the texts as points of hashed n-grams: 0 for equal laws. Halves of the "
    "public texts differ by chance alone, which is "
    "the least to be expected."
)


def text_report(quality: TextQuality) -> Report:
    """The page as blocks."""
    about = (
        f"{quality.method}, ε = {quality.epsilon:g}. {quality.released:,d} released texts beside "
        f"{quality.public:,d} public ones; no private "
        f"text is read for it, so that it costs nothing."
    )
    tiles = [("Texts", f"{quality.released:,d}"), ("Stand once", f"{quality.distinct:.1%}")]
    tiles += [] if quality.accuracy is None else [("Accuracy", f"{quality.accuracy:.3f}")]
    return Report(
        f"Quality of {quality.dataset}",
        about,
        (Pairs(tuple(tiles), are_tiles=True),),
        tuple(_text_quality_sections(quality)),
    )


def _text_quality_sections(quality: TextQuality) -> Iterator[Section]:
    if quality.accuracy is not None:
        fitted = (
            ("released texts", quality.accuracy),
            ("as many real texts", quality.real),
            ("the most frequent label", quality.chance),
        )
        yield _section(
            "A classifier",
            _ACCURACY,
            ("fitted on", "accuracy"),
            [(name, value) for name, value in fitted if value is not None],
        )
    grams = [
        (f"{n}", known, covered)
        for n, known, covered in zip(N_GRAMS, quality.known, quality.covered, strict=True)
    ]
    words = "Of all distinct n-grams of words in a set, the share that the other set has too."
    yield _section("N-grams", words, ("n", "of released texts", "of public texts"), grams)
    if quality.distance is not None and quality.floor is not None:
        between = [
            ("released and public texts", quality.distance),
            ("halves of the public texts", quality.floor),
        ]
        yield _section("Distance", _DISTANCE, ("between", "distance"), between)
    rows = [
        (name, one.lower, one.median, one.upper, one.mean)
        for name, one in (("released", quality.lengths), ("public", quality.public_lengths))
    ]
    yield _section(
        "Lengths",
        "Words of a text.",
        ("texts", "lower quartile", "median", "upper quartile", "mean"),
        rows,
    )


def _section(
    title: str, text: str, head: tuple[str, ...], rows: Iterable[tuple[str | float, ...]]
) -> Section:
    shown = tuple(
        tuple(TableCell(value if isinstance(value, str) else f"{value:.3f}") for value in row)
        for row in rows
    )
    table = TableBlock(title, (*TableCell.of_text(head[0]), *map(TableCell, head[1:])), shown)
    return Section(title.lower().replace(" ", "-"), title, (Paragraph(text), table))


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
        counting.statement(contract, horizon.point, counting.cost(contract, horizon.point)),
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
        *_tested(RowMaker(counting, contract, horizon.point, series), released, settings, window),
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
    opening = (Pairs(tiles, are_tiles=True), Paragraph(budget))
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
        *TableCell.of_text("period"),
        *map(TableCell, ("all until then", "worst column", recent, "worst column")),
    )
    lines = [
        (
            TableCell(one.period),
            TableCell(f"{one.total:.3f}"),
            TableCell(f"{one.total_worst:.3f}", note=one.worst_column),
            TableCell(f"{one.recent:.3f}"),
            TableCell(f"{one.recent_worst:.3f}"),
        )
        for one in reversed(facts.errors)
    ]
    means = {
        "all until then": [one.total for one in facts.errors],
        recent: [one.recent for one in facts.errors],
    }
    shown = (
        Paragraph(_ERRORS.format(what=facts.error_is, window=facts.window)),
        period_figure(
            "Expected error of a column, the mean over columns",
            names,
            names,
            means,
            "expected error",
        ),
        TableBlock("Expected error by period", head, tuple(lines)),
    )
    return Section("accuracy", "Accuracy by period", (*shown, *_aucs(facts, recent, names)))


def _aucs(
    facts: SeriesFacts, recent: str, names: Sequence[str]
) -> tuple[Paragraph | Figure | TableBlock, ...]:
    if facts.untested:
        return (Paragraph(facts.untested),)
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
        *TableCell.of_text("period"),
        *map(TableCell, ("all until then", "± of so few rows", recent, "± of so few rows")),
    )
    lines = [
        (
            TableCell(one.period),
            *(
                TableCell("" if value is None else f"{value:.3f}")
                for value in (one.total, one.total_deviation, one.recent, one.recent_deviation)
            ),
        )
        for one in reversed(facts.aucs)
    ]
    return (
        Paragraph(_AUC.format(count=facts.public_rows, some=some).rstrip()),
        period_figure(
            "AUC on public rows", names, [one.period for one in facts.aucs], by_way, "AUC"
        ),
        TableBlock("AUC by period", head, tuple(lines)),
    )


def _rows(facts: SeriesFacts) -> Section:
    head = (
        *TableCell.of_text("period"),
        *map(TableCell, ("rows", "± noise", "all until then", "± noise")),
    )
    lines = [
        (
            TableCell(one.period),
            *(
                TableCell(f"{value:,.0f}")
                for value in (one.arrived, one.arrived_deviation, one.total, one.total_deviation)
            ),
        )
        for one in reversed(facts.rows)
    ]
    said = _ROWS.format(less=", less those that took others back" if facts.takes_back else "")
    return Section(
        "rows",
        "Rows by period",
        (Paragraph(said), TableBlock("Rows by period", head, tuple(lines))),
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
                Paragraph(
                    f"There is nothing before the last {facts.window} periods to compare them with."
                ),
            ),
        )
    head = (
        *TableCell.of_text("column"),
        *map(TableCell, ("chi-square", "degrees", "chance without drift")),
    )
    lines = [
        (
            TableCell(one.column),
            TableCell("" if one.statistic is None else f"{one.statistic:.1f}"),
            TableCell(f"{one.degrees}"),
            TableCell("too few rows" if one.chance is None else f"{one.chance:.2g}"),
        )
        for one in facts.drifts
    ]
    return Section("drift", "Drift", (Paragraph(said), TableBlock("Drift", head, tuple(lines))))
