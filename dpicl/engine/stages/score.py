"""Released values and queries become prompts; the model's answer to every prompt, as log-probabilities of labels or as text.

A unit is scored in a few parts, so that workers stay evenly busy. Each cell is stored as soon
as it is scored, so that a resumed run scores only what is missing; cells are scored one by
one, so that the result does not depend on where it stopped or who scored it. Nested shots of
one epsilon share their beginnings and are scored together, always all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.engine.artefacts import PROMPTS, read_queries, read_released, read_split, read_texts
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, read_arrays, read_table, write_arrays, write_json, write_table
from dpicl.engine.models import scorer_of, tabular_model_of
from dpicl.engine.run_folder import UnitFolder, open_unit, read_plan
from dpicl.engine.stage import clean_errors, stage, timed, unit_stage
from dpicl.lm.egress import check_egress
from dpicl.lm.requests import Scorer, Tallying
from dpicl.methods import METHODS, tabular
from dpicl.methods.common import ZERO_SHOT
from dpicl.methods.row_contexts import answered_rows, in_words, row_method
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell

PARTS = 4
Prompts = dict[int, tuple[Cell, list[str]]]
"""Cells that are scored together, each with its prompts, by the number of its file."""


def _prompts_folder(unit: UnitFolder, *parts: str) -> Path:
    """Where prompts and their answers lie: in private where the queries are private rows, else with what is released."""
    if unit.declared.evaluation != "charged":
        return unit.path.joinpath(*parts)
    return unit.settings.private(unit.unit.dataset, unit.run.name, unit.unit.key, *parts)


def _prompts_mode(unit: UnitFolder) -> int:
    return PRIVATE_MODE if unit.declared.evaluation == "charged" else PUBLIC_MODE


def read_prompts(unit: UnitFolder) -> dict[str, list[str]]:
    """Prompts by cell key, in the order written."""
    table = read_table(_prompts_folder(unit) / PROMPTS)
    prompts: dict[str, list[str]] = {}
    for key, text in zip(table.column("cell").to_pylist(), table.column("prompt").to_pylist(), strict=True):
        prompts.setdefault(key, []).append(text)
    return prompts


@unit_stage("serialize", lambda folder: str(_prompts_folder(folder) / PROMPTS))  # private ones may be gone when a run is resumed
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to ask: cell by cell, in order."""
    method, unit, asks = folder.method, folder.unit, folder.declared.evaluation != "none"
    prompts: dict[Cell, list[str]] = {}
    if isinstance(method, TextMethod):
        examples = method.examples(*read_texts(folder), read_queries(folder), folder.texts)
        if asks:
            split = read_split(folder)
            prompts = method.prompts(*read_texts(folder), split.train, split.queries, folder.texts, unit)
    elif read_plan(folder.run).model.most_rows:
        asked = read_queries(folder) if asks else None
        examples, prompts = in_words(row_method(method), read_released(folder), asked, folder.contract, unit, folder.draws)
    else:
        released, contract, draws = read_released(folder), folder.contract, folder.draws
        demonstrations = tabular(unit.method).examples(released, contract, unit, draws)
        examples = {cell: "\n".join(texts).split("\n") for cell, texts in demonstrations.items() if cell.system == "icl"}
        if asks:
            prompts = tabular(unit.method).prompts(released, read_queries(folder), contract, unit, draws)
    write_json(folder.path / "demonstrations.json", {cell.key: texts for cell, texts in examples.items()})
    keys = pa.array([cell.key for cell, texts in prompts.items() for _ in texts], pa.string()).dictionary_encode()
    table = pa.table({"cell": keys, "prompt": pa.array([text for texts in prompts.values() for text in texts], pa.string())})
    write_table(_prompts_folder(folder) / PROMPTS, table, mode=_prompts_mode(folder))
    write_table(folder.path / PROMPTS, table.slice(0, 0))  # where prompts are private; else they stand there already
    if folder.declared.evaluation == "charged":
        return f"prompts of {len(prompts)} cells"
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"


def _cell_file(folder: UnitFolder, number: int) -> Path:
    return _prompts_folder(folder, "scored") / f"{number:04d}.npz"


def _cells(folder: UnitFolder) -> dict[str, Cell]:
    return {cell.key: cell for cell in (ZERO_SHOT, *folder.unit.evaluated_cells)}


