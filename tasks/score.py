"""Batched inference: the model's log-probabilities of No and Yes for every prompt.

A unit is scored in a few parts, so that workers stay evenly busy. Each cell is stored as soon
as it is scored, so that a resumed run scores only what is missing; cells are scored one by
one, so that the result does not depend on where it stopped or who scored it. Nested shots of
one epsilon share their beginnings and are scored together, always all of them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from dpicl.errors import RunError
from dpicl.lm.egress import ask, check_egress, prompts_of
from dpicl.lm.layout import CONTINUATIONS
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer, Tallying
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import Cell
from tasks.artefacts import read_prompts
from tasks.corpus import public_corpus
from tasks.doorway import doorway, timed
from tasks.files import read_arrays, read_json, write_arrays, write_json
from tasks.run_folder import UnitFolder, open_unit, read_plan
from tasks.settings import Settings

PARTS = 4
Asked = tuple[int, Cell, list[str]]
"""Number of a cell's file, the cell, and its prompts."""


def scorer_of(run: Path, settings: Settings) -> Scorer:
    """The run's model, opened once per process; what it says of itself is kept for the manifest.

    Raises:
        RunError: it would answer in another manner than it has done so far in this run.
    """
    scorer = open_scorer(read_plan(run).model, models_folder=settings.models, corpus=public_corpus(settings))
    mode = read_json(write_json(run / "model.json", asdict(scorer.description))).get("mode", "")
    if mode != scorer.description.mode:
        raise RunError(f"run {run.name}: its model answered by {mode} and now by {scorer.description.mode}; start a new run")
    return scorer


def _cell_file(folder: UnitFolder, number: int) -> Path:
    return folder.path / "scored" / f"{number:04d}.npz"


def _cells(folder: UnitFolder) -> dict[str, Cell]:
    """Every cell that a unit may have prompts for, by key."""
    return {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.asked_cells())}


def _groups(folder: UnitFolder) -> list[list[Asked]]:
    """Cells that are scored together, the longest groups first."""
    known = _cells(folder)
    groups: dict[tuple[object, ...], list[Asked]] = {}
    for number, (key, texts) in enumerate(read_prompts(folder).items()):
        cell = known[key]
        name = (cell.system, cell.epsilon) if cell.system == "icl-nested" else (number,)
        groups.setdefault(name, []).append((number, cell, texts))
    return sorted(groups.values(), key=lambda group: -sum(len(text) for _, _, texts in group for text in texts))


def _score(run: str, unit_key: str, part: int) -> str:
    """Score every cell of this part that has no scores yet; the model is opened for what it may be told only."""
    folder = open_unit(run, unit_key)
    check_egress(folder.contract, folder.unit, read_plan(folder.run).model)
    mine = _groups(folder)[part::PARTS]
    missing = [group for group in mine if not all(_cell_file(folder, number).exists() for number, *_ in group)]
    if missing:
        with timed(folder.run, unit_key, "score", part=str(part)):
            scorer = scorer_of(folder.run, folder.settings)
            for group in missing:
                _score_group(folder, scorer, group)
    return f"{sum(map(len, missing))} of {sum(map(len, mine))} cells now"


def _score_group(folder: UnitFolder, scorer: Scorer, group: list[Asked]) -> None:
    """All cells of a group are asked at once: they have one epsilon, and so one trust."""
    prompts = prompts_of([text for _, _, texts in group for text in texts], folder.contract, group[0][1])
    scores = ask(scorer, prompts, CONTINUATIONS)
    if isinstance(scorer, Tallying):
        tally = scorer.tally(prompts.texts, CONTINUATIONS)
        write_json(_cell_file(folder, group[0][0]).with_suffix(".json"), tally, replace=True)
    ends = np.cumsum([len(texts) for _, _, texts in group])
    for (number, cell, _), part in zip(group, np.split(scores, ends[:-1]), strict=True):
        write_arrays(_cell_file(folder, number), {cell.key: part})


def read_scores(folder: UnitFolder) -> dict[str, np.ndarray]:
    """Scores by cell key, in the order of the prompts: each of shape (queries, 2)."""
    scores: dict[str, np.ndarray] = {}
    for path in sorted((folder.path / "scored").glob("[0-9]*.npz")):
        scores.update(read_arrays(path))
    return scores


score = doorway("score", "score {unit_key} part {part}", _score)
