"""The section of a report in which cells open to what the model saw and what it answered."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpicl.methods.tabular_answers import AVERAGED
from dpicl.report import words
from dpicl.report.blocks import Block, Cell, Code, Fold, Heading, Table, Text
from dpicl.report.cells import Answer, Answered, Cells

_PRIVATE = "Prompts of an ensemble hold private rows and are never shown"


def answers(cells: Cells) -> Iterator[Block]:
    """What the section of answers holds: a fold for every number of the tables, all of its seeds in
    it.
    """
    if not cells.shown:
        return
    most = max(len(one.answers) for one in cells.shown)
    yield Text(
        "What the model saw and what it answered, wrong answers first: of public queries and "
        "released demonstrations alone, nothing at ε = ∞. "
        f"Shown: up to {most} queries each of {len(cells.shown):,} of {cells.count:,} cells and "
        f"seeds. "
        "log p is the logarithm of the probability that the model gives a label; without "
        "calibration, the largest is the answer."
    )
    by_number: dict[tuple[str, str], dict[str, list[Answered]]] = {}
    for one in cells.shown:
        method, dataset, _ = one.where
        by_number.setdefault((method, dataset), {}).setdefault(one.anchor, []).append(one)
    for (method, dataset), numbers in by_number.items():
        yield Heading(f"{words.method_name(method)}, {dataset}")
        for name, seeds in numbers.items():
            yield _fold(name, seeds)


def _fold(name: str, seeds: list[Answered]) -> Fold:
    system, epsilon, shots, rate = seeds[0].place
    title = [words.system_name(system), f"ε = {words.epsilon(epsilon)}"]
    title += [
        f"{sign} = {value:g}"
        for sign, value in (("k", shots), ("rate", rate))
        if not math.isnan(value)
    ]
    right = (
        f"{one.right} of {one.count} right" if one.labels else f"{one.count} answers"
        for one in seeds
    )
    labels = seeds[0].labels if any(one.scores for cell in seeds for one in cell.answers) else ()
    kind = "text" if seeds[0].labels else "prose"
    head = (
        *Cell.of_text("query"),
        Cell("truth", mark=kind),
        Cell("answer", mark=kind),
        *(Cell(f"log p: {label}") for label in labels),
    )
    rows = [_row(one, cell, len(labels)) for cell in seeds for one in cell.answers]
    return Fold(
        ", ".join(title),
        (Table(", ".join(title), head, tuple(rows)), *map(_prompts_fold, seeds)),
        note=" · ".join(
            f"seed {one.where[2]}: {text}" for one, text in zip(seeds, right, strict=True)
        ),
        anchor=name,
    )


def _row(one: Answer, cell: Answered, width: int) -> tuple[Cell, ...]:
    is_wrong = bool(cell.labels) and one.truth != one.answer
    answer = Cell(one.answer, note="wrong", mark="wrong") if is_wrong else Cell(one.answer)
    scores = [*(Cell(words.signed(score)) for score in one.scores), *[Cell(words.DASH)] * width][
        :width
    ]
    return (Cell(f"seed {cell.where[2]}, query {one.query + 1}"), Cell(one.truth), answer, *scores)


def _prompts_fold(cell: Answered) -> Fold:
    """The prompts of one seed; what all begin with stands once."""
    blocks: list[Block] = []
    if cell.is_query_alone:
        why = (
            "Each was asked with several draws of demonstrations"
            if cell.key.startswith(AVERAGED)
            else _PRIVATE
        )
        blocks.append(Text(f"{why}; these are the queries.", "small"))
    if cell.beginning:
        blocks += [
            Text("Every prompt begins with these demonstrations:", "small"),
            Code(cell.beginning.rstrip("\n")),
        ]
    for one in cell.answers:
        blocks += [Text(f"Query {one.query + 1}:", "small"), Code(one.prompt)]
    return Fold(
        f"{'Queries' if cell.is_query_alone else 'Prompts'}, seed {cell.where[2]}", tuple(blocks)
    )
