"""The page that a reproduction ends with: each printed number, ours beside it, and a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dpicl.methods.published.cells import Paper, PrintedTable
from dpicl.report import words
from dpicl.report.blocks import Banner, Block, Bullets, Cell, Fold, Report, Section, Table, Text
from dpicl.report.reproduce.verdicts import DIFFERS, NOT_RUN, UNCLEAR, WITHIN, Made, Verdict, judged

Judged = Sequence[tuple[PrintedTable, list[Verdict]]]
_MARKS = {WITHIN: "above", UNCLEAR: "", DIFFERS: "differs", NOT_RUN: ""}
_DECIMALS = {"queries": 0}


def verdicts_of(paper: Paper, tables: Iterable[str], made: Made) -> Judged:
    """Every cell of these tables, judged."""
    chosen = set(tables)
    return [(table, judged(table, made)) for table in paper.tables if table.name in chosen]


def summary(found: Judged) -> str:
    """How many cells came out how, in a sentence."""
    counts = Counter(verdict.kind for _, verdicts in found for verdict in verdicts)
    return f"Of {sum(counts.values())} printed numbers {counts[WITHIN]} are within noise, {counts[DIFFERS]} differ, {counts[UNCLEAR]} are too noisy to tell, and {counts[NOT_RUN]} were not run."


def page_of(paper: Paper, found: Judged, made: Made) -> Report:
    """The whole page, in reading order."""
    ran = [side.name for side in made.runs.values()]
    about = f"{paper.title}; answered by {words.listing(list(made.models))}; " + (
        f"runs {words.listing(ran)}" if ran else "no run is finished"
    )
    reasons = Counter(verdict.why for _, verdicts in found for verdict in verdicts if verdict.why)
    opening: list[Block] = [*_banners(made), Text(summary(found), "lead"), _overview(found)]
    if reasons:
        opening.append(Bullets(tuple(f"{count} × {why}" for why, count in reasons.most_common())))
    sections = (
        Section(f"table-{table.name}", f"Table {table.name}: {table.title}", tuple(_blocks(table, verdicts))) for table, verdicts in found
    )
    return Report(f"{paper.title.partition(',')[0]} reproduced", about, tuple(opening), tuple(sections))


def _banners(made: Made) -> Iterator[Banner]:
    models = [side.run.manifest.model for side in made.runs.values()]
    if any(model is not None and not model.trained for model in models):
        yield Banner("Random weights.", "What such a model answers means nothing: this shows only that every table runs.")


def _overview(found: Judged) -> Table:
    rows = []
    for table, verdicts in found:
        counts = Counter(verdict.kind for verdict in verdicts)
        rows.append((Cell(f"{table.name}: {table.title}"), *(Cell(str(counts[kind])) for kind in _MARKS)))
    return Table("Verdicts by table", (*Cell.of_text("table"), *map(Cell, _MARKS)), tuple(rows))


def _blocks(table: PrintedTable, verdicts: list[Verdict]) -> Iterator[Block]:
    """A fold per data set and model."""
    ordered = sorted(verdicts, key=lambda one: (one.cell.dataset, one.model))
    for (dataset, model), group in groupby(ordered, key=lambda one: (one.cell.dataset, one.model)):
        own = list(group)
        counts = Counter(verdict.kind for verdict in own)
        note = ", ".join(f"{counts[kind]} {kind}" for kind in _MARKS if counts[kind])
        title = f"{dataset}, {model}" if model and table.pipeline else dataset
        yield Fold(title, (_table(table, title, own),), level=3, note=note)


def _table(table: PrintedTable, title: str, verdicts: list[Verdict]) -> Table:
    shows_model = len({verdict.cell.model for verdict in verdicts}) > 1
    head = ("model", "answers") if shows_model else ("answers",)
    rows = []
    for one in verdicts:
        cell, decimals = one.cell, _DECIMALS.get(one.cell.metric, 3)
        spread = "" if cell.deviation is None else f" ± {cell.deviation:.3f}"
        half = f" ± {one.half:.3f}" if one.half > 0 else ""
        ours = words.DASH if math.isnan(one.ours) else words.number(one.ours, decimals) + half
        named = ((Cell(cell.model),) if shows_model else ()) + (Cell(_answers(one), cell.metric),)
        numbers = (Cell(words.epsilon(cell.epsilon)), Cell(words.number(cell.value, decimals) + spread), Cell(ours))
        rows.append((*named, *numbers, Cell(one.why or one.kind, mark=_MARKS[one.kind])))
    heads = (*Cell.of_text(*head), *map(Cell, ("ε", "printed", "ours")), *Cell.of_text("verdict"))
    return Table(f"Table {table.name}, {title}", heads, tuple(rows))


def _answers(one: Verdict) -> str:
    cell = one.cell
    if not cell.system or cell.system.startswith("sigma"):
        return cell.system or "Poisson subsample"
    name = words.system_name(cell.system)
    return name if cell.shots is None else f"{name}, {cell.shots:g} shots"
