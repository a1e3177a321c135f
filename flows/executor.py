"""What a flow passes to the chain: it submits tasks of `tasks/stages.py` to its Dask cluster, and
shows on its pages what is done.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from distributed import wait
from distributed.scheduler import KilledWorker
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect_dask.task_runners import PrefectDaskFuture

from dpicl.engine.artefacts import RESULTS
from dpicl.engine.execute import FAILURES, Executor, Step, WorkerDied
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stages import validate as rules
from dpicl.engine.stages.receive import receive
from dpicl.engine.stages.score import serialize
from dpicl.engine.verdicts import Verdicts
from dpicl.report.stages import write_report
from flows.gpus import on_gpus, scoring_workers
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
        self.model_workers = scoring_workers(self._client)
        self._run, self._units = run, set(plan.units)
        done = sum((run / "units" / key / RESULTS).exists() for key in plan.units)
        show_overview(str(run))
        self._progress = Progress(len(plan.units), done)

    def call(self, step: Step) -> None:
        """Do a step in the flow's process."""
        _: Any = task_of(step.stage)(*step.references)

    def submit(self, step: Step) -> Any:
        """A future of Prefect; models are asked where the GPUs are."""
        name, task_run = step.stage.name, uuid4()
        with on_gpus(self._client) if step.stage.place == "model worker" else nullcontext():
            future = self._client.submit(
                do_step, name, step.references, task_run, self._context, key=f"{name}-{task_run}"
            )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=task_run)

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Mapping[Any, Exception | None]:
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
        self._total, self._finished, self._told = total, finished, time.monotonic()
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
