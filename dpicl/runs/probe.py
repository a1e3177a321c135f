"""Opening a run's models and sending them public queries, before anything is charged: a model that
cannot answer costs nothing.

On a worker, which keeps the model open; once per run, since a resumed run goes on with the same
models.

The models of a run, opened once per process.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.contract import Contract
from dpicl.contract.declared import Declared
from dpicl.contract.pipeline import Unit
from dpicl.contract.text import FreeText, TextContract
from dpicl.ground.errors import RunError, TooLongError
from dpicl.ground.files import read_json, sha256_of, write_json
from dpicl.home.settings import Settings
from dpicl.methods import METHODS
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.evaluation import scorers
from dpicl.methods.grid import points
from dpicl.methods.public_questions import check_scores
from dpicl.methods.row_method import check_model, row_method
from dpicl.methods.tabular_method import TabularMethod
from dpicl.models.asking import public_answer
from dpicl.models.opening import open_tabular
from dpicl.models.requests import ModelDescription, Scorer, TabularModel, prompt
from dpicl.models.spec import ModelSpec, Wanted
from dpicl.release.pipelines import asks_a_model
from dpicl.release.readers import check_reading, reader_of
from dpicl.runs.run_folder import Plan, read_plan
from dpicl.runs.stage import stage

PROBE = "probe.json"
TOLERANCE = {"float32": 0.05}
"""Nats by which a score may depend on the other prompts of its batch."""
TOLERANCE_OF_SIXTEEN_BITS = 0.5


@stage("probe", "model worker")
def probe(run: str) -> str:
    """Ask once for every kind of unit; store a digest of the questions and the descriptions of the
    models.
    """
    folder = Path(run)
    settings = Settings.current()
    plan = read_plan(folder)
    digest = questions_digest(plan, settings)
    if (folder / PROBE).exists() and read_json(folder / PROBE)["asked"] == digest:
        return "already answered"
    units = list({(unit.method, unit.dataset): unit for unit in plan.units.values()}.values())
    declared = {unit.dataset: settings.declared(unit.dataset) for unit in units}
    units = [unit for unit in units if asks_a_model(declared[unit.dataset])]
    # one model is open at a time, and rows are read first: so the model that reads them is opened
    # last
    alike = {
        (unit.dataset, METHODS[unit.method].answers, _longest(unit, declared[unit.dataset])): unit
        for unit in units
    }
    # methods whose prompts look alike ask the same questions
    asking = units if plan.model.most_rows else list(alike.values())
    descriptions = [
        _check_answers(folder, spec, unit, declared[unit.dataset], settings)
        for spec in (*plan.beside, plan.model)
        for unit in asking
    ]
    for unit in units:
        contract = declared[unit.dataset]
        if isinstance(contract, TextContract):
            if isinstance(contract.task, FreeText):
                scorers()  # what the answers are measured by may not be installed
            spec = plan.writing_model
            asked = points(METHODS[unit.method], unit).values()
            descriptions.append(
                check_reading(spec, plan.embedder, unit.method, asked, contract, settings)
            )
    models = [
        json.loads(text)
        for text in dict.fromkeys(
            json.dumps(asdict(description), sort_keys=True) for description in descriptions
        )
    ]
    write_json(folder / PROBE, {"asked": digest, "models": models}, replace=True)
    if not units:
        return "no model is asked"
    return f"{len(models)} {'model answers' if len(models) == 1 else 'models answer'}"


def questions_digest(plan: Plan, settings: Settings) -> str:
    """SHA-256 of what a plan's models are asked: of its models, methods, options and contracts."""
    kinds = sorted(
        {
            (unit.method, unit.dataset, unit.options.model_dump_json())
            for unit in plan.units.values()
        }
    )
    specs: list[Any] = [
        spec.model_dump(mode="json") for spec in (plan.model, plan.writing_model, *plan.beside)
    ]
    specs += [plan.embedder.model_dump(mode="json")] if plan.embedder else []
    contracts = [settings.declared(dataset).model_dump_json() for _, dataset, _ in kinds]
    return sha256_of(json.dumps([specs, kinds, contracts]))


