"""How the models of a run's plan are asked where nobody says; `asked` decides of each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dpicl.engine.asked import settled_model
from dpicl.engine.run_folder import PLAN, Plan, read_plan, run_folder
from dpicl.engine.run_quote import plan_accounts
from dpicl.engine.settings import Settings
from dpicl.lm.asking import AskedBy
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
