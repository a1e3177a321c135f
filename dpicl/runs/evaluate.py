"""From released values and queries to rows of results: prompts, the model's answer to each as
log-probabilities of labels or as text, and measures of these beside baselines, which are what the
same budget gives without a language model.

A unit is scored in a few parts, so that workers stay evenly busy. Each cell is stored as soon as it
is scored, so that a resumed run scores only what is missing; cells are scored one by one, so that
the result does not depend on where it stopped or who scored it. Nested shots of one epsilon share
their beginnings and are scored together, always all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.pipeline import Cell, asked_by
from dpicl.data.text_files import Formed
from dpicl.ground.errors import clean_errors
from dpicl.ground.files import (
    PRIVATE_MODE,
    PUBLIC_MODE,
    finite,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from dpicl.ground.nouns import many
from dpicl.ground.types import QueryTable
from dpicl.home.accounts import ledger_key, open_ledger
from dpicl.methods import METHODS, tabular, tabular_method
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.evaluation import Metrics
from dpicl.methods.grid import costs, results
from dpicl.methods.row_method import answered_rows, contexts, in_words, row_method
from dpicl.methods.tabular_answers import averaged
from dpicl.methods.text_method import TextMethod
from dpicl.models.asking import isolated_answers, public_answer
from dpicl.models.requests import Scorer, Tallying
from dpicl.models.spec import ModelSpec, check_egress
from dpicl.release.names import open_account
from dpicl.release.releases import NamedRelease
from dpicl.release.table_files import read_table, write_row_groups, write_table
from dpicl.runs.artefacts import (
    BASELINES,
    FORMS,
    LOG_PROBABILITY,
    PART,
    PREDICTIONS,
    PROMPTS,
    RESULTS,
    VALUES,
    read_released,
    read_texts,
    stored_prompts,
)
from dpicl.runs.draw import progress_writer, releases_of
from dpicl.runs.plan import evaluation_of
from dpicl.runs.probe import scorer_of, tabular_model_of
from dpicl.runs.run_folder import UnitFolder, open_unit, read_plan
from dpicl.runs.stage import stage, timed, unit_stage

PARTS = 4
Group = dict[int, Cell]
"""Cells that are scored together, by the number of their file."""
_AT_ONCE = 1 << 26
"""Characters of prompts that are written and read together: many shots of many queries are
gigabytes.
"""


def _prompts_folder(unit: UnitFolder, *parts: str) -> Path:
    """Where prompts and their answers lie: in private where the queries are private rows, else with
    what is released.
    """
    if unit.declared.evaluation != "charged":
        return unit.path.joinpath(*parts)
    return unit.settings.private(unit.unit.dataset, unit.run.name, unit.unit.key, *parts)


def _prompts_mode(unit: UnitFolder) -> int:
    return PRIVATE_MODE if unit.declared.evaluation == "charged" else PUBLIC_MODE


def read_prompts(unit: UnitFolder, cells: Container[str] | None = None) -> dict[str, list[str]]:
    """Prompts by cell key, in the order written, of these cells or of all."""
    prompts: dict[str, list[str]] = {}
    for key, texts in stored_prompts(_prompts_folder(unit) / PROMPTS):
        if cells is None or key in cells:
            prompts.setdefault(key, []).extend(texts.to_pylist())
    return prompts


def _tables(prompts: Iterable[tuple[Cell, list[str]]]) -> Iterator[pa.Table]:
    """Prompts cell by cell, at least one table and another one from so many characters on."""
    keys: list[str] = []
    waiting: list[str] = []
    characters = 0
    is_first = True
    for cell, texts in prompts:
        if waiting and characters > _AT_ONCE:
            yield _table(keys, waiting)
            keys = []
            waiting = []
            characters = 0
            is_first = False
        keys += [cell.key] * len(texts)
        waiting += texts
        characters += sum(map(len, texts))
    if waiting or is_first:
        yield _table(keys, waiting)


def _table(keys: list[str], texts: list[str]) -> pa.Table:
    return pa.table(
        {
            "cell": pa.array(keys, pa.string()).dictionary_encode(),
            "prompt": pa.array(texts, pa.string()),
        }
    )


def _lengths(unit: UnitFolder) -> dict[str, int]:
    """Characters of all prompts by cell key, in the order written; of private ones 0 for every cell
    that there may be.
    """
    if unit.declared.evaluation == "charged":
        return dict.fromkeys(_cells(unit), 0)
    lengths: dict[str, int] = {}
    for key, texts in stored_prompts(_prompts_folder(unit) / PROMPTS):
        lengths[key] = lengths.get(key, 0) + (pc.sum(pc.utf8_length(texts)).as_py() or 0)
    return lengths


# private ones may be gone when a run is resumed
@unit_stage("serialize", lambda folder: str(_prompts_folder(folder) / PROMPTS))
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to
    ask: cell by cell, in order.
    """
    method = folder.method
    unit = folder.unit
    asks = folder.declared.evaluation != "none"
    prompts: Iterable[tuple[Cell, list[str]]] = ()
    if isinstance(method, TextMethod):
        texts, public = read_texts(folder)
        examples = method.examples(texts, public, folder.rows.queries(), folder.texts)
        if (form := folder.texts.form) is not None and (written := method.written(texts)):
            write_json(
                folder.path / FORMS,
                {cell.key: asdict(Formed.of(of_cell, form)) for cell, of_cell in written.items()},
            )
        if asks:
            rows = folder.rows
            prompts = method.prompts(
                texts, public, rows.train(), rows.queries(), folder.texts, unit
            ).items()
    elif read_plan(folder.run).model.most_rows:
        asked = folder.rows.queries() if asks else None
        examples, worded = in_words(
            row_method(method), read_released(folder), asked, folder.contract, unit, folder.draws
        )
        prompts = worded.items()
    else:
        released = read_released(folder)
        contract = folder.contract
        draws = folder.draws
        demonstrations = tabular(unit.method).examples(released, contract, unit, draws)
        examples = {
            cell: "\n".join(texts).split("\n")
            for cell, texts in demonstrations.items()
            if cell.system == "icl"
        }
        if asks:
            prompts = tabular(unit.method).prompts_in_turn(
                released, folder.rows.queries(), contract, unit, draws
            )
    write_json(
        folder.path / "demonstrations.json", {cell.key: texts for cell, texts in examples.items()}
    )
    counts: list[int] = []

    def counted() -> Iterator[tuple[Cell, list[str]]]:
        for cell, texts in prompts:
            counts.append(len(texts))
            yield cell, texts

    write_row_groups(
        _prompts_folder(folder) / PROMPTS, _tables(counted()), mode=_prompts_mode(folder)
    )
    # where prompts are private; else they stand there already
    write_row_groups(folder.path / PROMPTS, _tables(()))
    if folder.declared.evaluation == "charged":
        return f"prompts of {many(len(counts), 'cell')}"
    return f"{many(sum(counts), 'prompt')} in {many(len(counts), 'cell')}"


