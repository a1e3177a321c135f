"""Answers of a run with a real language model, as they are kept in the repository: public queries
of benchmarks, and nothing else.

results/PIPELINE.MODEL.csv     a line a cell: its answers, `a` and a digit a query, by the label's
                               number; `truth` has the right ones, and what a classifier was fitted
                               on has a share of right answers alone
results/PIPELINE.MODEL.json    which commit, program and model made them, and what was not run
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

import dpicl
from dpicl.contract import Declared
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ModelError
from dpicl.ground.files import read_json, write_csv, write_json
from dpicl.home.settings import Settings
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.evaluation import rank_auc
from dpicl.methods.tabular_answers import averaged
from dpicl.models.opening import open_scorer
from dpicl.models.requests import Scorer
from dpicl.models.spec import ModelSpec
from dpicl.release.table_files import read_table
from dpicl.report.cells import place_of, stated_of
from dpicl.runs.artefacts import LOG_PROBABILITY, PREDICTIONS
from dpicl.runs.evaluate import read_prompts
from dpicl.runs.probe import DESCRIPTIONS
from dpicl.runs.results import MANIFEST
from dpicl.runs.run_folder import Plan, UnitFolder, open_unit, read_plan

RESULTS = Path(__file__).with_name("results")
MODEL, GEMMA = "smollm2", "gemma3-270m"
BUNDLED, TRUTH, FITTED = "bundled", "truth", ("lr", "gb")
_ASIDE = ("content-free", "majority")


@dataclass(frozen=True)
class Answered:
    """A cell of one seed: the answers of `model`, or what a classifier got right. Draws are counted
    from 1; epsilon and shots may be NaN.
    """

    model: str
    method: str
    dataset: str
    seed: int
    system: str
    epsilon: float
    shots: float
    draw: int
    answers: str
    accuracy: float
    auc: float


@dataclass(frozen=True)
class About:
    """Where answers come from."""

    model: str
    pipeline: str
    commit: str
    version: str
    digest: str
    hours: float
    """Of processor time."""
    queries: int | None
    """At most so many were asked."""
    left_out: list[str]


def collect(run: Path, model: str, folder: Path = RESULTS) -> tuple[Path, Path]:
    """Keep what a run answered, whole or stopped before its end; gives the two files. Raises
    RunError: there is no such run.
    """
    plan = read_plan(run)
    ended = read_json(run / MANIFEST) if (run / MANIFEST).exists() else None
    scorer = open_scorer(
        ModelSpec(name=BUNDLED, kind="bundled"), models_folder=Settings.current().models, corpus=()
    )
    lines = [
        line
        for key in plan.units
        if (run / "units" / key / PREDICTIONS).exists()
        for line in _lines(run, key, model, scorer)
    ]
    timed = [read_json(path)["processor_seconds"] for path in run.glob("timings/*/*.json")]
    head = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=True,
    )
    about = About(
        model,
        plan.pipeline_name,
        head.stdout.strip(),
        ended["dpicl_version"] if ended else dpicl.__version__,
        (ended["model"] if ended else read_json(run / DESCRIPTIONS["scores"]))["digest"] or "",
        round(sum(timed) / 3600, 2),
        plan.pipeline.queries,
        ended["left_out"] if ended else [_stopped(run, plan)],
    )
    table, said = (folder / f"{plan.pipeline_name}.{model}.{ending}" for ending in ("csv", "json"))
    names = [field.name for field in fields(Answered)]
    write_csv(
        table, names, ({name: _written(getattr(line, name)) for name in names} for line in lines)
    )
    write_json(said, vars(about), replace=True)
    return table, said


def _stopped(run: Path, plan: Plan) -> str:
    """What a run has not answered that was stopped before its end."""
    missing: dict[int, list[Unit]] = {}
    for key, unit in plan.units.items():
        if not (run / "units" / key / PREDICTIONS).exists():
            missing.setdefault(unit.seed, []).append(unit)
    of_seed = Counter(unit.seed for unit in plan.units.values())
    named = [
        name
        for seed, units in missing.items()
        for name in (
            [f"seed {seed}"]
            if len(units) == of_seed[seed]
            else [f"{unit.method} on {unit.dataset} with seed {seed}" for unit in units]
        )
    ]
    return f"Stopped before its end, without {', '.join(named)}."


def read_results(folder: Path = RESULTS, model: str = MODEL) -> tuple[list[Answered], list[About]]:
    """All that is kept of runs with a model."""
    lines, abouts = [], []
    for path in sorted(folder.glob(f"*.{model}.json")):
        abouts.append(About(**json.loads(path.read_text("utf-8"))))
        with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            lines += [_read(row) for row in csv.DictReader(file)]
    return lines, abouts


def _written(value: Any) -> Any:
    """Of numbers that are none nothing; a letter before answers, which a spreadsheet would take for
    a number.
    """
    return ("" if math.isnan(value) else f"{value:.6g}") if isinstance(value, float) else value


def _read(row: Mapping[str, str]) -> Answered:
    kinds: dict[str, Callable[[str], Any]] = {
        "seed": int,
        "draw": int,
        "epsilon": _number,
        "shots": _number,
        "accuracy": _number,
        "auc": _number,
    }
    return Answered(**{name: kinds.get(name, str)(text) for name, text in row.items()})


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _lines(run: Path, key: str, model: str, scorer: Scorer) -> Iterator[Answered]:
    folder = open_unit(str(run), key)
    labels = [one.strip() for one in folder.method.answers.continuations_of(folder.declared)]
    predicted = read_table(folder.path / PREDICTIONS).to_pandas()
    known = {label: place for place, label in enumerate(labels)}
    truth: np.ndarray | None = None
    for cell, group in predicted.groupby("cell", sort=False, observed=True):
        if str(cell).split(",")[0] in _ASIDE:
            continue
        if truth is None:
            truth = group["truth"].map(known).to_numpy()
            yield _line(folder, TRUTH, TRUTH, truth)
        scores = group[[f"{LOG_PROBABILITY}{label}" for label in labels]].to_numpy(dtype=float)
        yield _line(folder, model, str(cell), group["answer"].map(known).to_numpy(), scores, truth)
    assert truth is not None
    for name, answers, scores in _of_bundled(folder, folder.declared, scorer):
        yield _line(folder, BUNDLED, name, answers, scores, truth)
    for row in read_json(folder.path / "results.json"):
        if row["system"] in FITTED:
            unit = folder.unit
            epsilon, auc = (
                _number(str(row["epsilon"])),
                math.nan if row["auc"] is None else row["auc"],
            )
            yield Answered(
                "",
                unit.method,
                unit.dataset,
                unit.seed,
                row["system"],
                epsilon,
                math.nan,
                1,
                "",
                row["accuracy"],
                auc,
            )


def _of_bundled(
    folder: UnitFolder, contract: Declared, scorer: Scorer
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Its answers to the very prompts of a unit, cell by cell; none where they are too long for
    it.
    """
    answers, cells = (
        folder.method.answers,
        {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.evaluated_cells)},
    )
    scores: dict[Cell, np.ndarray] = {}
    for key, texts in read_prompts(folder).items():
        if key in cells:
            try:
                scores[cells[key]] = answers.ask_cell(scorer, texts, contract, cells[key])
            except ModelError:
                continue
    for cell, table in {**scores, **averaged(scores)}.items():
        given = answers.answers_of(table, contract)
        yield cell.key, given, table[: len(given)]


def _line(
    folder: UnitFolder,
    model: str,
    key: str,
    answers: np.ndarray,
    scores: np.ndarray | None = None,
    truth: np.ndarray | None = None,
) -> Answered:
    system, epsilon, shots, _ = place_of(key)
    unit, right, auc = folder.unit, math.nan, math.nan
    if truth is not None:
        right = float((answers == truth).mean())
    # of texts answers are calibrated, and scores are not
    if scores is not None and truth is not None and folder.method.data == "table":
        auc = rank_auc(log_softmax(scores, axis=1), truth)
    digits = "a" + "".join(map(str, answers))
    return Answered(
        model,
        unit.method,
        unit.dataset,
        unit.seed,
        system,
        epsilon,
        shots,
        int(stated_of(key).get("draw", 1)),
        digits,
        right,
        auc,
    )
