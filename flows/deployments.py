"""Deployments and schedules from pipelines.yaml: served by this process, or described for `prefect deploy`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from prefect import serve
from prefect.client.orchestration import get_client
from prefect.deployments.runner import EntrypointType
from prefect.schedules import Cron
from rich.console import Console

from dpicl.engine.forecast import forecast
from dpicl.engine.pipelines import Pipeline, Pipelines, Schedule, load_pipelines
from dpicl.engine.plan import draft_plan
from dpicl.engine.quote import charges
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, RunError
from flows.automations import ensure_automations
from flows.environment import DEFAULTS
from flows.recovery import orphans_looked_after
from flows.runtime import check_named
from flows.sweep import ACCOUNT_LIMIT, sweep

_HEAD = "# Made by `dpicl deploy` from pipelines.yaml; made anew, it is replaced.\n"
MAX_AT_ONCE = 2
"""Scheduled runs that one server process does beside each other; more wait their turn."""


def served(pipelines: Pipelines) -> dict[str, Pipeline]:
    """Pipelines that `dpicl serve` runs: the others name a work pool."""
    return {name: pipeline for name, pipeline in pipelines.pipelines.items() if not (pipeline.schedule and pipeline.schedule.work_pool)}


def deployments(pipelines: Mapping[str, Pipeline]) -> list[Any]:
    """One deployment of the sweep per pipeline, scheduled where the file says so."""
    return [
        sweep.to_deployment(
            name=name,
            parameters=_parameters(name, pipeline),
            schedule=Cron(pipeline.schedule.cron, timezone=pipeline.schedule.timezone) if pipeline.schedule else None,
            description=pipeline.title,
            concurrency_limit=_at_once(pipeline),
            entrypoint_type=EntrypointType.MODULE_PATH,  # workers know the module, and not a file of that name
        )
        for name, pipeline in pipelines.items()
    ]


def _parameters(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """What the sweep is called with, however a run of the deployment is started."""
    changes = dict(pipeline.schedule.parameters) if pipeline.schedule else {}
    return {"pipeline": name, **({"changes": changes} if changes else {})}


def _at_once(pipeline: Pipeline) -> int:
    return pipeline.schedule.concurrency_limit if pipeline.schedule else 1


def write_prefect_file(file: Path, pipelines: Pipelines, pool: str | None) -> int:
    """What `prefect deploy --all` reads: the same deployments, for workers of pools that have this package.

    Args:
        pool: of pipelines that name none; None leaves them to `dpicl serve`.

    Returns:
        How many deployments are described.

    Raises:
        RunError: the file is there and somebody else wrote it, or there is nothing to write.
    """
    if file.exists() and not file.read_text("utf-8").startswith(_HEAD):
        raise RunError(f"{file.name}: is there and was not written by `dpicl deploy`; expected another --out, or no such file")
    kept = served(pipelines) if pool is None else {}
    described = [_described(name, pipeline, pool) for name, pipeline in pipelines.pipelines.items() if name not in kept]
    if not described:
        raise RunError("no schedule names a work pool; expected --pool, or `work_pool` in a schedule of pipelines.yaml")
    content = {"name": "dpicl", "pull": [], "deployments": described}  # none at all: else Prefect asks, or takes this host's folder
    file.write_text(_HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=140), encoding="utf-8")
    return len(described)


def _described(name: str, pipeline: Pipeline, pool: str | None) -> dict[str, Any]:
    schedule = pipeline.schedule
    own_pool = schedule.work_pool if schedule else None
    environment = {"env": dict(DEFAULTS)}  # `prefect worker` does not prepare its own
    return {
        "name": name,
        "description": pipeline.title,
        "entrypoint": "flows.sweep:sweep",
        "parameters": _parameters(name, pipeline),
        "schedules": [{"cron": schedule.cron, "timezone": schedule.timezone}] if schedule else [],
        "concurrency_limit": _at_once(pipeline),
        "work_pool": {"name": own_pool or pool, "job_variables": environment},
    }


def serve_pipelines(settings: Settings, console: Console, notify: str | None = None) -> None:
    """Serve until interrupted.

    Raises:
        RunError: no Prefect server is named, it does not answer, or work pools run everything.
    """
    own = served(prepare_server(settings, console, notify))
    if not own:
        raise RunError("every pipeline names a work pool; expected `dpicl deploy` and workers of these pools, or one without")
    with orphans_looked_after(list(own), settings):  # those of a pool are its workers'
        serve(*deployments(own), limit=MAX_AT_ONCE)


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
        console.print(f"{name}: {_when_and_where(pipeline.schedule)}", highlight=False)
        try:
            for line in forecast(name, pipeline, settings):
                console.print(f"  {'' if line.is_enough else 'warning: '}{line.sentence}", highlight=False, soft_wrap=True)
        except DpiclError as error:  # the others are served; its own runs are refused with this sentence
            console.print(f"  warning: {error}", highlight=False, soft_wrap=True)
    ensure_automations(notify)
    _limit_accounts(pipelines, settings)
    return pipelines


def _when_and_where(schedule: Schedule | None) -> str:
    if schedule is None:
        return "on demand"
    return f"{schedule.cron}, by workers of {schedule.work_pool}" if schedule.work_pool else schedule.cron


def _limit_accounts(pipelines: Pipelines, settings: Settings) -> None:
    """One run at a time for every account that scheduled pipelines spend from."""
    found: set[str] = set()
    for name, pipeline in pipelines.pipelines.items():
        with suppress(DpiclError):  # told above
            found |= _accounts(name, pipeline.schedule, settings) if pipeline.schedule else set()
    with get_client(sync_client=True) as client:
        for account in sorted(found):
            client.upsert_global_concurrency_limit_by_name(ACCOUNT_LIMIT + account, limit=1)


def _accounts(name: str, schedule: Schedule, settings: Settings) -> set[str]:
    plan = draft_plan(name, schedule.parameters, settings)
    with open_ledger(settings) as ledger:
        return {account.name for account, _ in charges(ledger, plan, settings) if not account.benchmark}
