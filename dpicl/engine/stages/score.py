"""Batched inference: the model's answer to every prompt, as log-probabilities of labels or as text.

A unit is scored in a few parts, so that workers stay evenly busy. Each cell is stored as soon
as it is scored, so that a resumed run scores only what is missing; cells are scored one by
one, so that the result does not depend on where it stopped or who scored it. Nested shots of
one epsilon share their beginnings and are scored together, always all of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from dpicl.engine.artefacts import prompted_cells, prompts_folder, prompts_mode, read_prompts
from dpicl.engine.files import read_arrays, write_arrays, write_json
from dpicl.engine.models import scorer_of
from dpicl.engine.run_folder import UnitFolder, open_unit, read_plan
from dpicl.engine.stage import clean_errors, stage, timed
from dpicl.lm.egress import check_egress
from dpicl.lm.requests import Scorer, Tallying
from dpicl.methods import METHODS
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import Cell

PARTS = 4
CellPrompts = tuple[int, Cell, list[str]]
"""Number of a cell's file, the cell, and its prompts."""


def _cell_file(folder: UnitFolder, number: int) -> Path:
    return prompts_folder(folder, "scored") / f"{number:04d}.npz"


def _cells(folder: UnitFolder) -> dict[str, Cell]:
    """Every cell that a unit may have prompts for, by key."""
    return {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.evaluated_cells)}


def _groups(folder: UnitFolder) -> list[list[CellPrompts]]:
    """Cells that are scored together, the longest groups first."""
    known = _cells(folder)
    groups: dict[tuple[object, ...], list[CellPrompts]] = {}
    for number, (key, texts) in enumerate(read_prompts(folder).items()):
        groups.setdefault(_group_of(known[key]), []).append((number, known[key], texts))
    return sorted(groups.values(), key=lambda group: -sum(len(text) for _, _, texts in group for text in texts))


def _group_of(cell: Cell) -> tuple[object, ...]:
    return (cell.system, cell.epsilon) if cell.system == "icl-nested" else (cell.key,)


@partial(clean_errors, "score")
def parts_to_score(run: str, unit_key: str) -> range:
    """The parts of a unit that hold a cell: a task that has nothing to do would still take its place in a worker's queue."""
    folder = open_unit(run, unit_key)
    known = _cells(folder)
    if folder.declared.evaluation == "charged":
        return range(PARTS)  # the number of rows is private
    return range(min(PARTS, len({_group_of(known[key]) for key in prompted_cells(folder)})))


@stage("score", "score {unit_key} part {part}", "model worker")
def score(run: str, unit_key: str, part: int) -> str:
    """Score every cell of this part that has no scores yet; the model is opened only for what it may see."""
    folder = open_unit(run, unit_key)
    check_egress(folder.declared, folder.unit, read_plan(folder.run).model)
    mine = _groups(folder)[part::PARTS]
    missing = [group for group in mine if not all(_cell_file(folder, number).exists() for number, *_ in group)]
    if missing:
        with timed(folder.run, unit_key, "score", part=str(part)):
            scorer = scorer_of(folder.run, folder.settings, METHODS[folder.unit.method].answers.wanted_of(folder.declared))
            for group in missing:
                _score_group(folder, scorer, group)
    return f"{sum(map(len, missing))} of {sum(map(len, mine))} cells now"


def _score_group(folder: UnitFolder, scorer: Scorer, group: list[CellPrompts]) -> None:
    """All cells of a group are scored at once: they have one epsilon, and so one trust."""
    texts, answers = [text for _, _, texts in group for text in texts], METHODS[folder.unit.method].answers
    is_private, cell = folder.declared.evaluation == "charged", group[0][1]
    # private prompts one by one, so that rounding in a batch lets none of them move another
    batches = [[text] for text in texts] if is_private else [texts]
    scores = np.concatenate([answers.ask_cell(scorer, batch, folder.declared, cell) for batch in batches])
    if isinstance(scorer, Tallying) and not is_private:
        tally = scorer.tally(texts, answers.continuations_of(folder.declared))
        write_json(_cell_file(folder, group[0][0]).with_suffix(".json"), tally, replace=True)
    ends = np.cumsum([len(texts) for _, _, texts in group])
    for (number, cell, _), part in zip(group, np.split(scores, ends[:-1]), strict=True):
        write_arrays(_cell_file(folder, number), {cell.key: part}, mode=prompts_mode(folder))


def read_scores(folder: UnitFolder) -> dict[str, np.ndarray]:
    """Answers of the model by cell key, in the order of the prompts: scores of shape (prompts, labels), or texts."""
    scores: dict[str, np.ndarray] = {}
    for path in sorted(prompts_folder(folder, "scored").glob("[0-9]*.npz")):
        scores.update(read_arrays(path))
    return scores
