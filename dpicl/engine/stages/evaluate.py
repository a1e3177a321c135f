"""Evaluation: scores of a unit, and baselines, which is what the same budget gives without a
language model, become rows of results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.engine.artefacts import (
    BASELINES,
    LOG_PROBABILITY,
    PREDICTIONS,
    RESULTS,
    VALUES,
    read_released,
    read_texts,
)
from dpicl.engine.files import finite, read_json, write_json
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import open_account
from dpicl.engine.releases import UnitReleases
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.run_quote import evaluation_of
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.charge import releases_of
from dpicl.engine.stages.score import read_scores
from dpicl.engine.table_files import write_table
from dpicl.evaluation import Metrics
from dpicl.methods import held_out_evaluation, tabular
from dpicl.methods.common import results
from dpicl.methods.tabular_answers import averaged
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell
from dpicl.types import QueryTable

_MEASURED = {one.name for one in fields(Metrics)}
EVALUATION = Cell("evaluation")
"""The one release of an evaluation."""


@unit_stage("baselines", BASELINES)
def fit_baselines(folder: UnitFolder) -> str:
    """Fit and test every baseline of the unit."""
    contract, unit = folder.contract, folder.unit
    released, draws = read_released(folder), folder.draws
    measured = tabular(unit.method).fitted(
        released, folder.rows.train, folder.rows.test(), contract, unit, draws
    )
    rows = [
        {"system": cell.system, "epsilon": str(cell.epsilon), **asdict(metrics)}
        for cell, metrics in measured.items()
    ]
    write_json(folder.path / BASELINES, rows)
    return f"{len(rows)} models"


@unit_stage("evaluate", RESULTS, "owner", reads_rows=False)
def evaluate(folder: UnitFolder) -> str:
    """Compare every answer with the truth, where there is something to compare."""
    evaluation = folder.declared.evaluation
    rows = (
        []
        if evaluation == "none"
        else {"public": _exact_metrics, "charged": _charged_metrics}[evaluation](folder)
    )
    write_json(folder.path / RESULTS, rows)
    return "nothing is measured" if evaluation == "none" else f"{len(rows)} results"


def _exact_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    method, contract, unit = folder.method, folder.declared, folder.unit
    scores = read_scores(folder)
    if isinstance(method, TextMethod):
        scores |= method.final_answers(read_texts(folder)[0], folder.texts)
    queries = folder.rows.queries()
    write_table(
        folder.path / PREDICTIONS, _predictions(folder, {**scores, **averaged(scores)}, queries)
    )
    judged = {
        cell.key: one for cell, one in method.answers.values_of(scores, queries, contract).items()
    }
    write_table(folder.path / VALUES, pa.table(judged))
    fitted = read_json(folder.path / BASELINES) if method.fits_baselines(contract, unit) else []
    baselines = {
        Cell(row["system"], float(row["epsilon"])): Metrics(
            **{name: value for name, value in row.items() if name in _MEASURED}
        )
        for row in fitted
    }
    return _rows(folder, {**method.answers.metrics_of(scores, queries, contract), **baselines})


def _predictions(
    folder: UnitFolder, scores: Mapping[Cell, np.ndarray], queries: QueryTable
) -> pa.Table:
    """A row per cell and query: the truth and the answer in words, and of each label its
    log-probability, where labels were scored.
    """
    method, contract = folder.method, folder.declared
    labels = [one.strip() for one in method.answers.continuations_of(contract)]
    truth = _in_words(method.answers.truth_of(queries, contract), labels)
    answers = {
        cell: _in_words(method.answers.answers_of(one, contract), labels)
        for cell, one in scores.items()
    }
    missing = np.full((len(truth), len(labels)), np.nan)
    of_labels = np.concatenate(
        [one[: len(truth)] if one.ndim == 2 else missing for one in scores.values()]
    )
    columns: dict[str, Any] = {
        "cell": pa.array([cell.key for cell in scores for _ in truth]).dictionary_encode(),
        "query": np.tile(np.arange(len(truth)), len(scores)),
        "truth": pa.array(truth * len(scores)).dictionary_encode(),
        "answer": pa.array(
            [text for texts in answers.values() for text in texts]
        ).dictionary_encode(),
    }
    return pa.table(
        {
            **columns,
            **{
                f"{LOG_PROBABILITY}{label}": of_labels[:, place]
                for place, label in enumerate(labels)
            },
        }
    )


def _in_words(answers: np.ndarray, labels: Sequence[str]) -> list[str]:
    return [labels[code] for code in answers] if labels else [str(text) for text in answers]


def _charged_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    """Of held-out private rows: noisy counts, charged before they are counted, drawn once, and read
    back as they were published.
    """
    contract, unit = folder.contract, folder.unit
    with open_ledger(folder.settings) as ledger:
        account, releases = (
            open_account(ledger, contract, unit.method, folder.settings),
            releases_of(ledger, folder).named.values(),
        )
        release = evaluation_of(
            ledger_key(folder.settings), account, contract, unit, releases, read_plan(folder.run)
        )
        named = UnitReleases(contract, unit, folder.settings, {EVALUATION: release})
        if named.charge(ledger, EVALUATION).artefact_sha256 is None:
            truth = folder.method.answers.truth_of(folder.rows.queries(), contract)
            right = held_out_evaluation.right_counts(read_scores(folder), truth, unit)
            noise = folder.draws.secret("evaluation", "")
            named.publish(
                ledger,
                EVALUATION,
                json.dumps(
                    held_out_evaluation.released_counts(right, contract, unit, noise)
                ).encode(),
            )
        counts = json.loads(named.read(ledger, EVALUATION))
    return _rows(folder, held_out_evaluation.metrics_of(counts, unit))


def _rows(folder: UnitFolder, metrics: Mapping[Cell, Metrics]) -> list[dict[str, Any]]:
    rows = (
        result.as_row()
        for result in results(
            folder.unit, metrics, folder.method.costs(folder.declared, folder.unit)
        )
    )
    return [
        {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]
