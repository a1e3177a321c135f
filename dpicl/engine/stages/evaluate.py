"""Evaluation: scores and baselines of a unit become rows of results."""

from __future__ import annotations

import json
from typing import Any

from dpicl.accounting.ledger import Ledger, Release
from dpicl.engine.accounts import open_account
from dpicl.engine.artefacts import BASELINES, PREDICTIONS, RESULTS, finite, read_queries, read_texts, write_predictions
from dpicl.engine.files import read_json, write_json
from dpicl.engine.models import fingerprint
from dpicl.engine.names import evaluation_of
from dpicl.engine.releases import UnitReleases, ledger_key, open_ledger
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.fit_baselines import has_baselines
from dpicl.engine.stages.score import read_scores
from dpicl.evaluation import Metrics
from dpicl.methods import METHODS, held_out_evaluation
from dpicl.methods.common import ZERO_SHOT, draws_for, results
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell

EVALUATION = Cell("evaluation")
"""The one release of an evaluation."""


@unit_stage("evaluate", RESULTS)
def evaluate(folder: UnitFolder) -> str:
    """Compare every answer with the truth, where there is something to compare."""
    evaluation = folder.declared.evaluation
    rows = [] if evaluation == "none" else {"public": _exact_metrics, "charged": _charged_metrics}[evaluation](folder)
    write_json(folder.path / RESULTS, rows)
    return "nothing is measured" if evaluation == "none" else f"{len(rows)} results"


def _exact_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    """Of public queries."""
    method = METHODS[folder.unit.method]
    truth = method.answers.truth_of(read_queries(folder), folder.declared)
    by_key = {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.evaluated_cells)}
    said = {by_key[key]: table for key, table in read_scores(folder).items()}
    if isinstance(method, TextMethod):
        said |= method.final_answers(read_texts(folder)[0], folder.texts)
    write_predictions(
        folder.path / PREDICTIONS, said, {cell: method.answers.answers_of(one, folder.declared) for cell, one in said.items()}
    )
    fitted = read_json(folder.path / BASELINES) if has_baselines(folder.unit, folder.declared) else []
    baselines = {Cell(row["system"], float(row["epsilon"])): _metrics(row) for row in fitted}
    metrics = {**method.answers.metrics_of(said, truth, folder.declared), **baselines}
    rows = results(folder.unit, metrics, method.costs(folder.declared, folder.unit))
    return [_plain(row.as_row()) for row in rows]


def _charged_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    """Of held-out private rows: noisy counts, charged before they are counted, drawn once, and read back as they were published."""
    contract, unit = folder.contract, folder.unit
    with open_ledger(folder.settings) as ledger:
        named = UnitReleases(folder, {EVALUATION: _evaluation(folder, ledger)})
        if named.charge(ledger, EVALUATION).artefact_sha256 is None:
            named.publish(ledger, EVALUATION, json.dumps(_draw(folder)).encode())
        released = json.loads(named.read(ledger, EVALUATION))
    metrics = held_out_evaluation.metrics_of(released, unit)
    return [_plain(row.as_row()) for row in results(unit, metrics, METHODS[unit.method].costs(contract, unit))]


def _draw(folder: UnitFolder) -> list[int]:
    """Noisy counts of right answers, and of the rows."""
    contract, unit = folder.contract, folder.unit
    by_key = {cell.key: cell for cell in (ZERO_SHOT, *unit.evaluated_cells)}
    said = {by_key[key]: table for key, table in read_scores(folder).items()}
    counts = held_out_evaluation.right_counts(said, METHODS[unit.method].answers.truth_of(read_queries(folder), contract), unit)
    return held_out_evaluation.released_counts(counts, contract, unit, draws_for(contract, unit.seed).secret("evaluation", ""))


def _evaluation(folder: UnitFolder, ledger: Ledger) -> Release:
    contract, unit, plan = folder.contract, folder.unit, read_plan(folder.run)
    return evaluation_of(
        ledger_key(folder.settings),
        open_account(ledger, contract, unit.method, folder.settings),
        contract,
        unit,
        UnitReleases.of(folder, ledger).named.values(),
        period=plan.period_of(unit.dataset),
        model=fingerprint(plan.model, folder.settings),
        queries=plan.pipeline.queries,
    )


def _metrics(row: dict[str, Any]) -> Metrics:
    return Metrics(row["query_count"], row["accuracy"], row["balanced_accuracy"], row["auc"])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
