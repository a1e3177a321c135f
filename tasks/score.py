"""Batched inference: the model's log-probabilities of No and Yes for every prompt.

A unit is scored in a few parts, so that workers stay evenly busy. Each cell is stored as
soon as it is scored, so that a resumed run scores only what is missing; cells are scored
one by one, so that the result does not depend on where it stopped or who scored it.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from dpicl.lm.egress import ask, check_egress, prompts_of
from dpicl.lm.layout import CONTINUATIONS
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import Cell
from tasks.artefacts import read_prompts
from tasks.corpus import public_corpus
from tasks.doorway import doorway, timed
from tasks.files import read_arrays, write_arrays, write_json
from tasks.run_folder import UnitFolder, open_unit, read_plan
from tasks.settings import Settings

PARTS = 4


def scorer_of(run: Path, settings: Settings) -> Scorer:
    """The run's model, opened once per process; what it says of itself is kept for the manifest."""
    scorer = open_scorer(read_plan(run).model, models_folder=settings.models, corpus=public_corpus(settings))
    write_json(run / "model.json", asdict(scorer.description))
    return scorer


def _cell_file(folder: UnitFolder, number: int) -> Path:
    return folder.path / "scored" / f"{number:04d}.npz"


def _cells(folder: UnitFolder) -> dict[str, Cell]:
    """Every cell that a unit may have prompts for, by key."""
    return {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.cells("icl"), *folder.unit.cells("raw-rows"))}


def _score(run: str, unit_key: str, part: int) -> str:
    """Score every cell of this part that has no scores yet; the model is opened for what it may be told only."""
    folder = open_unit(run, unit_key)
    check_egress(folder.contract, folder.unit, read_plan(folder.run).model)
    known = _cells(folder)
    cells = [(number, key, texts) for number, (key, texts) in enumerate(read_prompts(folder).items())]
    mine = sorted(cells, key=lambda cell: -sum(map(len, cell[2])))[part::PARTS]
    missing = [cell for cell in mine if not _cell_file(folder, cell[0]).exists()]
    if missing:
        with timed(folder.run, unit_key, "score", part=str(part)):
            scorer = scorer_of(folder.run, folder.settings)
            for number, key, texts in missing:
                prompts = prompts_of(texts, folder.contract, known[key])
                write_arrays(_cell_file(folder, number), {key: ask(scorer, prompts, CONTINUATIONS)})
    return f"{len(missing)} of {len(mine)} cells now"


def read_scores(folder: UnitFolder) -> dict[str, np.ndarray]:
    """Scores by cell key, in the order of the prompts: each of shape (queries, 2)."""
    scores: dict[str, np.ndarray] = {}
    for path in sorted((folder.path / "scored").glob("[0-9]*.npz")):
        scores.update(read_arrays(path))
    return scores


score = doorway("score", "score {unit_key} part {part}", _score)
