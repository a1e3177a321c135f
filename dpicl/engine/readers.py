"""Models that read private rows: opened on this machine, named by their weights, and tried on
public queries before anything is charged.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import dpicl
from dpicl.contract.text import TextContract
from dpicl.engine.settings import Settings
from dpicl.files.shipped import checked
from dpicl.lm.embedding import open_embedder
from dpicl.lm.isolation import public_answer
from dpicl.lm.models import fingerprint_of, open_generator, open_scorer
from dpicl.lm.requests import ModelDescription, Scorer
from dpicl.lm.spec import ModelSpec, Wanted
from dpicl.lm.votes.voting import GeneratorModel
from dpicl.methods import METHODS, on_texts
from dpicl.methods.public_questions import check_ensemble, check_generator
from dpicl.pipeline import Unit

_CORPUS = Path(dpicl.__file__).parent / "lm" / "local" / "tiny_corpus.json"


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


def reader_of(spec: ModelSpec, settings: Settings, wanted: Wanted) -> Scorer:
    """A model that answers prompts with private rows; it may see them."""
    return open_scorer(spec, models_folder=settings.models, corpus=public_corpus(), wanted=wanted)


def writer_of(spec: ModelSpec, settings: Settings) -> GeneratorModel:
    """A model that reads private texts and writes; it is on this machine."""
    return open_generator(spec, models_folder=settings.models, corpus=public_corpus())


def fingerprint(spec: ModelSpec) -> str:
    """The name of a model's weights in a release, without loading it."""
    return fingerprint_of(spec, corpus=public_corpus())


def check_reading(
    spec: ModelSpec,
    embedder: ModelSpec | None,
    unit: Unit,
    contract: TextContract,
    settings: Settings,
) -> ModelDescription:
    """The model that reads private texts, in the way of the unit's method; let go of before the
    next one is opened.
    """
    if on_texts(unit.method).votes_on_tokens:
        writer = public_answer(spec.name, lambda: writer_of(spec, settings))
        check_generator(contract, unit, writer)
        return writer.description
    reader = public_answer(
        spec.name,
        lambda: reader_of(spec, settings, METHODS[unit.method].answers.wanted_of(contract)),
    )
    method = on_texts(unit.method)
    cells = method.releases(contract, unit)
    places, calibrated = (
        any(ask(contract, unit, cell) for cell in cells)
        for ask in (method.embeds, method.calibrates)
    )
    check_reader(contract, reader, embedder, places=places, calibrated=calibrated)
    return reader.description


def check_reader(
    contract: TextContract,
    reader: Scorer,
    embedder: ModelSpec | None,
    *,
    places: bool,
    calibrated: bool,
) -> None:
    """Whether a model answers in an ensemble, and texts can be placed where that is needed, tested
    on public queries. Raises DpiclError: not so.
    """
    placing = open_embedder(embedder) if places or not contract.is_classification else None
    check_ensemble(contract, reader, placing, calibrated=calibrated)
