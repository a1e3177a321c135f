"""Deployments and schedules from pipelines.yaml: served by this process, or described for `prefect deploy`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from prefect import serve
from prefect.client.orchestration import get_client
from prefect.deployments.runner import EntrypointType
from prefect.schedules import Cron
from rich.console import Console

from dpicl.errors import DpiclError, RunError
from dpicl.pipeline import Pipelines, load_pipelines
from flows.automations import ensure_automations
from flows.environment import DEFAULTS
from flows.recovery import orphans_looked_after
from flows.runtime import check_named
from flows.sweep import ACCOUNT_LIMIT, sweep
from tasks.forecast import forecast
from tasks.plan import draft_plan
from tasks.quote import charges
from tasks.settings import Settings

_HEAD = "# Made by `dpicl deploy` from pipelines.yaml; made anew, it is replaced.\n"
MAX_AT_ONCE = 2
"""Scheduled runs that one server process does beside each other; more wait their turn."""


def deployments(pipelines: Pipelines) -> list[Any]:
    """One deployment of the sweep per pipeline, scheduled where the file says so."""
    return [
        sweep.to_deployment(
            name=name,
            parameters={"pipeline": name},
            schedule=Cron(pipeline.schedule.cron, timezone=pipeline.schedule.timezone) if pipeline.schedule else None,
            description=pipeline.title,
            concurrency_limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,  # workers know the module, and not a file of that name
        )
        for name, pipeline in pipelines.pipelines.items()
    ]


def write_prefect_file(file: Path, pipelines: Pipelines, pool: str) -> None:
    """What `prefect deploy --all` reads: the same deployments, for workers of a pool that have this package.

    Raises:
        RunError: the file is there and somebody else wrote it.
    """
    if file.exists() and not file.read_text("utf-8").startswith(_HEAD):
        raise RunError(f"{file.name}: is there and was not written by `dpicl deploy`; expected another --out, or no such file")
    described = [
        {
            "name": name,
            "description": pipeline.title,
            "entrypoint": "flows.sweep:sweep",
            "parameters": {"pipeline": name},
            "schedules": [{"cron": pipeline.schedule.cron, "timezone": pipeline.schedule.timezone}] if pipeline.schedule else [],
            "concurrency_limit": 1,
            "work_pool": {"name": pool, "job_variables": {"env": dict(DEFAULTS)}},  # `prefect worker` does not prepare its environment
        }
        for name, pipeline in pipelines.pipelines.items()
    ]
    content = {"name": "dpicl", "pull": [], "deployments": described}  # none at all: else Prefect asks, or takes this host's folder
    file.write_text(_HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=140), encoding="utf-8")


def serve_pipelines(settings: Settings, console: Console, notify: str | None = None) -> None:
    """Serve until interrupted.

    Raises:
        RunError: no Prefect server is named, or it does not answer.
    """
    pipelines = prepare_server(settings, console, notify)
    with orphans_looked_after(list(pipelines.pipelines), settings):
        serve(*deployments(pipelines), limit=MAX_AT_ONCE)


def prepare_server(settings: Settings, console: Console, notify: str | None) -> Pipelines:
    """Tell what is scheduled and how long the budgets last; make the server's automations and limits.

    Raises:
        RunError: no Prefect server is named, it does not answer, or lacks the notification block.
    """
    if not os.environ.get("PREFECT_API_URL"):
        raise RunError(
            "serve needs a Prefect server: start one with `prefect server start` and set PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    check_named()
    pipelines = load_pipelines(settings.pipelines)
    for name, pipeline in pipelines.pipelines.items():
        console.print(f"{name}: {pipeline.schedule.cron if pipeline.schedule else 'on demand'}", highlight=False)
        try:
            for line in forecast(name, pipeline, settings):
                console.print(f"  {'' if line.is_enough else 'warning: '}{line.sentence}", highlight=False, soft_wrap=True)
        except DpiclError as error:  # the others are served; its own runs are refused with this sentence
            console.print(f"  warning: {error}", highlight=False, soft_wrap=True)
    ensure_automations(notify)
    _limit_accounts(pipelines, settings)
    return pipelines


def _limit_accounts(pipelines: Pipelines, settings: Settings) -> None:
    """One run at a time for every account that scheduled pipelines spend from."""
    found: set[str] = set()
    for name, pipeline in pipelines.pipelines.items():
        with suppress(DpiclError):  # told above
            found |= _accounts(name, settings) if pipeline.schedule else set()
    with get_client(sync_client=True) as client:
        for account in sorted(found):
            client.upsert_global_concurrency_limit_by_name(ACCOUNT_LIMIT + account, limit=1)


def _accounts(name: str, settings: Settings) -> set[str]:
    plan = draft_plan(name, {}, settings)
    return {account.name for account, _ in charges(plan.units.values(), settings, plan.writing_model) if not account.benchmark}
