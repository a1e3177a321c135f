"""What a flow passes to the chain: it submits tasks of `tasks/stages.py` to its Dask cluster, and
shows on its pages what is done.

One local worker per GPU: a model is loaded once on each, and scoring waits for these workers.

What a run is called on the orchestrator's pages: a name to read and tags to filter by, made of
public facts alone.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import nullcontext, suppress
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import httpx
from distributed import Nanny, wait
from distributed.scheduler import KilledWorker
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect_dask.task_runners import PrefectDaskFuture

from dpicl.ground.errors import DpiclError
from dpicl.ground.processes import VISIBLE, gpus_here
from dpicl.home.settings import Settings
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import Pipeline, asks_models
from dpicl.report import write_report
from dpicl.report.words import epsilon, listing, method_name
from dpicl.runs import prepare as rules
from dpicl.runs.artefacts import RESULTS
from dpicl.runs.evaluate import serialize
from dpicl.runs.execute import FAILURES, Ended, Executor, Step, WorkerDied
from dpicl.runs.prepare import receive
from dpicl.runs.run_folder import Plan, read_plan
from dpicl.runs.stage import Verdicts
from tasks.artifacts import (
    show_budget,
    show_checks,
    show_figures,
    show_overview,
    show_release,
    show_reports,
    show_results,
)
from tasks.on_worker import do_step, flow_context
from tasks.stages import task_of


class OnDask(Executor):
    """Steps as tasks of the flow run around this."""

    def __init__(self, run: Path) -> None:
        plan = read_plan(run)
        self._client = FlowRunContext.get().task_runner.client  # type: ignore[union-attr]
        self._context = flow_context()
        # those with a GPU ask models, if the cluster has such, else all; at least one
        found = _gpus_by_worker(self._client)
        self.workers = len(found)
        self.model_workers = max(1, sum(map(bool, found)) or len(found))
        self._run = run
        self._units = set(plan.units)
        done = sum((run / "units" / key / RESULTS).exists() for key in plan.units)
        show_overview(str(run))
        self._progress = Progress(len(plan.units), done)

    def call(self, step: Step) -> None:
        """Do a step in the flow's process."""
        _: Any = task_of(step.stage)(*step.references)

    def submit(self, step: Step) -> Any:
        """A future of Prefect; models are asked where the GPUs are."""
        name = step.stage.name
        task_run = uuid4()
        with on_gpus(self._client) if step.stage.place == "model worker" else nullcontext():
            future = self._client.submit(
                do_step, name, step.references, task_run, self._context, key=f"{name}-{task_run}"
            )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=task_run)

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Ended:
        """Wait on the cluster."""
        if not at_once:
            with self._client.as_current():
                wait([job.wrapped_future for job in jobs], return_when="FIRST_COMPLETED")
        ended: dict[Any, Exception | None] = {
            job: None for job in jobs if job.wrapped_future.done()
        }
        for job in ended:
            try:
                job.result()
            except KilledWorker:
                ended[job] = WorkerDied()
            except FAILURES as error:
                ended[job] = error
        return ended

    def step_ended(self, step: Step, error: Exception | None) -> None:
        """Artifacts of what can be seen by then."""
        references = step.references
        if step.stage is rules.validate and self._are_checked(references[1]):
            show_checks(*references)
        if step.stage is receive and error is None:
            show_reports(*references)
        if step.stage is serialize and error is None:
            show_release(*references)
        if step.stage is write_report and error is None:
            for show in (show_results, show_figures, show_budget, show_overview):
                show(*references)

    def _are_checked(self, dataset: str) -> bool:
        """Whether a data set's rows were at hand to be checked."""
        settings = Settings.current()
        return (
            Verdicts.of(self._run, settings.declared(dataset), settings).rules(dataset) is not None
        )

    def strand_ended(self, name: str) -> None:
        """Another unit is done, or failed."""
        if name in self._units:
            self._progress.one_more()