def _groups_of(folder: UnitFolder, prompts: Mapping[str, list[str]]) -> list[Prompts]:
    """Of prompts by cell key, the longest group first."""
    known = _cells(folder)
    groups: dict[tuple[object, ...], Prompts] = {}
    for number, (key, texts) in enumerate(prompts.items()):
        name = ("icl-nested", known[key].epsilon) if known[key].system == "icl-nested" else (key,)
        groups.setdefault(name, {})[number] = known[key], texts
    return sorted(groups.values(), key=lambda group: -sum(len(text) for _, texts in group.values() for text in texts))


@partial(clean_errors, "score")
def parts_to_score(run: str, unit_key: str) -> range:
    """The parts of a unit that hold a cell: a task that has nothing to do would still take its place in a worker's queue."""
    folder = open_unit(run, unit_key)
    if folder.declared.evaluation == "charged":
        return range(PARTS)  # the number of rows is private
    prompted = read_table(_prompts_folder(folder) / PROMPTS, ["cell"]).column("cell").unique().to_pylist()  # the texts are not read
    return range(min(PARTS, len(_groups_of(folder, {key: [] for key in prompted}))))


@stage("score", "score {unit_key} part {part}", "model worker")
def score(run: str, unit_key: str, part: int) -> str:
    """Score every cell of this part that has no scores yet; the model is opened only for what it may see."""
    folder = open_unit(run, unit_key)
    check_egress(folder.declared, folder.unit, read_plan(folder.run).model)
    mine = _groups_of(folder, read_prompts(folder))[part::PARTS]
    missing = [group for group in mine if not all(_cell_file(folder, number).exists() for number in group)]
    if missing:
        with timed(folder.run, unit_key, "score", part=str(part)):
            if read_plan(folder.run).model.most_rows:
                _score_rows(folder, {cell: number for group in missing for number, (cell, _) in group.items()})
            else:
                scorer = scorer_of(folder.run, folder.settings, METHODS[folder.unit.method].answers.wanted_of(folder.declared))
                for group in missing:
                    _score_group(folder, scorer, group)
    return f"{sum(map(len, missing))} of {sum(map(len, mine))} cells now"


def _score_group(folder: UnitFolder, scorer: Scorer, group: Prompts) -> None:
    """All cells of a group are scored at once: they have one epsilon, and so one trust."""
    texts, answers = [text for _, texts in group.values() for text in texts], METHODS[folder.unit.method].answers
    is_private, (first, (cell, _)) = folder.declared.evaluation == "charged", next(iter(group.items()))
    # private prompts one by one, so that rounding in a batch lets none of them move another
    batches = [[text] for text in texts] if is_private else [texts]
    scores = np.concatenate([answers.ask_cell(scorer, batch, folder.declared, cell) for batch in batches])
    if isinstance(scorer, Tallying) and not is_private:
        tally = scorer.tally(texts, answers.continuations_of(folder.declared))
        write_json(_cell_file(folder, first).with_suffix(".json"), tally, replace=True)
    ends = np.cumsum([len(texts) for _, texts in group.values()])
    for (number, (cell, _)), part in zip(group.items(), np.split(scores, ends[:-1]), strict=True):
        write_arrays(_cell_file(folder, number), {cell.key: part}, mode=_prompts_mode(folder))


def _score_rows(folder: UnitFolder, numbers: Mapping[Cell, int]) -> None:
    """Cells whose queries a tabular model answers beside released rows, by the number of their file."""
    model, unit, contract = tabular_model_of(folder.run), replace(folder.unit, evaluated_cells=tuple(numbers)), folder.contract
    answered = answered_rows(model, row_method(folder.method), read_released(folder), read_queries(folder), contract, unit, folder.draws)
    for cell, scores in answered:
        write_arrays(_cell_file(folder, numbers[cell]), {cell.key: scores}, mode=_prompts_mode(folder))


def read_scores(folder: UnitFolder) -> dict[Cell, np.ndarray]:
    """Answers of the model by cell, in the order of the prompts: scores of shape (prompts, labels), or texts."""
    known, files = _cells(folder), sorted(_prompts_folder(folder, "scored").glob("[0-9]*.npz"))
    return {known[key]: table for file in files for key, table in read_arrays(file).items()}
