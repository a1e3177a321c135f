"""A stage of the engine as a retryable task of Prefect."""

from __future__ import annotations

import functools
import logging
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext

from dpicl.engine.logs import attempt
from dpicl.engine.settings import Settings
from dpicl.engine.stage import Stage
from dpicl.errors import DpiclError

RETRIES = 2
_tasks: dict[Stage, Task[..., str]] = {}
# Every other line of a run's page: the stage's own line says that it is done.
logging.getLogger("prefect.task_runs").addFilter(
    lambda record: record.getMessage() != "Finished in state Completed()"
)


def as_task(stage: Stage, work: Stage | None = None) -> Task[..., str]:
    """The stage with retries, or `work` that does more in its place; Prefect keeps references and
    one line of counts of it, no result.
    """
    done = work or stage

    @functools.wraps(done.run)
    def run(*references: Any, **options: Any) -> str:
        context = TaskRunContext.get()
        with (
            Settings.from_environment().entered(),
            attempt(None if context is None else context.task_run.run_count),
        ):
            return done.run(*references, **options)

    _tasks[stage] = task(
        name=stage.name,
        task_run_name=stage.label,
        retries=RETRIES,
        retry_delay_seconds=[1, 5],
        retry_jitter_factor=0.5,
        retry_condition_fn=_worth_retrying,
        persist_result=False,
        cache_policy=NO_CACHE,
        log_prints=False,
    )(run)
    return _tasks[stage]


def task_of(stage: Stage) -> Task[..., str]:
    """The task of a stage, made once."""
    return _tasks.get(stage) or as_task(stage)


def _worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """A broken rule stays broken; only unforeseen failures are tried again."""
    return not isinstance(state.result(raise_on_failure=False), DpiclError)
