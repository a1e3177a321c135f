"""The contents of a report: everything computed from a run folder, in reading order."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpicl.contract.payment import ACCOUNTS_ADD_UP, NOTHING_RELEASED, WALLETS_ADD_UP
from dpicl.ground.installed import extra_missing
from dpicl.ground.nouns import many
from dpicl.models.kinds import kind_named
from dpicl.report import sentences, words
from dpicl.report.answers import answers, mass_blocks
from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    Code,
    Figure,
    FoldedBlock,
    Heading,
    Pairs,
    Paragraph,
    Report,
    Section,
    TableBlock,
    TableCell,
)
from dpicl.report.cells import Cells, is_released
from dpicl.report.columns import columns_svg
from dpicl.report.decision import CELL, decision, gain_table, in_odds, leading, promised
from dpicl.report.figures import Figures
from dpicl.report.load import Manifest, ReleasedExamples, Run, demonstration_files
from dpicl.report.opening import first_screen, lead, time_of
from dpicl.report.sentences import formed
from dpicl.report.tables import (
    METRICS,
    Paper,
    cell_name,
    fitted_means,
    guarantee_table,
    metric_tables,
    relevant_errata,
    stage_seconds,
)

EXAMPLE_CELLS = 2
EXAMPLE_TEXTS = 4


@dataclass(frozen=True)
class Who:
    """Who is answered what: shares of answers, and what they are by a column of the queries, if one
    was named.
    """

    shares: tuple[Block, ...] = ()
    groups: tuple[Block, ...] = ()
    column: str = ""


def report_of(
    run: Run, figures: Figures, gains: pd.DataFrame, cells: Cells, who: Who = Who()
) -> Report:
    """The whole report, in words and numbers."""
    manifest = run.manifest
    about = (
        f"Pipeline {manifest.pipeline}, run {manifest.run_id}, {manifest.created_utc}, dpicl "
        f"{manifest.dpicl_version}"
    )
    no_budget = NOTHING_RELEASED if manifest.simulated else "The run did not state its budget."
    fitted: list[Block] = []
    if figures.fitted.svg:
        caption = (
            "Accuracy on the whole test split of logistic regression, by what it was fitted on; "
            "bars are one standard deviation over seeds, right of the last ε there is no privacy."
        )
        both = figures.fitted
        fitted.append(Figure("Logistic regression", both.svg, caption, both.narrow))
    if (means := fitted_means(run.results)) is not None:
        fitted.append(means)
    sections: dict[tuple[str, str], list[Block]] = {
        ("figures", "Figures"): [Paragraph(figures.missing)]
        if figures.missing
        else [figure for _, figure in figures.by_method],
        ("worth", "Released columns and rows"): list(_worth(run)),
        ("accuracy", "Accuracy"): [*_accuracy(run, gains, cells.anchors), *who.shares]
        if len(run.results)
        else [],
        ("labels", "Probability on the labels"): list(mass_blocks(run.labelled)),
        ("groups", f"By {who.column}"): list(who.groups),
        ("fitted", "What was released, judged by the baselines"): fitted,
        ("reports", "Clients' reports"): sentences.section(manifest.reports),
        ("guarantees", "Guarantees"): list(_guarantees(run)),
        ("gains", "Gains of every cell"): [gain_table(run.results, gains)]
        if len(gains) > len(leading(gains))
        else [],
        ("demonstrations", "What was released"): list(_demonstrations(run)),
        ("answers", "Answers"): list(answers(cells)),
        ("costs", "Time and energy"): list(_costs(run, figures)),
        ("limits", "What is not protected"): [
            Bullets(tuple(manifest.not_protected))
            if manifest.not_protected
            else Paragraph("The run did not state its limits.")
        ],
        ("budget", "Budget"): [Paragraph(sentence) for sentence in manifest.budget or [no_budget]],
        ("reproduce", "Reproduce"): list(_reproduce(run)),
    }
    shown = tuple(
        Section(name, title, tuple(blocks), is_page_only=name == "answers")
        for (name, title), blocks in sections.items()
        if blocks
    )
    opening = tuple(_opening(run, gains, figures))
    return Report(
        sentences.titled(manifest.grid.datasets, manifest.title),
        about,
        opening,
        shown,
        lead(run, gains),
    )


def _opening(run: Run, gains: pd.DataFrame, figures: Figures) -> Iterator[Block]:
    manifest = run.manifest
    results = run.results
    yield from first_screen(run, gains, figures)
    yield from (
        Banner("Another experiment than the published one.", sentence)
        for sentence in sentences.smaller(manifest)
    )
    if manifest.simulated and len(results):
        yield Banner(
            "Seeded noise on public data: not a release.",
            "Anyone with the seed can remove the noise.",
            is_note=True,
        )
    stated = [(guarantee.method, guarantee.dataset) for guarantee in manifest.guarantees]
    methods = (
        list(dict.fromkeys([*results["method"], *(method for method, _ in stated)]))
        or manifest.grid.methods
    )
    yield Paragraph(
        sentences.what_was_run(
            manifest,
            methods,
            _datasets(run) or manifest.grid.datasets,
            has_answers=len(results) > 0,
        )
    )
    yield from map(
        Paragraph, sentences.sentences_of(manifest.reports, with_answers=len(results) > 0)
    )
    if not len(results):
        yield from (
            Paragraph(f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in promised(manifest)
        )
    if odds := in_odds(manifest):
        yield Paragraph(odds)
    if len(results) and not (shown := list(decision(run, gains))):
        yield Paragraph("No private in-context answers are among the results.")
    elif len(results):
        yield from shown
    yield from map(
        Paragraph,
        (
            *(f"{sentence}." for sentence in sentences.asked(manifest)),
            *sentences.measured(manifest),
            *manifest.left_out,
        ),
    )


def _datasets(run: Run) -> list[str]:
    return list(
        dict.fromkeys(
            [*run.results["dataset"], *(stated.dataset for stated in run.manifest.guarantees)]
        )
    )


def _paper(manifest: Manifest) -> Paper:
    return Paper.beside(manifest.model_name, manifest.options)


def _accuracy(run: Run, gains: pd.DataFrame, anchors: Container[str]) -> Iterator[Block]:
    results = run.results
    paper = _paper(run.manifest)
    named = zip(
        gains[["method", "dataset", *CELL]].itertuples(index=False, name=None),
        gains["gain"],
        strict=True,
    )
    better = {cell_name(*name) for name, gain in named if gain.sign > 0}
    metrics = {metric: metric_tables(results, metric, paper, better, anchors) for metric in METRICS}
    notes = [
        "Mean ± sample standard deviation over seeds.",
        sentences.bold_is(results),
        *sentences.beside(run.manifest),
    ]
    if any(
        cell.quoted
        for tables in metrics.values()
        for table in tables
        for row in table.rows
        for cell in row
    ):
        baselines = (
            "; its baselines stand beside both of ours"
            if "lr-naive" in set(results["system"])
            else ""
        )
        notes.append(
            f"Beside our numbers: what the paper prints for "
            f"{paper.models(set(results['method']))}{baselines}."
        )
        if smaller := [less.dataset for less in run.manifest.smaller_than_published]:
            notes.append(
                f"On {words.listing(smaller)} the paper had more texts, and less noise at the "
                f"same ε."
            )
    if "averaged" in set(results["system"].str.partition("-")[0]):
        notes.append(
            f"Draws averaged: of {run.manifest.grid.draws} draws of shots from the same release "
            "the mean probability of every answer, at no cost; in-context is the first of them."
        )
    if run.manifest.model and kind_named(run.manifest.model.kind).most_rows:
        notes.append(
            "The model reads released rows, k at most, and knows nothing without them: majority "
            "needs none, and there is no zero-shot."
        )
    else:
        notes.append("Majority and zero-shot need no demonstrations.")
    if results["amplified_epsilon"].notna().any():
        notes.append("ε′ is ε after amplification by subsampling.")
    yield Paragraph(" ".join(notes), "small")
    for metric, tables in metrics.items():
        blocks = tuple(block for table in tables for block in (Heading(table.label), table))
        if metric == "accuracy":
            yield from blocks
        elif tables:
            yield FoldedBlock(
                METRICS[metric], blocks, level=2, is_open=metric in ("rouge1", "absolute_error")
            )


def _worth(run: Run) -> Iterator[Block]:
    """Of releases of private rows: a picture, what they are worth, some rows."""
    for unit in run.worth:
        for key, found in unit.cells.items():
            if found.truth is not None:  # of a benchmark: the opening has it
                continue
            title = f"{words.method_name(unit.method)}, {unit.dataset}, {cell_label(key)}"
            if extra_missing("matplotlib"):
                yield Heading(title)
            else:
                caption = "Shares of released rows; lines show where 90 % of true shares are."
                yield Figure(
                    title, columns_svg(found.columns), caption, columns_svg(found.columns, 1)
                )
            yield Bullets(tuple(found.told))
            heads = tuple(found.rows[0]) if found.rows else ()
            rows = (tuple(row.values()) for row in found.rows)
            yield TableBlock.of(f"Some rows: {title}", heads, rows)


def _guarantees(run: Run) -> Iterator[Block]:
    manifest = run.manifest
    table = guarantee_table(manifest.guarantees)
    if table.rows:
        count = sum(cell.mark == "differs" for row in table.rows for cell in row)
        differing = (
            f"; {many(count, 'cell differs', 'cells differ')} from the paper's Table V"
            if count
            else ""
        )
        own = WALLETS_ADD_UP if manifest.reports else ACCOUNTS_ADD_UP
        yield Paragraph(
            f"The differential privacy of one release, by nominal ε{differing}. {own}"
            f"{' Nothing is guaranteed at ε = ∞.' * manifest.is_unprotected}"
        )
        yield table
        statements = tuple(
            dict.fromkeys(
                stated.statement
                for stated in manifest.guarantees
                if not math.isinf(stated.grid_epsilon)
            )
        )
        yield FoldedBlock(
            f"Every guarantee as a sentence ({len(statements)})", (Bullets(statements),)
        )
    else:
        yield Paragraph("This run states no guarantee.")
    slips = relevant_errata(
        manifest.guarantees, set(run.results["method"]), set(_datasets(run)), _paper(manifest).model
    )
    if slips:
        title = "Slips in the paper's tables"
        yield Heading(title)
        rows = (
            (
                slip.table,
                ", ".join(filter(None, (slip.dataset, slip.cell))),
                slip.printed,
                slip.corrected or "not known",
                slip.why,
            )
            for slip in slips
        )
        prose = {"cell", "why"}
        heads = (
            TableCell(name, mark="prose" if name in prose else "text")
            for name in ("table", "cell", "printed", "corrected", "why")
        )
        yield TableBlock.of(title, heads, ([text or words.DASH for text in row] for row in rows))


def _demonstrations(run: Run) -> Iterator[Block]:
    yield from (Paragraph(f"{sentence}.") for sentence in formed(run.forms))
    shown = examples(run.demonstrations)
    if shown:
        unprotected = "; those at ε = ∞ are never shown" * run.manifest.is_unprotected
        yield Paragraph(
            "Some of what was released: demonstrations, or answers of an ensemble. They are the "
            f"output of the mechanism, not rows of the table{unprotected}. All are in the run's "
            f"folder: {demonstration_files(run.demonstrations)}."
        )
    for example in shown:
        title = (
            f"{words.method_name(example['method'])}, {example['dataset']}, seed {example['seed']}"
        )
        texts: list[Block] = []
        for label, demonstrations in example["cells"]:
            texts += [Paragraph(f"{label}:", "small"), *map(Code, demonstrations)]
        yield FoldedBlock(title, tuple(texts), level=3, is_open=example is shown[0])


def examples(units: tuple[ReleasedExamples, ...]) -> list[dict[str, Any]]:
    """A few private demonstrations of the first unit of each method and data set.

    Cells at epsilon = inf are left out: no mechanism protected what they hold.
    """
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for unit in units:
        cells = [
            (cell_label(key), texts[:EXAMPLE_TEXTS])
            for key, texts in unit.cells.items()
            if is_released(key) and texts
        ]
        if cells and (unit.method, unit.dataset) not in shown:
            entry = {
                "method": unit.method,
                "dataset": unit.dataset,
                "seed": unit.seed,
                "cells": cells[:EXAMPLE_CELLS],
            }
            shown[unit.method, unit.dataset] = entry
    return list(shown.values())


def cell_label(key: str) -> str:
    """`icl,epsilon=1.0,shots=2` as `ε = 1, k = 2`."""
    names = {"epsilon": "ε", "shots": "k"}
    parts = [part.partition("=") for part in key.split(",")]
    return (
        ", ".join(
            f"{names.get(name, name)} = {value.removesuffix('.0')}"
            for name, sign, value in parts
            if sign
        )
        or key
    )


def _costs(run: Run, figures: Figures) -> Iterator[Block]:
    if not len(run.timings):
        return
    seconds = stage_seconds(run.timings)
    energy = run.manifest.energy
    by_stage = seconds.sum(axis=1)
    total = float(by_stage.sum())
    summary = f"{time_of(run, total)}; stages that ran in parallel are added up."
    if energy and run.manifest.simulated:
        summary += f" {sentences.energy_sentence(total, energy)}"
    yield Paragraph(summary)
    if figures.time.svg:
        yield Figure("Wall time by stage", figures.time.svg, narrow=figures.time.narrow)
    title = "Wall time by stage"
    table = TableBlock.of(
        title,
        ("stage", *map(words.method_name, seconds.columns), "all", "share"),
        (
            (
                str(stage),
                *map(words.duration, (*row, spent)),
                f"{words.number(100 * spent / (total or 1), 1)} %",
            )
            for (stage, row), spent in zip(seconds.iterrows(), by_stage, strict=True)
        ),
    )
    yield FoldedBlock("The same as a table", (table,))


def _reproduce(run: Run) -> Iterator[Block]:
    manifest = run.manifest
    if manifest.command:
        yield Code(manifest.command)
    facts = sentences.facts(manifest, run.answers)
    if not run.is_model_used:
        facts.pop("Model", None)
    yield Pairs(tuple((name, text or words.DASH) for name, text in facts.items()))
    if manifest.contracts:
        prose = {"licence", "digest"}
        heads = (
            TableCell(name, mark="prose" if name in prose else "text")
            for name in ("contract", "licence", "benchmark", "sampling rate", "digest")
        )
        rows = (
            (
                TableCell(name, used.title),
                TableCell(used.licence or words.DASH, used.positive_rate_note or ""),
                "yes" if used.benchmark else "no",
                used.sampling_rate or words.DASH,
                used.digest,
            )
            for name, used in manifest.contracts.items()
        )
        yield TableBlock.of("Contracts", heads, rows)
