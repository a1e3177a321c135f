"""Fill the templates: everything computed from a run folder, in reading order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dpicl.engine.csv_file import harmless
from dpicl.report import words
from dpicl.report.comparisons import comparisons, headlines
from dpicl.report.costs import costs
from dpicl.report.guarantees import guarantee_table, relevant_errata
from dpicl.report.load import Demonstrations, Run, load_run
from dpicl.report.paper import Paper
from dpicl.report.plots import epsilon_figure, fitted_figure, rate_figure, time_figure
from dpicl.report.svg import standalone
from dpicl.report.tables import METRICS, fitted_means, has_several_rates, metric_tables, of_texts

EXAMPLE_CELLS, EXAMPLE_TEXTS = 2, 4
FITTED = "fitted.svg"
"""What was released, judged by logistic regression, as a picture of its own."""
_MARKDOWN_SPECIAL = str.maketrans(
    {character: f"&#{ord(character)};" for character in "|`*[]"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "}
)


def build_report(run_folder: Path) -> tuple[Path, Path]:
    """Write report.html and report.md into the run folder and return their paths.

    Raises:
        DpiclError: the folder lacks its manifest, or a file in it breaks its schema.
    """
    run = load_run(run_folder)
    context = report_context(run)
    html, markdown = run_folder / "report.html", run_folder / "report.md"
    figures = figures_of(run)
    html.write_text(_environment(html=True).get_template("report.html.j2").render(context, **figures), encoding="utf-8")
    if figures["fitted_figure"]:
        (run_folder / FITTED).write_text(standalone(figures["fitted_figure"]), encoding="utf-8")
    markdown.write_text(_environment(html=False).get_template("report.md.j2").render(context), encoding="utf-8")
    return html, markdown


def report_context(run: Run) -> dict[str, Any]:
    """All values that both templates show."""
    manifest, results = run.manifest, run.results
    paper = Paper.beside(manifest.model.name if manifest.model else "", manifest.options)
    stated = [(guarantee.method, guarantee.dataset) for guarantee in manifest.guarantees]
    methods = list(dict.fromkeys([*results["method"], *(method for method, _ in stated)])) or manifest.grid.methods
    datasets = list(dict.fromkeys([*results["dataset"], *(dataset for _, dataset in stated)])) or manifest.grid.datasets
    metrics = {metric: metric_tables(results, metric, paper) for metric in METRICS}
    return {
        "manifest": manifest,
        "answers": words.answers(run.answers),
        "methods": methods,
        "datasets": datasets,
        "paper_models": paper.models(set(results["method"])),
        "headlines": headlines(results),
        "measured": words.measured(manifest),
        "metrics": [(METRICS[metric], tables) for metric, tables in metrics.items() if tables or metric == "accuracy"],
        "quotes_paper": any(table.quotes_paper for tables in metrics.values() for table in tables),
        "fitted_means": fitted_means(results),
        "comparisons": comparisons(results),
        "guarantees": guarantee_table(manifest.guarantees),
        "statements": list(dict.fromkeys(stated.statement for stated in manifest.guarantees if not math.isinf(stated.asked))),
        "errata": relevant_errata(manifest.guarantees, set(results["method"]), set(datasets), paper.model),
        "examples": examples(run.demonstrations),
        "costs": costs(run.timings, manifest.energy) if len(run.timings) else None,
        "systems": set(results["system"]),
        "of_texts": bool(of_texts(results).any()),
        "amplified": bool(results["amplified_epsilon"].notna().any()),
    }


def examples(units: tuple[Demonstrations, ...]) -> list[dict[str, Any]]:
    """A few private demonstrations of the first unit of each method and data set.

    Cells at epsilon = inf are left out: they hold what no mechanism protected.
    """
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for unit in units:
        cells = [(cell_label(key), texts[:EXAMPLE_TEXTS]) for key, texts in unit.cells.items() if _is_private(key) and texts]
        if cells and (unit.method, unit.dataset) not in shown:
            entry = {"method": unit.method, "dataset": unit.dataset, "seed": unit.seed, "cells": cells[:EXAMPLE_CELLS]}
            shown[unit.method, unit.dataset] = entry
    return list(shown.values())


def cell_label(key: str) -> str:
    """`icl,epsilon=1.0,shots=2` as `ε = 1, k = 2`."""
    names = {"epsilon": "ε", "shots": "k"}
    parts = [part.partition("=") for part in key.split(",")]
    return ", ".join(f"{names.get(name, name)} = {value.removesuffix('.0')}" for name, sign, value in parts if sign) or key


def _is_private(key: str) -> bool:
    """Only a cell that states a finite epsilon."""
    for name, _, value in (part.partition("=") for part in key.split(",")):
        if name == "epsilon":
            try:
                return math.isfinite(float(value))
            except ValueError:
                return False
    return False


def figures_of(run: Run) -> dict[str, Any]:
    """Inline SVG by method, whole texts apart; only text of ours and escaped names is in it."""
    figures = []
    for (method, texts), part in run.results.groupby(["method", of_texts(run.results)], sort=False):
        draw, metric = rate_figure if has_several_rates(part) else epsilon_figure, "rouge1" if texts else "accuracy"
        figures.append((method, has_several_rates(part), words.MEASURES[metric], Markup(draw(part, metric))))
    bars = Markup(time_figure(costs(run.timings, None))) if len(run.timings) else ""
    return {"figures": figures, "time_figure": bars, "fitted_figure": Markup(fitted_figure(run.results, run.manifest.majority))}


def _environment(*, html: bool) -> jinja2.Environment:
    """HTML escapes by autoescape; Markdown escapes whatever a template prints."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dpicl.report"),
        autoescape=html,
        finalize=None if html else _to_markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        method=words.method_name,
        number=words.number,
        epsilon=words.epsilon,
        signed=words.signed,
        p_value=words.p_value,
        duration=words.duration,
        mass=words.mass,
        listing=words.listing,
        code_block=_code_block,
    )
    return environment


def _to_markdown(value: object) -> object:
    """Nothing printed can open a tag, a link, a table cell or a line, or be a formula where a table is pasted."""
    return value if isinstance(value, Markup) else str(harmless(value)).translate(_MARKDOWN_SPECIAL)


def _code_block(text: str) -> Markup:
    """An indented Markdown code block: inside it nothing has a meaning."""
    return Markup("\n".join(f"    {line}" for line in text.splitlines()))
