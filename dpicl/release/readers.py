"""Models that read private rows: opened on this machine, named by their weights, and tried on
public queries before anything is charged; and how models are asked where nobody says, which is
decided before anything is named, and stands from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import dpicl
from dpicl.contract.pipeline import Point
from dpicl.contract.text import TextContract
from dpicl.ground.cache import checked
from dpicl.ground.errors import ModelError
from dpicl.ground.files import read_json, sha256_of, write_json
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Account
from dpicl.methods import METHODS, on_texts
from dpicl.methods.public_questions import check_ensemble, check_generator
from dpicl.models.asking import QUESTIONS, AskedBy, asked_by, public_answer
from dpicl.models.embedding import open_embedder
from dpicl.models.local.gguf_file import is_gguf, log
from dpicl.models.local.model_files import chat_template, find_model_files
from dpicl.models.opening import open_generator, open_scorer
from dpicl.models.requests import ModelDescription, Scorer
from dpicl.models.spec import ModelSpec, Wanted
from dpicl.models.votes import GeneratorModel
from dpicl.release.names import WRITER

_CORPUS = Path(dpicl.__file__).parent / "models" / "local" / "tiny_corpus.json"


@lru_cache
def public_corpus() -> tuple[str, ...]:
    """Public text that the tokenizer of the tiny model is trained on, and the model is named by:
    the wording of the contracts that came with the first version, numbers, then templates, texts
    and questions with both answers.

    Kept as it was then, and read from no contract: categories of a private one, or of a draft,
    which hold what rows say, would otherwise come out in texts that the model writes for another
    account.
    """
    return tuple(json.loads(checked("models/local/tiny_corpus.json", _CORPUS).read_text("utf-8")))


def reader_of(
    spec: ModelSpec, settings: Settings, wanted: Wanted = "scores", mode: str = ""
) -> Scorer:
    """A model that answers prompts with private rows; it may see them. See `open_scorer`."""
    return open_scorer(
        spec, models_folder=settings.models, corpus=public_corpus(), wanted=wanted, mode=mode
    )


def writer_of(spec: ModelSpec, settings: Settings) -> GeneratorModel:
    """A model that reads private texts and writes; it is on this machine."""
    return open_generator(spec, models_folder=settings.models, corpus=public_corpus())


def fingerprint(spec: ModelSpec) -> str:
    """The name of a model's weights in a release, without loading it."""
    return spec.fingerprint(public_corpus())


def check_reading(
    spec: ModelSpec,
    embedder: ModelSpec | None,
    method_name: str,
    asked: Collection[Point[Any]],
    contract: TextContract,
    settings: Settings,
) -> ModelDescription:
    """The model that reads private texts, in the way of a method that is asked for these releases;
    let go of before the next one is opened.
    """
    method = on_texts(method_name)
    if method.votes_on_tokens:
        writer = public_answer(spec.name, lambda: writer_of(spec, settings))
        check_generator(contract, asked, writer)
        return writer.description
    reader = public_answer(
        spec.name, lambda: reader_of(spec, settings, method.answers.wanted_of(contract))
    )
    places, calibrated = (
        any(asks(contract, point) for point in asked) for asks in (method.embeds, method.calibrates)
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


def settled_model(
    spec: ModelSpec,
    settings: Settings,
    accounts: Callable[[], Iterable[Account]] = tuple,
    *,
    measure: bool = True,
) -> tuple[ModelSpec, AskedBy | None]:
    """A model with how it is asked, and why; as it is where nothing is open, or where it is not on
    this machine.

    Open is a local model whose folder states a chat template and whose entry says nothing.

    Args:
        accounts: those whose charges for what this model answered stand; called where it is open.

    Raises:
        ModelError: it cannot be opened.
    """
    # it may have to be fetched
    if not spec.of_kind.is_fetched or spec.api != "auto" or (is_gguf(str(spec.id)) and not measure):
        return spec, None
    try:
        template = chat_template(find_model_files(str(spec.id), spec.revision)[0])
    except ModelError:  # refused where it is opened, which may be another machine
        return spec, None
    found = None
    if template:
        found = _charged(spec, [account.name for account in accounts()], settings) or measured(
            spec, template, settings, measure=measure
        )
    return (spec if found is None else spec.model_copy(update={"api": found.api})), found


def measured(
    spec: ModelSpec, template: str, settings: Settings, *, measure: bool = True
) -> AskedBy | None:
    """What public questions decide of a model that is open, measured once for these weights and
    this template; None where not yet.
    """
    parts = [fingerprint(spec), template, sha256_of(QUESTIONS.read_bytes())]
    place = settings.models / "asked" / f"{sha256_of(json.dumps(parts))}.json"
    if not place.exists():
        if not measure:
            return None
        log.info(
            "model %s: asking public questions by its chat template and by completion, once",
            spec.name,
        )
        completions = _opened(spec, "completions", settings)
        try:
            chat = _opened(spec, "chat", settings)
        except ModelError:  # a template that cannot be used
            chat = None
        write_json(place, asdict(asked_by(chat, completions)))
    return AskedBy(**read_json(place))


def _opened(spec: ModelSpec, api: Literal["chat", "completions"], settings: Settings) -> Scorer:
    asked = spec.model_copy(update={"api": api})
    return public_answer(spec.name, lambda: reader_of(asked, settings))


def _charged(spec: ModelSpec, accounts: Sequence[str], settings: Settings) -> AskedBy | None:
    """How the model answered what one of these accounts was charged for last; None where none was
    for what it answered.
    """
    if not accounts:
        return None
    names: dict[str, Literal["chat", "completions"]] = {
        fingerprint(spec.model_copy(update={"api": api})): api for api in ("chat", "completions")
    }
    with open_ledger(settings) as ledger:
        entries = [entry for name in accounts for entry in ledger.entries(name)]
    for release in [
        entry.release for entry in sorted(entries, key=lambda entry: entry.reserved_utc)
    ][::-1]:
        method = release.mechanism  # an evaluation, or one that is no longer installed, is none
        votes = (
            method in METHODS
            and METHODS[method].model_reads_rows
            and on_texts(method).votes_on_tokens
        )
        if not votes and (
            api := names.get(str(release.parameters.get(WRITER, release.parameters.get("model"))))
        ):
            return AskedBy(api)
    return None
