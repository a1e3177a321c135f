"""What a run is called on the orchestrator's pages: a name to read and tags to filter by, made of
public facts alone.

A name says what a run is of and ends as its folder does; a tag names one of the things that
contracts and pipelines.yaml declare, so that their number does not grow with the runs.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException

from dpicl.engine.pipelines import Pipeline
from dpicl.engine.run_folder import Plan
from dpicl.lm.spec import ModelSpec
from dpicl.report.words import epsilon, listing, method_name

KINDS = ("method:", "model:", "data:")
"""What our tags begin with; others are the user's."""
MOST = 3
"""Data sets that a name spells out."""


def run_name(plan: Plan) -> str:
    """`demo · breast_cancer, diabetes · ε 1–50, ∞ · 2026-12 · 20261205-060000`: the period is left
    out of what is released once.
    """
    sets, own = plan.pipeline.datasets, plan.run_id.removeprefix(f"{plan.pipeline_name}-")
    shown = sets if len(sets) <= MOST else (*sets[: MOST - 1], f"{len(sets) - MOST + 1} more")
    return " · ".join(
        [
            plan.pipeline_name,
            ", ".join(shown),
            _epsilons(plan.pipeline),
            *sorted({*plan.periods.values()}),
            own,
        ]
    )


def _epsilons(pipeline: Pipeline) -> str:
    finite = [one for one in pipeline.epsilons if one < inf]
    ends = "–".join(dict.fromkeys(map(epsilon, (min(finite), max(finite))))) if finite else ""
    return "ε " + ", ".join(
        filter(None, (ends, epsilon(inf) if len(finite) < len(pipeline.epsilons) else ""))
    )


def tags_of(pipeline: Pipeline, *models: ModelSpec | None) -> list[str]:
    """A tag of each method, model and data set."""
    named = (
        pipeline.methods,
        [one.name for one in models if one and pipeline.methods],
        pipeline.datasets,
    )
    return list(
        dict.fromkeys(
            kind + name for kind, names in zip(KINDS, named, strict=True) for name in names
        )
    )


def description(pipeline: Pipeline) -> str:
    """What a deployment's page says of its pipeline."""
    methods = listing([method_name(name) for name in pipeline.methods]) or "Privacy costs"
    answered = f", answered by {pipeline.model}" if pipeline.methods else ""
    return (
        f"{pipeline.title}.\n\n{methods} on {listing(list(pipeline.datasets))}, "
        f"{_epsilons(pipeline)}{answered}."
    )


def name_flow_run(plan: Plan) -> None:
    """Name and tag the flow run around this by its plan; tags of the user's own stay."""
    context = FlowRunContext.get()
    if context is None or (flow_run := context.flow_run) is None:
        return
    others = [tag for tag in flow_run.tags if not tag.startswith(KINDS)]
    flow_run.name, flow_run.tags = (
        run_name(plan),
        [*others, *tags_of(plan.pipeline, plan.model, plan.writer)],
    )
    # a name is not worth a run
    with (
        suppress(httpx.HTTPError, PrefectException),
        get_client(sync_client=True) as client,
    ):
        client.update_flow_run(flow_run.id, name=flow_run.name, tags=flow_run.tags)
