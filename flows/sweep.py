"""The flow of a whole pipeline: every method, data set and seed of its grid."""

from __future__ import annotations

import os
from typing import Any

from prefect import flow
from prefect.task_runners import TaskRunner
from prefect_dask import DaskTaskRunner

from flows.runtime import local_cluster
from flows.wiring import run_units
from tasks.plan import make_plan


def task_runner() -> TaskRunner[Any]:
    """The cluster that DASK_SCHEDULER_ADDRESS names, else a local one for this flow run."""
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if address:
        return DaskTaskRunner(address=address)
    return DaskTaskRunner(cluster_class=local_cluster, cluster_kwargs={"workers": os.cpu_count() or 1})


@flow(name="sweep", flow_run_name="{pipeline}", task_runner=task_runner(), persist_result=False, retries=0)
def sweep(pipeline: str, changes: dict[str, Any] | None = None, run_id: str | None = None, resume: bool = False) -> str:
    """Run a pipeline of pipelines.yaml.

    Args:
        pipeline: its name.
        changes: fields that replace the file's, e.g. `{"datasets": ["blood"]}`; public values only.
        run_id: folder name; made from the pipeline and the time if None.
        resume: go on with `run_id`, doing only what is missing.

    Returns:
        The run's id.
    """
    run = make_plan(pipeline, changes or {}, run_id, resume=resume)
    run_units(str(run))
    return run.name


def on_one_dataset(pipeline: str, dataset: str, changes: dict[str, Any], run_id: str | None) -> str:
    """Run a method's pipeline on one data set, with what its flow was asked for."""
    run = make_plan(pipeline, {"datasets": [dataset], **changes}, run_id)
    run_units(str(run))
    return run.name
