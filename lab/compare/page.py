"""A comparison of two runs in words and tables: for a terminal, and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpicl.report import words
from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    Paragraph,
    Report,
    Section,
    TableBlock,
    TableCell,
)
from dpicl.report.decision import LEVEL, fitted
from dpicl.report.tables import has_several_rates, is_queried, row_label
from lab.compare.differing import differing
from lab.compare.pairs import Comparison
from lab.compare.sides import Side

MARKS = {1: ("above", "better"), 0: ("", ""), -1: ("differs", "worse")}
"""Of a difference by its sign: class of the style sheet, and in words."""

_OF_TWO = 10
"""Per cent of cells that are marked by chance where two seeds differ much: see `report.gains`."""


def page_of(compared: Comparison) -> Report:
    """The whole comparison, in reading order."""
    first, second = compared.first, compared.second
    about = (
        f"Run {first.name} of pipeline {first.plan.pipeline_name}, run {second.name} of pipeline "
        f"{second.plan.pipeline_name}"
    )
    opening: tuple[Block, ...] = (*_banners(compared), Paragraph(decision(compared), "lead"))
    sections: dict[tuple[str, str], tuple[Block, ...]] = {
        ("cells", "Every cell"): (cell_table(compared), Bullets(tuple(notes(compared)))),
        ("tests", "Over data sets"): (Paragraph(TESTED, "small"), test_table(compared))
        if compared.tests
        else (),
        ("differing", "What differs"): (differing_table(compared),),
    }
    shown = tuple(
        Section(name, title, blocks) for (name, title), blocks in sections.items() if blocks
    )
    return Report(f"{first.name} and {second.name} compared", about, opening, shown)


def _banners(compared: Comparison) -> Iterator[Banner]:
    if random := [side.name for side in (compared.first, compared.second) if _is_random(side)]:
        yield Banner(
            "Random weights.", f"What the model of {words.listing(random)} answers means nothing."
        )


def _is_random(side: Side) -> bool:
    model = side.run.manifest.model
    return model is not None and not model.trained


def decision(compared: Comparison) -> str:
    """Which run is better, in how many cells, and how many chance would mark if neither were.

    Each interval is taken by itself, and the number that chance would mark stands beside the number
    marked. Holm's correction would leave only cells that are certain together; but it needs
    p-values, which an interval that is cut at the scale of a difference has not, a cell's mark
    would depend on what else was run, and a report marks its gains by the same intervals, so that
    one mark would mean two things. Cells in which nothing differs, such as baselines of the same
    release, are no chance for a mark, and not counted; nor those without an interval.
    """
    first, second, same = compared.first.name, compared.second.name, compared.same
    differ, better, worse = len(compared.pairs) - same, compared.count(1), compared.count(-1)
    if not differ:
        return (
            f"{second} and {first} are the same in {_many(same, 'cell')}, the only ones that both "
            f"have."
        )
    if better or worse:
        came = (
            f"{second} is better than {first} in {better or 'none'} of {_many(differ, 'cell')} by "
            f"more than noise, and worse in {worse or 'none'}"
        )
    else:
        came = (
            f"{second} is neither better nor worse than {first} by more than noise, in "
            f"{_many(differ, 'cell')}"
        )
    more = f"; in {same} more nothing differs" if same else ""
    judged = compared.judged
    if not judged:
        return f"{came}{more}. None has an interval, so that none could be marked."
    those = (
        f"the {_many(len(judged), 'cell')} with an interval"
        if len(judged) < differ
        else "the cells"
    )
    shares = [100 - 100 * LEVEL, *([_OF_TWO] if any(pair.seeds == 2 for pair in judged) else [])]
    chance = f"If the runs were equally good, {_to(shares)} % of {those} would be marked by chance"
    here = (
        f", about {_to([share * len(judged) / 100 for share in shares])} of them"
        if len(judged) >= 10
        else ""
    )
    return f"{came}{more}. {chance}{here}."


def _to(numbers: list[float]) -> str:
    return " to ".join(f"{number:.2g}" for number in numbers)


def notes(compared: Comparison) -> Iterator[str]:
    """What a difference is, how far its interval holds, and what is not compared."""
    first, second = compared.first, compared.second
    yield (
        f"A difference is what {second.name} is better by{_but_errors(compared)}, mean of the "
        f"seeds that both runs have; ± is half of a "
        f"{100 * LEVEL:.0f} % interval, and what excludes 0 is marked better or worse."
    )
    over = (
        "over queries and seeds"
        if max(pair.seeds for pair in compared.pairs) > 1
        else "over queries alone, as there is one seed"
    )
    if singly := list(dict.fromkeys(pair.dataset for pair in compared.pairs if pair.by_answer)):
        yield (
            f"{words.listing(singly)}: the same queries in both runs, compared answer by answer; "
            f"intervals are {over}."
        )
    for dataset, reason in compared.apart.items():
        has_shares = any(
            (pair.dataset, pair.metric) == (dataset, "accuracy") for pair in compared.pairs
        )
        shares = (
            "; an accuracy's interval takes answers for independent, and is wider than it need be "
            "where queries are the same"
        )
        yield f"{dataset}: only means are compared, since {reason}{shares if has_shares else ''}."
    if any(pair.metric != "accuracy" and not pair.by_answer for pair in compared.pairs):
        yield (
            "Means that are no accuracies are compared without an interval, and never marked: "
            "seeds do not tell what other queries would."
        )
    if any(not is_queried(pair.system) for pair in compared.pairs):
        yield "Baselines are compared by their means on the test rows."
    alone = [
        f"{_many(count, 'cell')} of {side.name}"
        for side, count in zip((first, second), compared.alone, strict=True)
        if count
    ]
    if alone:
        yield f"In one run alone, and not compared: {words.listing(alone)}."
    for side in (first, second):
        if not side.is_done:
            yield (
                f"{side.name} is not finished: {side.done} of its "
                f"{_many(len(side.plan.units), 'unit')} are there."
            )


def _but_errors(compared: Comparison) -> str:
    return (
        " (of errors, by how much they are smaller)"
        if any(pair.metric == "absolute_error" for pair in compared.pairs)
        else ""
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def cell_table(compared: Comparison) -> TableBlock:
    """A row per cell in which something differs; of all, if nothing does."""
    several = any(has_several_rates(side.run.results) for side in (compared.first, compared.second))
    metrics = list(dict.fromkeys(pair.metric for pair in compared.pairs))
    rows = []
    for pair in [pair for pair in compared.pairs if not pair.is_same] or compared.pairs:
        mark, note = MARKS[pair.gain.sign]
        half = "" if math.isnan(pair.gain.half) or pair.is_same else f" ± {pair.gain.half:.3f}"
        difference = TableCell(words.signed(pair.gain.mean) + half, note, mark=mark)
        measure = words.MEASURES[pair.metric] if len(metrics) > 1 else ""
        way = _way(
            pair.method, pair.system, pair.shots, pair.sampling_rate if several else math.nan
        )
        cell = (
            TableCell(pair.dataset),
            TableCell(words.method_name(pair.method)),
            TableCell(way, measure),
        )
        rows.append(
            (
                *cell,
                TableCell(words.epsilon(pair.epsilon)),
                TableCell(words.number(pair.first)),
                TableCell(words.number(pair.second)),
                difference,
            )
        )
    names = (compared.first.name, compared.second.name)
    measured = words.MEASURES[metrics[0]] if len(metrics) == 1 else ""
    head = (
        *TableCell.of_text("data set", "method", "answers"),
        TableCell("ε"),
        *(TableCell(name, measured) for name in names),
        TableCell("difference"),
    )
    return TableBlock("Every cell", head, tuple(rows))


def _way(method: str, system: str, shots: float, rate: float = math.nan) -> str:
    """How answers come about, with shots and rate where there are any."""
    return (
        row_label(system, shots or math.nan, rate, True)
        if is_queried(system)
        else fitted(method, system)
    )


TESTED = (
    "Paired t-tests, two-sided, of the mean differences of data sets over all their ε. They take "
    "the data sets for independent, and their "
    "differences for normally distributed; each p is of one test alone. The paper's Table IV "
    "pairs the ε of one data set."
)


def test_table(compared: Comparison) -> TableBlock:
    """A row per way to answer that both runs have on several data sets."""
    rows = []
    for test in compared.tests:
        answers = _way(test.method, test.system, test.shots)
        numbers = (
            f"{test.datasets}",
            words.signed(test.difference),
            words.signed(test.statistic),
            f"{test.freedom}",
            words.number(test.p),
        )
        rows.append(
            (
                TableCell(words.method_name(test.method)),
                TableCell(answers, words.MEASURES[test.metric]),
                *map(TableCell, numbers),
            )
        )
    head = (
        *TableCell.of_text("method", "answers"),
        *map(TableCell, ("data sets", "difference", "t", "degrees of freedom", "p")),
    )
    return TableBlock("Paired t-tests over data sets", head, tuple(rows))


def differing_table(compared: Comparison) -> TableBlock:
    """Model and costs, and whatever else is not the same."""
    names = (compared.first.name, compared.second.name)
    rows = tuple(tuple(map(TableCell, row)) for row in differing(compared.first, compared.second))
    return TableBlock(
        "What differs",
        (*TableCell.of_text("what"), *(TableCell(name, mark="prose") for name in names)),
        rows,
    )
