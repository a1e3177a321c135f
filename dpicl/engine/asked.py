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
from dataclasses import asdict, replace
from functools import partial
from typing import Literal

from dpicl.accounting.ledger import Account
from dpicl.engine.files import read_json, write_json
from dpicl.engine.models import fingerprint, public_corpus
from dpicl.engine.names import WRITER
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.run_folder import PLAN, Plan, read_plan, run_folder
from dpicl.engine.run_quote import plan_accounts
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

ASKED = "asked.json"
"""Of a run: how each of its models is asked and why, by name, where it was decided."""


def as_begun(plan: Plan, settings: Settings) -> Plan:
    """A plan whose models are asked as the run of its name asks them, where it has begun with these
    models and nobody says otherwise.
    """
    folder = run_folder(settings, plan.run_id)
    if not (folder / PLAN).exists():
        return plan
    begun = read_plan(folder)
    writer = (
        begun.writer
        if plan.writer is None and begun.writer == plan.model
        else plan.writer and _as(begun.writer, plan.writer)
    )
    earlier = {one.name: one for one in begun.beside}
    beside = tuple(_as(earlier.get(one.name), one) for one in plan.beside)
    return replace(plan, model=_as(begun.model, plan.model), writer=writer, beside=beside)


def _as(begun: ModelSpec | None, spec: ModelSpec) -> ModelSpec:
    """A model as it was begun with, if it is that one and open."""
    return (
        begun
        if begun is not None
        and spec.api == "auto"
        and begun.model_copy(update={"api": "auto"}) == spec
        else spec
    )


def settled_plan(
    plan: Plan, settings: Settings, *, measure: bool = True
) -> tuple[Plan, dict[str, AskedBy]]:
    """A plan that states how its models are asked, and what was decided by name; one that has begun
    or leaves nothing open is as it was.

    Votes on tokens follow bare prompts: the model that casts them is named and asked as before.

    Args:
        measure: whether to open a model that is not decided yet; else it stays so.

    Raises:
        ModelError: a model cannot be opened.
    """
    methods = [METHODS[name] for name in plan.pipeline.methods]
    # a forecast's plan is of no run
    begun = plan.run_id and (run_folder(settings, plan.run_id) / PLAN).exists()
    if begun or not methods or plan.pipeline.api != "auto":
        return plan, {}
    reading = [method for method in methods if method.model_reads_rows]
    votes = any(on_texts(method.name).votes_on_tokens for method in reading)
    charged = not plan.pipeline.reports and (
        reading
        or any(settings.declared(name).evaluation == "charged" for name in plan.pipeline.datasets)
    )
    asked: dict[str, AskedBy] = {}

    def settled(spec: ModelSpec) -> ModelSpec:
        accounts = partial(plan_accounts, plan, settings) if charged else tuple
        decided, found = settled_model(spec, settings, accounts, measure=measure)
        asked.update({spec.name: found} if found else {})
        return decided

    beside = tuple(map(settled, plan.beside))
    model, writer = settled(plan.model), plan.writer
    if votes:
        writer = plan.writer or (None if model == plan.model else plan.model)
    elif reading and plan.writer:
        writer = settled(plan.writer)
    return replace(plan, model=model, writer=writer, beside=beside), asked


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
