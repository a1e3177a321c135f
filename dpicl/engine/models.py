"""The models of a run, opened once per process."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from dpicl.engine.files import read_json, write_json
from dpicl.engine.readers import public_corpus
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.errors import RunError
from dpicl.lm.models import open_scorer, open_tabular
from dpicl.lm.requests import ModelDescription, Scorer
from dpicl.lm.spec import ModelSpec, Wanted
from dpicl.lm.tables import TabularModel

DESCRIPTIONS: dict[Wanted, str] = {"scores": "model.json", "text": "model-text.json"}
"""The file of a run that describes its model, by what the model was opened for."""


def scorer_of(
    run: Path, settings: Settings, wanted: Wanted = "scores", spec: ModelSpec | None = None
) -> Scorer:
    """The run's model, or one that is asked beside it; its description is stored for the manifest.
    Raises RunError: it answers in another manner than so far.
    """
    plan = read_plan(run)
    scorer = open_scorer(
        spec or plan.model, models_folder=settings.models, corpus=public_corpus(), wanted=wanted
    )
    _store(
        scorer.description,
        run,
        DESCRIPTIONS[wanted]
        if spec in (None, plan.model)
        else beside_file(str(spec and spec.name)),
    )
    return scorer


def beside_file(name: str) -> str:
    """The file of a run that describes a model which is asked beside its own."""
    return f"model-beside-{name}.json"


def tabular_model_of(run: Path) -> TabularModel:
    """The same of a run whose model reads tables."""
    model = open_tabular(read_plan(run).model)
    _store(model.description, run, DESCRIPTIONS["scores"])
    return model


def describe_model(run: Path, settings: Settings) -> None:
    """Store the description of the run's model."""
    if read_plan(run).model.most_rows:
        tabular_model_of(run)
    else:
        scorer_of(run, settings)


def _store(description: ModelDescription, run: Path, file: str) -> None:
    mode = read_json(write_json(run / file, asdict(description))).get("mode", "")
    if mode != description.mode:
        raise RunError(
            f"run {run.name}: its model answered by {mode} and now by {description.mode}; start a "
            f"new run"
        )
