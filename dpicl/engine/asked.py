"""How the models of a plan or request are asked where nobody says: decided before anything is named
or charged, and kept.

What was charged stands: where an account was charged for what these weights answered, they are
asked as they were then, whatever public questions would decide today, by other packages or on
another machine. Else by the note of an earlier measurement, or by one made now.

State       models/asked/<digest>.json    a measurement, by the weights, their number format, the
            template and the questions
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Literal

from dpicl.accounting.ledger import Account
from dpicl.engine.files import read_json, write_json
from dpicl.engine.names import WRITER
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.readers import fingerprint, public_corpus
from dpicl.engine.settings import Settings
from dpicl.errors import ModelError
from dpicl.lm.asking import QUESTIONS, AskedBy, asked_by
from dpicl.lm.isolation import public_answer
from dpicl.lm.local.gguf_file import is_gguf, log
from dpicl.lm.local.model_files import chat_template, find_model_files
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer
from dpicl.lm.spec import ModelSpec
from dpicl.methods import METHODS, on_texts


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
    if spec.kind != "transformers" or spec.api != "auto" or (is_gguf(str(spec.id)) and not measure):
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
    parts = [fingerprint(spec), template, hashlib.sha256(QUESTIONS.read_bytes()).hexdigest()]
    place = (
        settings.models / "asked" / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.json"
    )
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
    return public_answer(
        spec.name, lambda: open_scorer(asked, models_folder=settings.models, corpus=public_corpus())
    )


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
    for release in [entry.release for entry in sorted(entries, key=lambda one: one.reserved_utc)][
        ::-1
    ]:
        method = METHODS.get(release.mechanism)
        votes = (
            method is not None and method.model_reads_rows and on_texts(method.name).votes_on_tokens
        )
        if not votes and (
            api := names.get(str(release.parameters.get(WRITER, release.parameters.get("model"))))
        ):
            return AskedBy(api)
    return None
