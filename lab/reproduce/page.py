"""The page that a reproduction ends with: each printed number, ours beside it, a constant answer's
beside that, and a verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from dpicl.report import words
from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    FoldedBlock,
    Paragraph,
    Report,
    Section,
    TableBlock,
    TableCell,
)
from lab.published.cells import Paper, PrintedTable
from lab.reproduce.computed import COMPUTED
from lab.reproduce.constant import MAJORITY, NOTHING_SHOWN, Beside, first_line, is_answer
from lab.reproduce.made import Made
from lab.reproduce.meanings import COUNTED, DIFFERS, MEANINGS, MISPRINTED, NOT_RUN, WITHIN
from lab.reproduce.verdict import Verdict
from lab.reproduce.verdicts import DECIMALS, judged

Judged = Sequence[tuple[PrintedTable, list[Verdict]]]
_SHOWN = (DIFFERS, NOT_RUN, MISPRINTED)
"""Verdicts whose reasons are counted at the head of the page; what is known to differ is counted of
all.
"""


def verdicts_of(paper: Paper, tables: Iterable[str], made: Made) -> Judged:
    """Every cell of these tables, judged."""
    chosen = set(tables)
    return [(table, judged(table, made)) for table in paper.tables if table.name in chosen]


def summary(found: Judged) -> str:
    """How many cells came out how, in a sentence."""
    verdicts = [verdict for _, of_table in found for verdict in of_table]
    counts = Counter(verdict.kind for verdict in verdicts)
    parts = [
        f"{counts[kind]} "
        f"{COUNTED[kind][counts[kind] != 1]}{_apart(verdicts) if kind == WITHIN else ''}"
        for kind in MEANINGS
        if counts[kind]
    ]
    return f"Of {len(verdicts)} printed numbers {words.listing(parts)}."


def _apart(verdicts: Sequence[Verdict]) -> str:
    """Behind the number that is within noise, where a constant answer is beside some of them."""
    within = _within(verdicts)
    return (
        f" ({sum(one.is_apart for one in within)} of these told apart from a constant answer)"
        if within
        else ""
    )


def _within(verdicts: Sequence[Verdict]) -> list[Beside]:
    return [
        verdict.beside
        for verdict in verdicts
        if verdict.kind == WITHIN and verdict.beside is not None
    ]


def page_of(paper: Paper, found: Judged, made: Made) -> Report:
    """The whole page, in reading order."""
    ran = [side.name for side in made.runs.values()]
    by = f"answered by {words.listing(list(made.models))}; " + (
        f"runs {words.listing(ran)}" if ran else "no run is finished"
    )
    if all(table.name in COMPUTED for table, _ in found):
        by = "computed, without a run or a model"
    about = f"{paper.title}; {by}"
    texts = Counter(
        verdict.text
        for _, verdicts in found
        for verdict in verdicts
        if verdict.known or (verdict.reasons and verdict.kind in _SHOWN)
    )
    opening: list[Block] = [
        *_banners(made, found),
        Paragraph(summary(found), "lead"),
        _overview(found),
    ]
    if texts:
        opening.append(Bullets(tuple(f"{count} × {text}" for text, count in texts.most_common())))
    opening.append(_meanings(found))
    sections = (
        Section(
            f"table-{table.name}",
            f"Table {table.name}: {table.title}",
            tuple(_blocks(table, verdicts, made)),
        )
        for table, verdicts in found
    )
    return Report(
        f"{paper.title.partition(',')[0]} reproduced", about, tuple(opening), tuple(sections)
    )


def _banners(made: Made, found: Judged) -> Iterator[Banner]:
    models = [side.run.manifest.model for side in made.runs.values()]
    if any(model is not None and not model.trained for model in models):
        yield Banner(
            "Random weights.",
            "What such a model answers means nothing: this shows only that every table runs.",
        )
    printed = {verdict.cell.dataset for _, verdicts in found for verdict in verdicts}
    for sentence in _stand_ins(printed, made):
        yield Banner("A stand-in.", sentence, is_note=True)


def _stand_ins(printed: Iterable[str], made: Made) -> Iterator[str]:
    """Which of the data sets are not the paper's."""
    for dataset in sorted(printed):
        name = made.stand_ins.get(dataset, dataset)
        contract = made.contracts.get(name)
        if contract is not None and contract.source.stands_in:
            yield f"{name} stands in: {contract.source.stands_in}."


