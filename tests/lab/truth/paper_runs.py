"""Runs of a paper's pipeline whose results are made up: real plans, manifests and results, so that
every verdict is the product's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from dpicl.home.settings import Settings
from dpicl.methods.evaluation import results_frame_columns
from dpicl.methods.published import read_table
from dpicl.report.load import Manifest, Model, Run
from dpicl.runs.plan import plan_for
from dpicl.runs.results import TIMING_COLUMNS
from lab.compare.sides import Side
from lab.published.cells import FITTED, PrintedCell, PrintedTable, papers
from lab.reproduce import Made, Verdict, judged

SETS = ("adult", "bank", "blood", "calhousing", "car", "diabetes", "heart", "jungle")
MAJORITY = {
    "adult": 0.75,
    "bank": 0.88,
    "blood": 0.76,
    "calhousing": 0.5,
    "car": 0.7,
    "diabetes": 0.65,
    "heart": 0.55,
    "jungle": 0.515,
}
"""Shares of the more frequent label, as the sets' publishers state them."""
QUERIES = {row["dataset"]: int(row["query_count"]) for row in read_table("table-VI")}
Row = dict[str, Any]


def table(paper: str, name: str, dataset: str = "") -> PrintedTable:
    """A printed table, or its cells of one set."""
    (printed,) = (one for one in papers()[paper].tables if one.name == name)
    cells = tuple(cell for cell in printed.cells if dataset in ("", cell.dataset))
    return replace(printed, cells=cells)


def rows_of(
    printed: PrintedTable,
    accuracy: Callable[..., float],
    *,
    seeds: int = 5,
    queries: Mapping[str, int] = QUERIES,
    majority: Mapping[str, float] = MAJORITY,
    datasets: Sequence[str] = SETS,
) -> list[Row]:
    """A row of results for each accuracy of a printed table and each seed, and of the majority
    label.
    """
    rows: list[Row] = []
    for cell in printed.cells:
        if cell.dataset in datasets and cell.metric == "accuracy":
            for seed in range(seeds):
                count = 150 if cell.system in FITTED else queries.get(cell.dataset, 300)
                rows += [
                    row(
                        cell.method,
                        system,
                        cell.dataset,
                        seed,
                        count,
                        accuracy(cell),
                        shots=cell.shots,
                        epsilon=cell.epsilon,
                    )
                    for system in cell.larger_of or (cell.system,)
                ]
    for dataset in dict.fromkeys(one["dataset"] for one in rows):
        method = next(one["method"] for one in rows if one["dataset"] == dataset)
        if dataset in majority:
            rows += [
                row(method, "majority", dataset, seed, queries.get(dataset, 300), majority[dataset])
                for seed in range(seeds)
            ]
    return rows


def row(
    method: str,
    system: str,
    dataset: str,
    seed: int,
    count: int,
    accuracy: float,
    *,
    shots: float | None = None,
    epsilon: float | None = None,
) -> Row:
    """One row of results."""
    numbers = {
        "shots": math.nan if shots is None else shots,
        "epsilon": math.nan if epsilon is None else epsilon,
    }
    return {
        "method": method,
        "system": system,
        "dataset": dataset,
        "seed": float(seed),
        "query_count": float(count),
        "accuracy": accuracy,
        **numbers,
    }


def side_with(
    home: Path,
    pipeline: str,
    rows: Sequence[Row],
    *,
    model: str = "llama-2-13b",
    trained: bool = True,
    timings: Sequence[tuple[str, str, float, str, float]] = (),
    majority: Mapping[str, float] = MAJORITY,
    **changes: Any,
) -> Side:
    """A run with these results, planned as the pipeline has it but for `changes`."""
    settings = Settings(
        home, None, home / "contracts", Settings.from_environment().pipelines, home / "runs"
    )
    with settings.entered():
        plan = plan_for(pipeline, {"model": "tiny", **changes}, settings, "made")
    numbers = [
        name for name in results_frame_columns() if name not in ("method", "system", "dataset")
    ]
    results = pd.DataFrame(rows, columns=list(results_frame_columns()))
    results = results.assign(
        **{name: pd.to_numeric(results[name]).astype(float) for name in numbers}
    )
    manifest = Manifest(
        run_id="made",
        pipeline=pipeline,
        title="made up",
        created_utc="",
        dpicl_version="",
        simulated=True,
        model=Model(name=model, trained=trained),
        majority=dict(majority),
    )
    run = Run(
        manifest,
        results,
        pd.DataFrame(list(timings), columns=list(TIMING_COLUMNS)),
        (),
        pd.DataFrame(),
    )
    return Side(home / "runs" / "made", plan, run, len(plan.units))


def made_with(side: Side, model: str = "llama-2-13b", **more: Any) -> Made:
    """What is judged: one run of one model."""
    return Made({(side.plan.pipeline_name, model): side}, (model,), **more)


def verdicts(
    printed: PrintedTable, side: Side, model: str = "llama-2-13b", **more: Any
) -> dict[tuple[str, str, float | None, float | None], Verdict]:
    """Verdicts by data set, system, shots and epsilon."""
    return {
        (one.cell.dataset, one.cell.system, one.cell.shots, one.cell.epsilon): one
        for one in judged(printed, made_with(side, model, **more))
    }


def judged_cell(
    home: Path,
    mean: float,
    queries: int,
    *,
    deviation: float = 0.05,
    majority: float | None = None,
    changed: str = "",
    **of_run: Any,
) -> Verdict:
    """Of a printed accuracy of 0.76, beside this one in each of five seeds."""
    cell = PrintedCell(
        "Llama-2 13B",
        "ldp_tabicl",
        "blood",
        "icl",
        1.0,
        1.0,
        "accuracy",
        0.76,
        deviation,
        changed=changed,
    )
    rows = [
        row("ldp_tabicl", "icl", "blood", seed, queries, mean, shots=1.0, epsilon=1.0)
        for seed in range(5)
    ]
    if majority is not None:
        rows += [
            row("ldp_tabicl", "majority", "blood", seed, queries, majority) for seed in range(5)
        ]
    side = side_with(home, "table-2-as-printed", rows, **of_run)
    printed = PrintedTable("0", "made up", (cell,), "table-2-as-printed")
    (found,) = judged(printed, made_with(side))
    return found