class Progress:
    """A bar on the flow run's page: units that are finished; an update a second at most, and one at
    the end.
    """

    def __init__(self, total: int, finished: int) -> None:
        self._total = total
        self._finished = finished
        self._told = time.monotonic()
        self._artifact: Any = create_progress_artifact(**self._shown())

    def _shown(self) -> dict[str, Any]:
        share = 100 * self._finished / self._total if self._total else 100.0
        return {
            "progress": share,
            "description": f"{self._finished} of {self._total} units (a method on a data set, with one seed)",  # noqa: E501
        }

    def one_more(self) -> None:
        """Another unit has finished, or failed."""
        self._finished += 1
        if self._finished == self._total or time.monotonic() - self._told > 1:
            self._told = time.monotonic()
            with suppress(httpx.HTTPError, PrefectException):  # a bar is not worth a run
                update_progress_artifact(self._artifact, **self._shown())


GPU = "GPU"
"""Dask's usual name of the resource; workers started by hand say `--resources GPU=1`."""


class LocalWorker(Nanny):
    """A worker process of the local cluster; the first ones own a GPU each, if there are some, the
    others see none.
    """

    def __init__(self, scheduler: str, *, name: int, **options: Any) -> None:
        gpus = gpus_here()
        if gpus:
            own = gpus[name : name + 1]
            options["resources"] = {GPU: len(own)} if own else {}
            options["env"] = {**(options.get("env") or {}), VISIBLE: ",".join(own)}
        super().__init__(scheduler, name=name, **options)


def on_gpus(client: Any) -> Any:
    """A context in which tasks are handed to workers with a GPU, if the cluster has such."""
    return dask.annotate(**({"resources": {GPU: 1}} if any(_gpus_by_worker(client)) else {}))


def _gpus_by_worker(client: Any) -> list[float]:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker["resources"].get(GPU, 0) for worker in workers]


KINDS = ("method:", "model:", "data:")
"""What our tags begin with; others are the user's."""
MOST = 3
"""Data sets that a name spells out."""


def run_name(plan: Plan) -> str:
    """`demo · breast_cancer, diabetes · ε 1–50, ∞ · 2026-12 · 20261205-060000`: the period is left
    out of what is released once.
    """
    sets = plan.pipeline.datasets
    own = plan.run_id.removeprefix(f"{plan.pipeline_name}-")
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
    finite = [epsilon for epsilon in pipeline.epsilons if epsilon < inf]
    ends = "–".join(dict.fromkeys(map(epsilon, (min(finite), max(finite))))) if finite else ""
    return "ε " + ", ".join(
        filter(None, (ends, epsilon(inf) if len(finite) < len(pipeline.epsilons) else ""))
    )


def tags_of(pipeline: Pipeline, *models: ModelSpec | None) -> list[str]:
    """A tag of each method, model and data set."""
    named = (
        pipeline.methods,
        [model.name for model in models if model],
        pipeline.datasets,
    )
    return list(
        dict.fromkeys(
            kind + name for kind, names in zip(KINDS, named, strict=True) for name in names
        )
    )


def _asks_models(pipeline: Pipeline, settings: Settings) -> bool:
    with suppress(DpiclError):  # a contract that breaks a rule refuses the run
        return bool(pipeline.methods) and asks_models(pipeline.datasets, settings)
    return False


def description(pipeline: Pipeline, settings: Settings) -> str:
    """What a deployment's page says of its pipeline."""
    methods = listing([method_name(name) for name in pipeline.methods]) or "Privacy costs"
    answered = f", answered by {pipeline.model}" if _asks_models(pipeline, settings) else ""
    return (
        f"{pipeline.title}.\n\n{methods} on {listing(list(pipeline.datasets))}, "
        f"{_epsilons(pipeline)}{answered}."
    )


def name_flow_run(plan: Plan, settings: Settings) -> None:
    """Name and tag the flow run around this by its plan; tags of the user's own stay."""
    context = FlowRunContext.get()
    if context is None or (flow_run := context.flow_run) is None:
        return
    others = [tag for tag in flow_run.tags if not tag.startswith(KINDS)]
    flow_run.name = run_name(plan)
    asked = (plan.model, plan.writer) if _asks_models(plan.pipeline, settings) else ()
    flow_run.tags = [*others, *tags_of(plan.pipeline, *asked)]
    # a name is not worth a run
    with suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, name=flow_run.name, tags=flow_run.tags)
