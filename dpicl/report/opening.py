"""What a report begins with: the answer in one sentence, a picture, what models read and said, and
what it cost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from dpicl.report import words
from dpicl.report.answer import answer, answerers
from dpicl.report.blocks import Banner, Block, Bullets, Code, Figure, Fold, Table, Text
from dpicl.report.blocks import Cell as Entry
from dpicl.report.decision import intervals, promised
from dpicl.report.figures import Figures
from dpicl.report.first_answers import Asked, FirstAnswers
from dpicl.report.labels import constant_sentences
from dpicl.report.load import Manifest, Run
from dpicl.report.side_by_side import signs, suits


def first_screen(run: Run, gains: pd.DataFrame, figures: Figures) -> Iterator[Block]:
    """The first blocks of a report."""
    if sentence := answer(run, gains):
        yield Text(sentence, "lead")
    model = run.manifest.model
    if model and not model.trained:
        yield Banner(
            "Random weights.",
            "The accuracies of in-context answers mean nothing; they show that the pipeline works.",
        )
    elif model and model.note:
        yield Banner("Not a general model.", f"{model.name} is {model.note}.")
    if constants := tuple(constant_sentences(run.labelled)):
        yield Banner("One answer to everything.", f"{'; '.join(constants)}.")
    if figures.gain:
        below = (
            "A stroke is what does best without private data, of the majority label and the model "
            "without demonstrations."
            if figures.is_narrow
            else "The line is what does best without private data: the majority label, or the "
            "model without demonstrations. Below the line, "
            "using no private data does better."
        )
        yield Figure(
            "What the private data add",
            figures.gain,
            f"{below} A bar is {intervals(run)}.",
            figures.is_narrow,
        )
    if run.first:
        yield from _read_and_said(run.first, _main(run.manifest))
    if len(run.results):
        yield Bullets(tuple(f"{line[:1].upper()}{line[1:].rstrip('.')}." for line in cost(run)))


def _main(manifest: Manifest) -> str:
    return manifest.model.name if manifest.model else ""


def _read_and_said(first: FirstAnswers, main: str) -> Iterator[Block]:
    yield Text(
        f"The first queries, with {first.shots} demonstrations that "
        f"{words.method_name(first.method)} released at ε = "
        f"{words.epsilon(first.epsilon)} and without any, as models read them:"
    )
    if first.demonstrations:
        yield Fold(
            f"The {first.shots} released demonstrations before every query",
            (Code(first.demonstrations),),
        )
    for one in first.queries:
        yield Code(one.text)
        rows = tuple(
            (Entry(model or main), Entry(bare), Entry(shown), Entry(one.truth))
            for model, (bare, shown) in one.answers.items()
        )
        head = (
            *Entry.of_text("asked"),
            Entry("alone", mark="text"),
            Entry("with them", mark="text"),
            Entry("truth", mark="text"),
        )
        yield Table("Answers", head, rows)


def cost(run: Run) -> Iterator[str]:
    """What a run promised, was charged and took, as sentences without an end."""
    yield from promised(run.manifest)
    yield from paid(run.manifest)
    if len(run.timings):
        yield f"took: {words.duration(float(run.timings['seconds'].sum()))} of work in all stages"


def paid(manifest: Manifest) -> list[str]:
    """What a run was charged, and what is spent in all."""
    return (
        ["charged: nothing; the data are public, and the noise is seeded"]
        if manifest.simulated
        else manifest.budget
    )


def first_lines(run: Run, gains: pd.DataFrame) -> Iterator[str]:
    """The same, but for what it cost, as lines of a terminal."""
    if sentence := answer(run, gains):
        yield sentence
    yield from constant_sentences(run.labelled)
    few = answerers(run, gains)
    if suits(few, run.manifest.grid.epsilons):
        yield from signs(few)
    if run.first:
        yield from map(_line, run.first.queries, [_main(run.manifest)] * len(run.first.queries))


def _line(one: Asked, main: str) -> str:
    said = (
        f"{model or main} {shown}, without demonstrations {bare}"
        for model, (bare, shown) in one.answers.items()
    )
    return f"“{one.text}” {'; '.join(said)}; the truth is {one.truth}"
