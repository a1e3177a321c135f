"""How good a release is, of a table or of texts, as one page; and a page over all periods of a
series: what is spent, how good each period's rows or averages are, how many came, and which columns
drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from dpicl.contract.payment import HORIZON_PAID, NOTHING_MORE
from dpicl.contract.persons import person_rows
from dpicl.data.reading.queries import load_queries
from dpicl.data.values import number_word
from dpicl.ground.errors import LedgerError, ParameterError, SourceError
from dpicl.ground.installed import extra_missing
from dpicl.ground.types import QueryTable
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, tabular
from dpicl.methods.counted_horizon import Arrays, CountedHorizon
from dpicl.quality import Quality, ReleasePoint
from dpicl.quality.picture import BESIDE
from dpicl.quality.series import (
    MOST_MODELS,
    Drift,
    PeriodAuc,
    PeriodErrors,
    PeriodRows,
    aucs_by_period,
    drifts,
    errors_by_period,
    rows_by_period,
)
from dpicl.quality.shown import Shown
from dpicl.quality.texts import N_GRAMS, TextQuality
from dpicl.quality.worth import JUDGED, LEVEL, UNPAIRED, Score, largest
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
from dpicl.report.columns import columns_svg
from dpicl.report.figures import period_figure

_MOST = 50
_EXPLAINED = {
    "single columns": "Total variation between released and counted rows: the share of rows that "
    "would have to move, 0 to 1, as releases simulated from this one have it on average.",
    "columns with the label": "The same of each column together with the label: how far the "
    "release may be off in what a column says of the label.",
    "pairs of columns": "The same of two columns together, of a method that counts some pairs of "
    "these alone: how far the release may be off in how they depend on each other. Of pairs that "
    "were not counted, and of what lies within bins, no error is known.",
}


def quality_page(quality: Quality | TextQuality, columns: Sequence[Shown] = ()) -> str:
    """The whole page: HTML that fetches nothing and runs nothing; of a table with a picture of
    these columns of the release, the label last of single ones.
    """
    if isinstance(quality, TextQuality):
        return to_html(_text_report(quality))
    about = (
        f"{quality.method}, ε = {quality.epsilon:g}. Computed from what was released alone, "
        f"{NOTHING_MORE}."
    )
    opening: tuple[Block, ...] = ()
    if quality.row_count is not None and quality.effective_rows is not None:
        tiles = (
            ("Effective rows", f"{round(quality.effective_rows):,d}"),
            ("Rows, about", f"{round(quality.row_count):,d}"),
            *((_beside(score), _tile(score)) for score in quality.scores),
        )
        rows = "Effective rows: so many rows without noise would have marginals as exact as these."
        opening = Pairs(tiles, are_tiles=True), Paragraph(rows)
    is_local = quality.point.method.trust == "local"
    if of_persons := person_rows(quality.point.contract, is_local=is_local):
        opening = *opening, Paragraph(of_persons)
    if columns and not extra_missing("matplotlib"):
        wide, narrow = (columns_svg(columns, most) for most in (BESIDE, 1))
        caption = "Shares of released rows; lines show where 90 % of true shares are."
        opening = *opening, Figure("Released columns", wide, caption, narrow)
    title, sections = f"Quality of {quality.dataset}", tuple(_sections(quality))
    return to_html(Report(title, about, opening, sections, verdict(quality, columns)))


def verdict(quality: Quality, columns: Sequence[Shown]) -> str:
    """Whether the columns are as exact as a sample, and whether the label can be learned: what the
    numbers below come to.
    """
    said = []
    if quality.row_count is not None and quality.effective_rows is not None:
        share = quality.effective_rows / max(quality.row_count, 1.0)
        said.append(
            "Released columns are about as exact as the rows themselves are as a sample."
            if share >= 1
            else f"Released columns are as exact as those of {share:.0%} of the rows without noise."
        )
    if quality.auc_interval is not None and quality.scores[0].is_unknown:
        said.append("Whether a classifier that is fitted on them beats guessing is unknown.")
    elif quality.auc_interval is not None:
        low, high = quality.auc_interval
        label = quality.point.contract.label
        of_label = [panel for panel in columns if label and panel.columns == (label.column,)]
        most = f", {max(of_label[0].shares):.2f} of all" if of_label else ""
        said.append(
            "A classifier that is fitted on them may be no better than guessing (AUC "
            f"{low:.2f} to {high:.2f}, guessing has 0.5): its accuracy is then that of the most "
            f"frequent answer{most}."
            if low <= _GUESSED
            else "A classifier that is fitted on them does better than guessing: AUC "
            f"{low:.2f} to {high:.2f}, where guessing has 0.5."
        )
        accuracy = next((one for one in quality.scores if one.measure == "accuracy"), None)
        if low > _GUESSED and accuracy is not None and not accuracy.is_sure:
            said.append(
                "Its answers may be right no more often than always the most frequent one, which "
                f"has {accuracy.constant:.2f}."
            )
    return " ".join(said)


_GUESSED = 0.52
"""An AUC up to which nobody would call a classifier better than guessing."""


def _beside(score: Score) -> str:
    """The name of a measure, and what a constant answer has."""
    if score.constant is None:
        return score.measure
    answers = {"AUC": "guessing", "accuracy": "the most frequent label"}
    return f"{score.measure} ({answers.get(score.measure, 'the mean')}: {score.constant:.2f})"


def _tile(score: Score) -> str:
    """Its interval."""
    return "unknown" if score.is_unknown else f"{score.low:.2f} – {score.high:.2f}"


def _sections(quality: Quality) -> Iterator[Section]:
    if doubts := [number.doubt for number in quality.numbers if number.doubt]:
        yield Section("bounds", "Bounds", tuple(map(Paragraph, doubts)))
    means = {one.column: one.mean for one in quality.numbers if one.mean is not None}
    if means:
        table = TableBlock.of(
            "Means of numbers",
            ("column", "released mean", f"true one, {LEVEL:.0%} between", "and"),
            (
                (name, *map(number_word, (mean.value, mean.low, mean.high)))
                for name, mean in means.items()
            ),
        )
        yield Section("means", "Means of numbers", (Paragraph(_MEANS), table))
    for what, marginals in quality.kinds:
        shown = largest(marginals, _MOST)
        known = 2 + (shown[0].true is not None)  # of benchmarks, what is true too
        left = (
            ""
            if len(shown) == len(marginals)
            else f": the {len(shown)} largest of {len(marginals)}"
        )
        table = TableBlock.of(
            f"Errors of {what}{left}",
            ("columns", "expected", "true")[:known],
            (
                (" & ".join(error.columns), _number(error.expected), _number(error.true))[:known]
                for error in shown
            ),
        )
        if marginals is quality.pairs:
            yield from _classifier(quality)
        explained = Paragraph(_EXPLAINED[what])
        yield Section(what.replace(" ", "-"), f"Errors of {what}", (explained, table))
    if not quality.pairs:
        if UNPAIRED in quality.sentences():
            told = Paragraph(f"{UNPAIRED[:1].upper()}{UNPAIRED[1:]}.")
            yield Section("pairs-of-columns", "Pairs of columns", (told,))
        yield from _classifier(quality)
    if quality.noise:
        rows = ((name, _number(error)) for name, error in quality.noise.items())
        table = TableBlock.of("Noise of averages", ("column", "share of its range"), rows)
        yield Section("noise", "Noise of averages", (table,))
    if quality.actual is not None:
        pmse = (
            f"pMSE = {quality.actual.pmse:.4f}: 0 where nothing tells released from real rows, at "
            f"most 0.25."
        )
        counted = TableBlock.of(
            "Total variation",
            ("number of columns", "mean total variation"),
            (
                (f"{count}", _number(value))
                for count, value in quality.actual.total_variation.items()
            ),
        )
        tested = TableBlock.of(
            "Train on released, test on real",
            ("model", "measure", "fitted on released rows", "fitted on real rows"),
            (
                (trained.model, trained.measure, _number(trained.released), _number(trained.real))
                for trained in quality.actual.trained
            ),
            texts=2,
        )
        about = Paragraph(f"The rows are public. {pmse}")
        yield Section("true", "True values", (about, counted, tested))


_MEANS = (
    "From simulated releases, and from how wide the bins are, as no simulation knows where in its "
    "bin a value lies."
)


def _classifier(quality: Quality) -> Iterator[Section]:
    if not quality.scores:
        return
    known = 6 + (quality.scores[0].true is not None)
    constant = "the mean" if quality.scores[0].is_number else "one answer to all"
    numbers = attrgetter("estimate", "low", "high", "constant", "promised")
    heads = (
        "measure",
        "estimate",
        f"{LEVEL:.0%} between",
        "and",
        constant,
        "promised by its own rows",
        "true",
    )
    rows = (
        (
            score.measure,
            *(
                ("unknown", "", "", _number(score.constant), "")
                if score.is_unknown
                else map(_number, numbers(score))
            ),
            _number(score.true),
        )[:known]
        for score in quality.scores
    )
    table = TableBlock.of("A classifier", heads[:known], rows)
    unsure = (f"{score.measure}: {score.doubt}." for score in quality.scores if score.doubt)
    blocks: tuple[Block, ...] = (Paragraph(JUDGED), table, *map(Paragraph, unsure))
    yield Section("classifier", "A classifier", blocks)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


_ACCURACY = (
    "Logistic regression on hashed words and pairs of words, fitted on texts and their labels, "
    "asked the public texts."
)
_DISTANCE = (
    "Energy distance of the texts as points of hashed n-grams: 0 for equal laws. Halves of the "
    "public texts differ by chance alone, which is the least to be expected."
)


def _text_report(quality: TextQuality) -> Report:
    release = quality.release
    about = (
        f"{release.method}, ε = {release.epsilon:g}. {len(release.texts):,d} released texts beside "
        f"{quality.public:,d} public ones; no private text is read for it, {NOTHING_MORE}."
    )
    tiles = [("Texts", f"{len(release.texts):,d}"), ("Stand once", f"{quality.distinct:.1%}")]
    tiles += [] if quality.accuracy is None else [("Accuracy", f"{quality.accuracy:.3f}")]
    return Report(
        f"Quality of {release.dataset}",
        about,
        (Pairs(tuple(tiles), are_tiles=True),),
        tuple(_text_sections(quality)),
    )


def _text_sections(quality: TextQuality) -> Iterator[Section]:
    if quality.accuracy is not None:
        fitted = {
            "released texts": quality.accuracy,
            "as many real texts": quality.real,
            "the most frequent label": quality.chance,
        }
        yield _table_section(
            "A classifier",
            _ACCURACY,
            ("fitted on", "accuracy"),
            {name: (value,) for name, value in fitted.items() if value is not None},
        )
    yield _table_section(
        "N-grams",
        "Of all distinct n-grams of words in a set, the share that the other set has too.",
        ("n", "of released texts", "of public texts"),
        {
            f"{n}": shares
            for n, *shares in zip(N_GRAMS, quality.known, quality.covered, strict=True)
        },
    )
    if quality.distance is not None and quality.floor is not None:
        between = {
            "released and public texts": (quality.distance,),
            "halves of the public texts": (quality.floor,),
        }
        yield _table_section("Distance", _DISTANCE, ("between", "distance"), between)
    yield _table_section(
        "Lengths",
        "Words of a text.",
        ("texts", "lower quartile", "median", "upper quartile", "mean"),
        {
            "released": vars(quality.lengths).values(),
            "public": vars(quality.public_lengths).values(),
        },
    )


def _table_section(
    title: str, text: str, heads: Sequence[str], rows: Mapping[str, Iterable[float]]
) -> Section:
    table = TableBlock.of(title, heads, ((name, *map(_number, row)) for name, row in rows.items()))
    return Section(title.lower().replace(" ", "-"), title, (Paragraph(text), table))


_ROWS = (
    "Rows that entered{less}, from published sums: the noise of each number has the standard "
    "deviation beside it. A period's own number is little "
    "but noise where few rows come; that of all periods is what the budget is spent on."
)
_DRIFT = (
    "The last {window} periods against all before, by {what}: a chi-square test that takes the "
    "noise of both, and that they share some of it, into account. A small chance says that "
    "{change} changed. With {columns} columns looked at, one of them is below {one_in} by chance "
    "in one page of twenty.{of_means}"
)
_ERRORS = (
    "{what}. Of rows of all periods until one, and of the last {window} of these; the mean over "
    "columns."
)
_OF_ROWS = "columns with the label", "the shares have", ""
_OF_AVERAGES = (
    "columns within each group, then the label and how rows are shared among the groups",
    "averages or shares have",
    " A change of a mean is rather missed than feigned.",
)
"""What is compared, what changes, and what must be known of it."""
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
_NO_LABEL = "The contract has no label to predict."
_NO_QUERIES = "The contract declares no public rows (`queries`) to test a classifier on."
_ONE_ANSWER = "All public rows have one answer, of which no AUC can be told."


@dataclass(frozen=True)
class SeriesFacts:
    """What the page says: the horizon by its public facts, the account, and what follows from
    published sums and public rows. `untested` is why there is no AUC.
    """

    point: ReleasePoint
    series: CountedHorizon[Any, Any]
    statement: str
    account: str
    spent: float
    cap: float | None
    window: int
    rows: Sequence[PeriodRows]
    drifts: Sequence[Drift]
    errors: Sequence[PeriodErrors]
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
    contract = settings.contract(dataset)
    planned = planned_table(request, settings)
    counting = tabular(planned.method)
    if contract.releases.horizon is None:
        raise ParameterError(
            "contract", dataset, "one with a horizon of periods, `releases.horizon`"
        )
    if not counting.is_series(contract):
        able = ", ".join(name for name, method in METHODS.items() if method.is_series(contract))
        raise ParameterError("method", planned.method, f"one that counts a horizon: {able}")
    with open_ledger(settings) as ledger:
        horizon = Horizon.of(ledger, planned, settings)
        released = horizon.published(horizon.series.periods)
        if not released:
            raise LedgerError(
                f"{dataset}: no period of this horizon is released; expected `dpicl protect "
                f"{dataset}` with the same --epsilon, --method and --shots first"
            )
        account = horizon.release.account
        series = horizon.series
        names = contract.releases.calendar.periods
        caps = {paying.name: paying.epsilon_cap for paying in ledger.accounts()}
        spent = ledger.spent(account).epsilon
    point = ReleasePoint(contract, counting, horizon.point)
    cost = counting.cost(contract, horizon.point)
    return SeriesFacts(
        point,
        series,
        counting.statement(*point.place, cost),
        account,
        spent,
        caps[account],
        window,
        rows_by_period(series, released, names),
        drifts(series, released, (*contract.features, *_AFTER_FEATURES), window),
        errors_by_period(series, released, names, contract.features, window),
        *_tested(point, series, released, settings, window),
    )


def _tested(
    point: ReleasePoint,
    series: CountedHorizon[Any, Any],
    released: Sequence[Arrays],
    settings: Settings,
    window: int,
) -> tuple[list[PeriodAuc], int, str]:
    """On public rows; how many these are; or why there is no AUC."""
    contract = point.contract
    if point.method.derive_stage is None:
        return [], 0, _NO_ROWS
    if contract.label is None:
        return [], 0, _NO_LABEL
    try:
        public = load_queries(contract, data_folder=settings.data)
    except SourceError as error:
        return [], 0, f"No classifier is tested: {error}."
    if public is None:
        return [], 0, _NO_QUERIES
    aucs = aucs_by_period(point, series, released, QueryTable(public), window)
    return aucs, public.num_rows, "" if aucs else _ONE_ANSWER


def series_page(facts: SeriesFacts) -> str:
    """The whole page: HTML that fetches nothing and runs nothing."""
    tiles = (
        ("Periods released", f"{len(facts.rows)} of {facts.series.periods}"),
        ("ε spent", f"{facts.spent:.4g}"),
        ("Cap", "none" if facts.cap is None else f"{facts.cap:.4g}"),
    )
    paid = Paragraph(HORIZON_PAID.format(account=facts.account))
    sections = (
        Section("accuracy", "Accuracy by period", tuple(_accuracy(facts))),
        Section("drift", "Drift", tuple(_drift(facts))),
        Section("rows", "Rows by period", tuple(_rows(facts))),
    )
    opening = Pairs(tiles, are_tiles=True), paid
    return to_html(
        Report(f"Series of {facts.point.contract.name}", facts.statement, opening, sections)
    )


def _accuracy(facts: SeriesFacts) -> Iterator[Block]:
    recent = f"last {facts.window}"
    names = [errors.period for errors in facts.errors]
    yield Paragraph(_ERRORS.format(what=facts.series.error_is, window=facts.window))
    means = {
        "all until then": [errors.total for errors in facts.errors],
        recent: [errors.recent for errors in facts.errors],
    }
    title = "Expected error of a column, the mean over columns"
    yield period_figure(title, names, names, means, "expected error")
    yield TableBlock.of(
        "Expected error by period",
        ("period", "all until then", "worst column", recent, "worst column"),
        (
            (
                errors.period,
                _number(errors.total),
                TableCell(_number(errors.total_worst), note=errors.worst_column),
                _number(errors.recent),
                _number(errors.recent_worst),
            )
            for errors in reversed(facts.errors)
        ),
    )
    if facts.untested:
        yield Paragraph(facts.untested)
        return
    some = (
        ""
        if len(facts.aucs) == len(names)
        else f"{MOST_MODELS} of the periods are judged, the first and the last among them."
    )
    yield Paragraph(_AUC.format(count=facts.public_rows, some=some).rstrip())
    aucs = {
        "all until then": [auc.total for auc in facts.aucs],
        recent: [auc.recent for auc in facts.aucs],
    }
    of_models = [auc.period for auc in facts.aucs]
    yield period_figure("AUC on public rows", names, of_models, aucs, "AUC")
    yield TableBlock.of(
        "AUC by period",
        ("period", "all until then", "± of so few rows", recent, "± of so few rows"),
        (
            (
                auc.period,
                *map(_number, (auc.total, auc.total_deviation, auc.recent, auc.recent_deviation)),
            )
            for auc in reversed(facts.aucs)
        ),
    )


def _rows(facts: SeriesFacts) -> Iterator[Block]:
    less = ", less those that took others back" if facts.point.contract.takes_back else ""
    yield Paragraph(_ROWS.format(less=less))
    yield TableBlock.of(
        "Rows by period",
        ("period", "rows", "± noise", "all until then", "± noise"),
        (
            (period, *(f"{value:,.0f}" for value in numbers))
            for period, *numbers in (vars(rows).values() for rows in reversed(facts.rows))
        ),
    )


def _drift(facts: SeriesFacts) -> Iterator[Block]:
    if not facts.drifts:
        yield Paragraph(
            f"There is nothing before the last {facts.window} periods to compare them with."
        )
        return
    what, change, of_means = _OF_ROWS if facts.point.method.derive_stage else _OF_AVERAGES
    yield Paragraph(
        _DRIFT.format(
            window=facts.window,
            what=what,
            change=change,
            columns=len(facts.drifts),
            one_in=f"{0.05 / len(facts.drifts):.2g}",
            of_means=of_means,
        )
    )
    yield TableBlock.of(
        "Drift",
        ("column", "chi-square", "degrees", "chance without drift"),
        (
            (
                drift.column,
                "" if drift.statistic is None else f"{drift.statistic:.1f}",
                f"{drift.degrees}",
                "too few rows" if drift.chance is None else f"{drift.chance:.2g}",
            )
            for drift in facts.drifts
        ),
    )