def _cell_file(folder: UnitFolder, number: int) -> Path:
    return _prompts_folder(folder, "scored") / f"{number:04d}.npz"


def _cells(folder: UnitFolder, beside: Sequence[ModelSpec] = ()) -> dict[str, Cell]:
    cells = (ZERO_SHOT, *folder.unit.evaluated_cells)
    return {
        cell.key: cell
        for cell in (*cells, *(cell.answered_by(spec.name) for spec in beside for cell in cells))
    }


def _groups_of(folder: UnitFolder, lengths: Mapping[str, int]) -> list[Group]:
    """Of characters of prompts by cell key, the longest group of the run's model first, then those
    of each model beside it.
    """
    known = _cells(folder)
    models = ("", *(spec.name for spec in read_plan(folder.run).beside))
    groups: dict[tuple[object, ...], Group] = {}
    for number, (model, key) in enumerate(product(models, lengths)):
        cell = known[key]
        name = (cell.system, cell.epsilon, cell.draw) if cell.system == "icl-nested" else (key,)
        groups.setdefault((model, *name), {})[number] = cell.answered_by(model) if model else cell

    def order(group: Group) -> tuple[int, int]:
        _, model = asked_by(next(iter(group.values())).system)
        return models.index(model), -sum(lengths[cell.prompts.key] for cell in group.values())

    return sorted(groups.values(), key=order)


@partial(clean_errors, "score")
def parts_to_score(run: str, unit_key: str) -> range:
    """The parts of a unit that hold a cell: a task that has nothing to do would still take its
    place in a worker's queue.
    """
    folder = open_unit(run, unit_key)
    if folder.declared.evaluation == "charged":
        return range(PARTS)  # the number of rows is private
    # the texts are not read
    prompted = (
        read_table(_prompts_folder(folder) / PROMPTS, ["cell"]).column("cell").unique().to_pylist()
    )
    return range(min(PARTS, len(_groups_of(folder, dict.fromkeys(prompted, 0)))))


