"""Deployments and schedules from pipelines.yaml: served by this process, or described for `prefect deploy`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect import serve
from prefect.client.orchestration import get_client
from prefect.deployments.runner import EntrypointType
from prefect.schedules import Cron
from rich.console import Console

from dpicl.engine.forecast import forecast
from dpicl.engine.pipelines import Pipeline, Pipelines, load_pipelines
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


@dataclass(frozen=True)
class Deployment:
    """One pipeline as a deployment of the sweep, served by `dpicl serve` or run by workers of a pool."""

    name: str
    pipeline: Pipeline

    @property
    def own_pool(self) -> str | None:
        """The work pool that the pipeline's schedule names; `dpicl serve` runs the others."""
        return self.pipeline.schedule.work_pool if self.pipeline.schedule else None

    @property
    def _shared(self) -> dict[str, Any]:
        """What a served deployment and a described one share, by Prefect's names."""
        schedule = self.pipeline.schedule
        changes = {"changes": dict(schedule.parameters)} if schedule and schedule.parameters else {}
        return {
            "name": self.name,
            "description": self.pipeline.title,
            "parameters": {"pipeline": self.name, **changes},
            "concurrency_limit": schedule.concurrency_limit if schedule else 1,
        }

    def served(self) -> Any:
        """For this process to serve; workers know the module, and not a file of that name."""
        schedule = self.pipeline.schedule
        cron = Cron(schedule.cron, timezone=schedule.timezone) if schedule else None
        return sweep.to_deployment(**self._shared, schedule=cron, entrypoint_type=EntrypointType.MODULE_PATH)

    def described(self, pool: str | None) -> dict[str, Any]:
        """For prefect.yaml: workers of its own pool, or else of this one, run it; `prefect worker` does not prepare its environment."""
        schedule = self.pipeline.schedule
        return {
            **self._shared,
            "entrypoint": "flows.sweep:sweep",
            "schedules": [{"cron": schedule.cron, "timezone": schedule.timezone}] if schedule else [],
            "work_pool": {"name": self.own_pool or pool, "job_variables": {"env": dict(DEFAULTS)}},
        }


def deployments(pipelines: Pipelines) -> list[Deployment]:
    """One per pipeline, in the file's order."""
    return [Deployment(name, pipeline) for name, pipeline in pipelines.pipelines.items()]


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
    described = [one.described(pool) for one in deployments(pipelines) if one.own_pool or pool]
    if not described:
        raise RunError("no schedule names a work pool; expected --pool, or `work_pool` in a schedule of pipelines.yaml")
    content = {"name": "dpicl", "pull": [], "deployments": described}  # none at all: else Prefect asks, or takes this host's folder
    file.write_text(_HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=140), encoding="utf-8")
    return len(described)


def serve_pipelines(settings: Settings, console: Console, notify: str | None = None) -> None:
    """Serve until interrupted.

    Raises:
        RunError: no Prefect server is named, it does not answer, or work pools run everything.
    """
    own = [one for one in deployments(prepare_server(settings, console, notify)) if not one.own_pool]
    if not own:
        raise RunError("every pipeline names a work pool; expected `dpicl deploy` and workers of these pools, or one without")
    with orphans_looked_after([one.name for one in own], settings):  # those of a pool are its workers'
        serve(*(one.served() for one in own), limit=MAX_AT_ONCE)


def prepare_server(settings: Settings, console: Console, notify: str | None) -> Pipelines:
    """Print what is scheduled and how long the budgets last; make the server's automations and limits.

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
        schedule = pipeline.schedule
        pool = f", by workers of {schedule.work_pool}" if schedule and schedule.work_pool else ""
        console.print(f"{name}: {schedule.cron if schedule else 'on demand'}{pool}", highlight=False)
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
    accounts: set[str] = set()
    scheduled = [(name, one.schedule) for name, one in pipelines.pipelines.items() if one.schedule]
    for name, schedule in scheduled:
        with suppress(DpiclError), open_ledger(settings) as ledger:  # shown above
            paying = charges(ledger, draft_plan(name, schedule.parameters, settings), settings)
            accounts |= {account.name for account, _ in paying if not account.benchmark}
    with get_client(sync_client=True) as client:
        for account in sorted(accounts):
            client.upsert_global_concurrency_limit_by_name(ACCOUNT_LIMIT + account, limit=1)