def _check_answers(
    run: Path, spec: ModelSpec, unit: Unit, contract: Declared, settings: Settings
) -> ModelDescription:
    answers = METHODS[unit.method].answers
    tolerance = tolerance_of(spec)
    if spec.most_rows:
        assert isinstance(contract, Contract)
        model = public_answer(spec.name, lambda: tabular_model_of(run))
        check_model(model, row_method(METHODS[unit.method]), contract, unit, tolerance=tolerance)
        return model.description
    scorer: Scorer = public_answer(
        spec.name, lambda: scorer_of(run, settings, answers.wanted_of(contract), spec)
    )
    prompts = answers.public_prompts(contract)

    def ask(texts: list[str]) -> np.ndarray:
        return np.asarray(
            public_answer(spec.name, lambda: answers.ask_cell(scorer, texts, contract, ZERO_SHOT))
        )

    alone = np.concatenate([ask([prompt]) for prompt in prompts])
    together = ask(prompts)
    if answers.continuations_of(contract):
        check_scores(scorer.description, alone, together, tolerance=tolerance)
    if demonstrations := _longest(unit, contract):
        try:
            ask([prompt(demonstrations, prompts[0])])
        except TooLongError as error:
            raise TooLongError(
                f"{contract.name}, prompts of {max(unit.shots)} shots: {error}"
            ) from None
    return scorer.description


def _longest(unit: Unit, contract: Declared) -> tuple[str, ...]:
    """The longest demonstrations that a contract allows, one of them in the place of a query's
    values; none of texts.
    """
    method = METHODS[unit.method]
    if (
        not isinstance(method, TabularMethod)
        or not isinstance(contract, Contract)
        or contract.evaluation == "none"
    ):
        return ()
    text = method.longest_demonstration(contract, unit)
    return (text,) * (max(unit.shots) + 1) if text else ()


def tolerance_of(spec: ModelSpec) -> float:
    """Nats by which a model's scores may depend on what is asked beside."""
    return TOLERANCE.get(spec.number_format, TOLERANCE_OF_SIXTEEN_BITS)


DESCRIPTIONS: dict[Wanted, str] = {"scores": "model.json", "text": "model-text.json"}
"""The file of a run that describes its model, by what the model was opened for."""


def scorer_of(
    run: Path, settings: Settings, wanted: Wanted = "scores", spec: ModelSpec | None = None
) -> Scorer:
    """The run's model, or one that is asked beside it; its description is stored for the manifest.
    Raises RunError: it answers in another manner than so far.
    """
    plan = read_plan(run)
    spec = spec or plan.model
    file = run / (DESCRIPTIONS[wanted] if spec == plan.model else beside_file(spec.name))
    mode = read_json(file).get("mode", "") if file.exists() else ""
    scorer = reader_of(spec, settings, wanted, mode)
    _store(scorer.description, file)
    return scorer


def beside_file(name: str) -> str:
    """The file of a run that describes a model which is asked beside its own."""
    return f"model-beside-{name}.json"


def tabular_model_of(run: Path) -> TabularModel:
    """The same of a run whose model reads tables."""
    model = open_tabular(read_plan(run).model)
    _store(model.description, run / DESCRIPTIONS["scores"])
    return model


def describe_model(run: Path, settings: Settings) -> None:
    """Store the description of the run's model."""
    if read_plan(run).model.most_rows:
        tabular_model_of(run)
    else:
        scorer_of(run, settings)


def _store(description: ModelDescription, file: Path) -> None:
    mode = read_json(write_json(file, asdict(description))).get("mode", "")
    if mode != description.mode:
        raise RunError(
            f"run {file.parent.name}: its model answered by {mode} and now by "
            f"{description.mode}; start a new run"
        )