def _overview(found: Judged) -> TableBlock:
    present = {verdict.kind for _, verdicts in found for verdict in verdicts}
    kinds, rows = [kind for kind in MEANINGS if kind in present], []
    for table, verdicts in found:
        counts, within = Counter(verdict.kind for verdict in verdicts), _within(verdicts)
        apart = str(sum(one.is_apart for one in within)) if within else words.DASH
        rows.append(
            (
                TableCell(f"{table.name}: {table.title}"),
                *_columns(kinds, {kind: str(counts[kind]) for kind in kinds}, apart),
            )
        )
    return TableBlock(
        "Verdicts by table",
        (
            *TableCell.of_text("table"),
            *_columns(kinds, {kind: kind for kind in kinds}, "told apart"),
        ),
        tuple(rows),
    )


def _columns(kinds: Iterable[str], texts: Mapping[str, str], apart: str) -> Iterator[TableCell]:
    """One column a kind, and behind what is within noise how much of that is told apart from a
    constant answer.
    """
    for kind in kinds:
        yield TableCell(texts[kind])
        if kind == WITHIN:
            yield TableCell(apart)


def _meanings(found: Judged) -> FoldedBlock:
    """The verdicts that stand on the page."""
    present = {verdict.kind for _, verdicts in found for verdict in verdicts}
    told = (
        f"told apart from a constant answer: ours differs from always giving {MAJORITY}, or, "
        f"where answers are texts of their own, from "
        f"an answer with {NOTHING_SHOWN}, by more than 1.96 standard errors on the same queries"
    )
    items = (*(f"{kind}: {meaning}" for kind, meaning in MEANINGS.items() if kind in present), told)
    return FoldedBlock("What a verdict means", (Bullets(items),), level=3)


def _blocks(table: PrintedTable, verdicts: list[Verdict], made: Made) -> Iterator[Block]:
    """What a constant answer would have, then a fold per data set and model."""
    if line := first_line(
        [
            verdict.beside
            for verdict in verdicts
            if verdict.beside is not None and is_answer(verdict.cell)
        ]
    ):
        yield Paragraph(line)
    for sentence in _stand_ins({verdict.cell.dataset for verdict in verdicts}, made):
        yield Paragraph(sentence[0].upper() + sentence[1:])
    ordered = sorted(verdicts, key=lambda one: (one.cell.dataset, one.model))
    for (dataset, model), group in groupby(ordered, key=lambda one: (one.cell.dataset, one.model)):
        own = list(group)
        counts = Counter(verdict.kind for verdict in own)
        note = ", ".join(f"{counts[kind]} {kind}" for kind in MEANINGS if counts[kind])
        title = f"{dataset}, {model}" if model and table.pipeline else dataset
        if dataset in made.stand_ins:
            title += f", in whose place {made.stand_ins[dataset]} stands"
        yield FoldedBlock(title, (_table(table, title, own),), level=3, note=note)


def _table(table: PrintedTable, title: str, verdicts: list[Verdict]) -> TableBlock:
    shows_model = len({verdict.cell.model for verdict in verdicts}) > 1
    shows_beside = any(verdict.beside is not None for verdict in verdicts)
    rows = []
    for one in verdicts:
        cell, decimals = one.cell, DECIMALS.get(one.cell.metric, 3)
        spread = "" if cell.deviation is None else f" ± {cell.deviation:.3f}"
        half = f" ± {one.half:.3f}" if one.half > 0 else ""
        ours = words.DASH if math.isnan(one.ours) else words.number(one.ours, decimals) + half
        named = ((TableCell(cell.model),) if shows_model else ()) + (
            TableCell(_answers(one), cell.metric),
        )
        numbers = (
            TableCell(words.epsilon(cell.epsilon)),
            TableCell(words.number(cell.value, decimals) + spread),
            TableCell(ours),
        )
        beside = (TableCell(one.beside.text if one.beside else words.DASH),) if shows_beside else ()
        rows.append((*named, *numbers, *beside, TableCell(one.text, mark=_mark(one))))
    head = ("model", "answers") if shows_model else ("answers",)
    constant = TableCell.of_text("beside a constant answer") if shows_beside else ()
    heads = (
        *TableCell.of_text(*head),
        *map(TableCell, ("ε", "printed", "ours")),
        *constant,
        *TableCell.of_text("verdict"),
    )
    return TableBlock(f"Table {table.name}, {title}", heads, tuple(rows))


def _mark(one: Verdict) -> str:
    """Only what a constant answer has not too is marked as good."""
    if one.kind in (DIFFERS, MISPRINTED):
        return "differs"
    return "above" if one.kind == WITHIN and one.beside is not None and one.beside.is_apart else ""


def _answers(one: Verdict) -> str:
    cell = one.cell
    if not cell.system or cell.system.startswith("sigma"):
        return cell.system or "Poisson subsample"
    name = " or ".join(map(words.system_name, cell.larger_of)) or words.system_name(cell.system)
    name = f"the larger of {name}" if cell.larger_of else name
    return name if cell.shots is None else f"{name}, {cell.shots:g} shots"
