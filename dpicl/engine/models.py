"""The models of a run, opened once per process."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import dpicl
from dpicl.engine.files import read_json, write_json
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.errors import RunError
from dpicl.files.shipped import checked
from dpicl.lm.models import fingerprint_of, open_generator, open_scorer, open_tabular
from dpicl.lm.requests import ModelDescription, Scorer
from dpicl.lm.spec import ModelSpec, Wanted
from dpicl.lm.tables import TabularModel
from dpicl.lm.votes.voting import GeneratorModel

_CORPUS = Path(dpicl.__file__).parent / "lm" / "local" / "tiny_corpus.json"
DESCRIPTIONS: dict[Wanted, str] = {"scores": "model.json", "text": "model-text.json"}
"""The file of a run that describes its model, by what the model was opened for."""


@lru_cache
def public_corpus() -> tuple[str, ...]:
    """Public text that the tokenizer of the tiny model is trained on, and the model is named by:
    the wording of the contracts that came with the first version, numbers, then templates, texts
    and questions with both answers.

    Kept as it was then, and read from no contract: categories of a private one, or of a draft,
    which hold what rows say, would otherwise come out in texts that the model writes for another
    account.
    """
    return tuple(
        json.loads(checked("lm/local/tiny_corpus.json", _CORPUS).read_text(encoding="utf-8"))
    )


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


def reader_of(spec: ModelSpec, settings: Settings, wanted: Wanted) -> Scorer:
    """A model that answers prompts with private rows; it may see them."""
    return open_scorer(spec, models_folder=settings.models, corpus=public_corpus(), wanted=wanted)


def writer_of(spec: ModelSpec, settings: Settings) -> GeneratorModel:
    """A model that reads private texts and writes; it is on this machine."""
    return open_generator(spec, models_folder=settings.models, corpus=public_corpus())


def fingerprint(spec: ModelSpec) -> str:
    """The name of a model's weights in a release, without loading it."""
    return fingerprint_of(spec, corpus=public_corpus())