@stage("score", "model worker")
def score(run: str, unit_key: str, part: int) -> str:
    """Score every cell of this part that has no scores yet; the model is opened only for what it
    may see.
    """
    folder = open_unit(run, unit_key)
    plan = read_plan(folder.run)
    check_egress(folder.declared, folder.unit, plan.model)
    mine = _groups_of(folder, _lengths(folder))[part::PARTS]
    missing = [
        group for group in mine if not all(_cell_file(folder, number).exists() for number in group)
    ]
    if missing:
        with timed(
            folder.run,
            unit_key,
            "score",
            part=str(part),
            reads_rows=folder.declared.evaluation == "charged",
        ):
            if plan.model.most_rows:
                _score_rows(
                    folder, {cell: number for group in missing for number, cell in group.items()}
                )
            else:
                wanted = METHODS[folder.unit.method].answers.wanted_of(folder.declared)
                shows = progress_writer([folder], "answering, query", f"{PART}{part}")
                for group in missing:
                    _, model = asked_by(next(iter(group.values())).system)
                    beside = next((spec for spec in plan.beside if spec.name == model), None)
                    _score_group(
                        folder, scorer_of(folder.run, folder.settings, wanted, beside), group, shows
                    )
    return f"{sum(map(len, missing))} of {sum(map(len, mine))} cells now"


def _score_group(
    folder: UnitFolder, scorer: Scorer, group: Group, shows: Callable[[int, int], None]
) -> None:
    """All cells of a group are scored at once: they have one epsilon, and so one trust. How many
    public queries are answered is shown.
    """
    prompts = read_prompts(folder, {cell.prompts.key for cell in group.values()})
    texts = [text for cell in group.values() for text in prompts.get(cell.prompts.key, ())]
    answers = METHODS[folder.unit.method].answers
    first, cell = next(iter(group.items()))
    if folder.declared.evaluation == "charged":
        scores = _private_scores(folder, scorer, texts, cell)
    elif (
        cell.epsilon is None
        and not isinstance(scorer, Tallying)
        and (known := _scored_elsewhere(folder, cell, texts)) is not None
    ):
        scores = known
    else:
        shows(0, len(texts))
        scores = answers.ask_cell(
            scorer, texts, folder.declared, cell, progress=lambda done: shows(done, len(texts))
        )
        if isinstance(scorer, Tallying):
            tally = scorer.tally(texts, answers.continuations_of(folder.declared))
            write_json(_cell_file(folder, first).with_suffix(".json"), tally, replace=True)
    ends = np.cumsum([len(prompts.get(cell.prompts.key, ())) for cell in group.values()])
    for (number, cell), part in zip(group.items(), np.split(scores, ends[:-1]), strict=True):
        write_arrays(_cell_file(folder, number), {cell.key: part}, mode=_prompts_mode(folder))


def _scored_elsewhere(folder: UnitFolder, cell: Cell, texts: Sequence[str]) -> np.ndarray | None:
    """What the same model scored for the same prompts in another unit of the run: without
    demonstrations methods may ask alike.
    """
    for unit in read_plan(folder.run).units.values():
        other = replace(folder, unit=unit)
        if (
            unit.dataset == folder.unit.dataset
            and unit != folder.unit
            and (_prompts_folder(other) / PROMPTS).exists()
        ):
            same = read_prompts(other, {cell.prompts.key}).get(cell.prompts.key) == list(texts)
            files = _prompts_folder(other, "scored").glob("[0-9]*.npz") if same else ()
            for scores in (read_arrays(file).get(cell.key) for file in files):
                if scores is not None:
                    return scores
    return None


def _private_scores(
    folder: UnitFolder, scorer: Scorer, texts: Sequence[str], cell: Cell
) -> np.ndarray:
    """Of private prompts one by one, so that none of them moves another by rounding, nor stops the
    run; one that fails says nothing.
    """
    answers = METHODS[folder.unit.method].answers
    contract = folder.declared
    count = len(answers.continuations_of(contract))

    def ask(some: Sequence[str]) -> list[np.ndarray]:
        return list(answers.ask_cell(scorer, some, contract, cell))

    def public() -> object:
        return public_answer(
            scorer.description.name,
            lambda: answers.ask_cell(
                scorer, answers.public_prompts(contract)[:1], contract, ZERO_SHOT
            ),
        )

    try:
        scores = [
            row
            for text in texts
            for row in isolated_answers(ask, [text], np.full(count, -np.log(count)), public)
        ]
    finally:
        if isinstance(scorer, Tallying):
            # a server's count of private prompts: else the next public tally would hold it
            scorer.tally((), ())
    return np.array(scores).reshape(len(texts), count)


def _score_rows(folder: UnitFolder, numbers: Mapping[Cell, int]) -> None:
    """Cells whose queries a tabular model answers beside released rows, by the number of their
    file.
    """
    method = row_method(folder.method)
    contract = folder.contract
    unit = replace(folder.unit, evaluated_cells=tuple(numbers))
    shown = contexts(method, read_released(folder), contract, unit, folder.draws)
    model = tabular_model_of(folder.run)
    queries = folder.rows.queries()
    for cell, scores in answered_rows(model, shown, method, queries, contract):
        write_arrays(
            _cell_file(folder, numbers[cell]), {cell.key: scores}, mode=_prompts_mode(folder)
        )


