"""Deployments and schedules from pipelines.yaml."""

from __future__ import annotations

import os
from typing import Any

from prefect import serve
from prefect.schedules import Cron
from rich.console import Console

from dpicl.errors import RunError
from dpicl.pipeline import Pipelines, load_pipelines
from flows.runtime import check_named
from flows.sweep import sweep
from tasks.settings import Settings


def deployments(pipelines: Pipelines) -> list[Any]:
    """One deployment of the sweep per pipeline, scheduled where the file says so."""
    return [
        sweep.to_deployment(
            name=name,
            parameters={"pipeline": name},
            schedule=Cron(pipeline.schedule.cron, timezone=pipeline.schedule.timezone) if pipeline.schedule else None,
            description=pipeline.title,
            concurrency_limit=1,
        )
        for name, pipeline in pipelines.pipelines.items()
    ]


def serve_pipelines(settings: Settings, console: Console) -> None:
    """Serve until interrupted.

    Raises:
        RunError: no Prefect server is named, or it does not answer.
    """
    if not os.environ.get("PREFECT_API_URL"):
        raise RunError(
            "serve needs a Prefect server: start one with `prefect server start` and set PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    check_named()
    pipelines = load_pipelines(settings.pipelines)
    for name, pipeline in pipelines.pipelines.items():
        console.print(f"{name}: {pipeline.schedule.cron if pipeline.schedule else 'on demand'}", highlight=False)
    serve(*deployments(pipelines))
