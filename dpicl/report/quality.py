"""How good a release is, as one page."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.quality import Quality, TextQuality
from dpicl.quality.values import JUDGED, LEVEL, largest
from dpicl.report.blocks import Block, Cell, Pairs, Report, Section, Table, Text
from dpicl.report.html import to_html
from dpicl.report.text_quality import text_report

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
        opening = [Pairs(tuple(tiles), are_tiles=True), Text(rows)]
    return to_html(
        Report(f"Quality of {quality.dataset}", about, tuple(opening), tuple(_sections(quality)))
    )


def _sections(quality: Quality) -> Iterator[Section]:
    for what, marginals in quality.kinds:
        shown = largest(marginals, _MOST)
        known = any(one.true is not None for one in shown)
        rows = [
            (
                Cell(" & ".join(one.columns)),
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
        head = (*Cell.of_text("columns"), Cell("expected"), *([Cell("true")] if known else []))
        yield Section(
            what.replace(" ", "-"),
            f"Errors of {what}",
            (Text(_COUNTED), Table(f"Errors of {what}{some}", head, tuple(rows))),
        )
    if quality.scores:
        head = (
            *Cell.of_text("measure"),
            *map(Cell, ("estimate", f"{LEVEL:.0%} between", "and", "promised by its own rows")),
        )
        rows = [
            (Cell(one.measure), *map(_number, (one.estimate, one.low, one.high, one.promised)))
            for one in quality.scores
        ]
        if any(one.true is not None for one in quality.scores):  # on benchmarks
            head = (*head, Cell("true"))
            rows = [
                (*row, _number(one.true)) for row, one in zip(rows, quality.scores, strict=True)
            ]
        yield Section(
            "classifier", "A classifier", (Text(JUDGED), Table("A classifier", head, tuple(rows)))
        )
    if quality.noise:
        rows = [(Cell(name), _number(error)) for name, error in quality.noise.items()]
        noise = Table(
            "Noise of averages", (*Cell.of_text("column"), Cell("share of its range")), tuple(rows)
        )
        yield Section("noise", "Noise of averages", (noise,))
    if quality.actual is not None:
        pmse = (
            f"pMSE = {quality.actual.pmse:.4f}: 0 where nothing tells released from real rows, at "
            f"most 0.25."
        )
        variation = [
            (Cell(f"{count}"), _number(value))
            for count, value in quality.actual.total_variation.items()
        ]
        trained = [
            (Cell(one.model), Cell(one.measure), _number(one.released), _number(one.real))
            for one in quality.actual.trained
        ]
        counted = Table(
            "Total variation",
            (*Cell.of_text("number of columns"), Cell("mean total variation")),
            tuple(variation),
        )
        head = (
            *Cell.of_text("model", "measure"),
            Cell("fitted on released rows"),
            Cell("fitted on real rows"),
        )
        tested = Table("Train on released, test on real", head, tuple(trained))
        yield Section(
            "true", "True values", (Text(f"The rows are public. {pmse}"), counted, tested)
        )


def _number(value: float | None) -> Cell:
    return Cell("" if value is None else f"{value:.3f}")