def read_scores(folder: UnitFolder) -> dict[Cell, np.ndarray]:
    """Answers of the model by cell, in the order of the prompts: scores of shape (prompts, labels),
    or texts.
    """
    known = _cells(folder, read_plan(folder.run).beside)
    files = sorted(_prompts_folder(folder, "scored").glob("[0-9]*.npz"))
    return {known[key]: table for file in files for key, table in read_arrays(file).items()}


_MEASURED = {field.name for field in fields(Metrics)}
EVALUATION = "evaluation"
"""The one release of an evaluation."""


@unit_stage("baselines", BASELINES)
def fit_baselines(folder: UnitFolder) -> str:
    """Fit and test every baseline of the unit."""
    contract = folder.contract
    unit = folder.unit
    released = read_released(folder)
    draws = folder.draws
    measured = tabular(unit.method).fitted(
        released, folder.rows.train, folder.rows.test(), contract, unit, draws
    )
    rows = [
        {"system": cell.system, "epsilon": str(cell.epsilon), **asdict(metrics)}
        for cell, metrics in measured.items()
    ]
    write_json(folder.path / BASELINES, rows)
    return many(len(rows), "model")


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
    return "nothing is measured" if evaluation == "none" else many(len(rows), "result")


def _exact_metrics(folder: UnitFolder) -> list[dict[str, Any]]:
    method = folder.method
    contract = folder.declared
    unit = folder.unit
    scores = read_scores(folder)
    if isinstance(method, TextMethod):
        scores |= method.final_answers(read_texts(folder)[0], folder.texts)
    queries = folder.rows.queries()
    write_table(folder.path / PREDICTIONS, _predictions(folder, scores | averaged(scores), queries))
    judged = {
        cell.key: value
        for cell, value in method.answers.values_of(scores, queries, contract).items()
    }
    write_table(folder.path / VALUES, pa.table(judged))
    fits = unit.baselines and method.fits_baselines(contract)
    fitted = read_json(folder.path / BASELINES) if fits else []
    baselines = {
        Cell(row["system"], float(row["epsilon"])): Metrics(
            **{name: value for name, value in row.items() if name in _MEASURED}
        )
        for row in fitted
    }
    return _rows(folder, method.answers.metrics_of(scores, queries, contract) | baselines)


def _predictions(
    folder: UnitFolder, scores: Mapping[Cell, np.ndarray], queries: QueryTable
) -> pa.Table:
    """A row per cell and query: the truth and the answer in words, and of each label its
    log-probability, where labels were scored.
    """
    method = folder.method
    contract = folder.declared
    labels = [label.strip() for label in method.answers.continuations_of(contract)]
    truth = _in_words(method.answers.truth_of(queries, contract), labels)
    answers = {
        cell: _in_words(method.answers.answers_of(scored, contract), labels)
        for cell, scored in scores.items()
    }
    missing = np.full((len(truth), len(labels)), np.nan)
    of_labels = np.concatenate(
        [score[: len(truth)] if score.ndim == 2 else missing for score in scores.values()]
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
    contract = folder.contract
    unit = folder.unit
    with open_ledger(folder.settings) as ledger:
        account = open_account(ledger, contract, unit.method, folder.settings)
        releases = [named.charge for named in releases_of(ledger, folder).values()]
        charge = evaluation_of(
            ledger_key(folder.settings), account, contract, unit, releases, read_plan(folder.run)
        )
        named = NamedRelease(contract, unit.method, EVALUATION, charge, folder.settings)
        if named.reserve(ledger).is_missing:
            truth = folder.method.answers.truth_of(folder.rows.queries(), contract)
            right = tabular_method.right_counts(read_scores(folder), truth, unit)
            noise = folder.draws.secret("evaluation", "")
            named.publish(
                ledger,
                json.dumps(tabular_method.released_counts(right, contract, unit, noise)).encode(),
            )
        counts = json.loads(named.read(ledger))
    return _rows(folder, tabular_method.metrics_of(counts, unit))


def _rows(folder: UnitFolder, metrics: Mapping[Cell, Metrics]) -> list[dict[str, Any]]:
    paid = costs(folder.method, folder.declared, folder.unit)
    return [
        {
            name: finite(value) if isinstance(value, float) else value
            for name, value in result.as_row().items()
        }
        for result in results(folder.unit, metrics, paid)
    ]
