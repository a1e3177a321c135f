"""Batched inference: the model's log-probabilities of No and Yes for every prompt.

Each cell is stored as soon as it is scored, so that a resumed run scores only what is
missing; cells are scored one by one, so that the result does not depend on where it stopped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpicl.lm.layout import CONTINUATIONS
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer
from tasks.artefacts import SCORES, read_prompts
from tasks.corpus import public_corpus
from tasks.doorway import unit_stage
from tasks.files import read_arrays, write_arrays
from tasks.run_folder import UnitFolder, read_plan
from tasks.settings import Settings


def scorer_of(run: Path, settings: Settings) -> Scorer:
    """The run's model, opened once per process."""
    return open_scorer(read_plan(run).model, models_folder=settings.models, corpus=public_corpus(settings))


def cell_file(folder: UnitFolder, number: int) -> Path:
    """Where the scores of one cell are kept while the unit is under way."""
    return folder.path / "scored" / f"{number:04d}.npz"


@unit_stage("score", SCORES)
def score(folder: UnitFolder) -> str:
    """Score every cell that has no scores yet."""
    prompts = read_prompts(folder)
    scorer = scorer_of(folder.run, folder.settings)
    scores: dict[str, np.ndarray] = {}
    for number, (key, texts) in enumerate(prompts.items()):
        path = cell_file(folder, number)
        if not path.exists():
            write_arrays(path, {key: scorer.score(texts, CONTINUATIONS)})
        scores[key] = read_arrays(path)[key]
    write_arrays(folder.path / SCORES, scores)
    return f"{sum(map(len, scores.values()))} prompts in {len(scores)} cells"
