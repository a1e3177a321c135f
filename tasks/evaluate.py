"""Evaluation: scores and baselines of a unit become rows of results."""

from __future__ import annotations

from typing import Any

from dpicl.contract import TextContract
from dpicl.evaluation import Metrics
from dpicl.methods import METHODS
from dpicl.methods.common import ZERO_SHOT, results
from dpicl.methods.dp_icl import said_of
from dpicl.pipeline import Cell
from tasks.artefacts import ANSWERS, BASELINES, PREDICTIONS, RESULTS, finite, read_answers, read_queries, write_predictions
from tasks.doorway import unit_stage
from tasks.files import read_json, write_json
from tasks.fit_baselines import has_baselines
from tasks.run_folder import UnitFolder
from tasks.score import read_scores


@unit_stage("evaluate", RESULTS)
def evaluate(folder: UnitFolder) -> str:
    """Compare every answer with the truth, where there is something to compare."""
    evaluation = folder.declared.evaluation
    rows = {"public": _exact_metrics, "charged": _charged_metrics, "none": lambda _: []}[evaluation](folder)
    write_json(folder.path / RESULTS, rows)
    return "nothing is measured" if evaluation == "none" else f"{len(rows)} results"


def _exact_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    """Of public queries."""
    method = METHODS[folder.unit.method]
    truth = method.truth_of(read_queries(folder), folder.declared)
    by_key = {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.asked_cells())}
    said = {by_key[key]: table for key, table in read_scores(folder).items()}
    if isinstance(folder.declared, TextContract):
        said |= said_of(read_answers(folder.path / ANSWERS, by_key.values()), folder.declared)
    write_predictions(
        folder.path / PREDICTIONS, said, {cell: method.answers.answers_of(one, folder.declared) for cell, one in said.items()}
    )
    fitted = read_json(folder.path / BASELINES) if has_baselines(folder.unit, folder.declared) else []
    baselines = {Cell(row["system"], float(row["epsilon"])): _metrics(row) for row in fitted}
    metrics = {**method.answers.metrics_of(said, truth, folder.declared), **baselines}
    rows = results(folder.unit, metrics, method.costs(folder.declared, folder.unit))
    return [_plain(row.as_row()) for row in rows]


def _charged_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    """Of held-out private rows."""
    raise NotImplementedError


def _metrics(row: dict[str, Any]) -> Metrics:
    return Metrics(row["query_count"], row["accuracy"], row["balanced_accuracy"], row["auc"])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
