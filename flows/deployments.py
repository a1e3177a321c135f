"""Deployments and schedules from pipelines.yaml: served by this process, or described for
`prefect deploy`.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml
from prefect import serve
from prefect.client.orchestration import get_client
from prefect.deployments.runner import EntrypointType
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.schedules import Cron
from rich.console import Console

from dpicl.ground.errors import DpiclError, LedgerRefusedError, RunError
from dpicl.ground.shutdown import SIGNALS
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import PIPELINES, SHIPPED_PIPELINES, Settings
from dpicl.release.pipelines import Pipeline, Pipelines, load_pipelines, override
from dpicl.release.releases import check_shared
from dpicl.runs.forecast import forecast, series_forecasts
from dpicl.runs.plan import charges, draft_plan
from flows.environment import DEFAULTS, SERVER
from flows.executor import description, tags_of
from flows.maintenance import cleaned_daily, ensure_automations, orphans_looked_after
from flows.runtime import check_named
from flows.tabicl import ACCOUNT_LIMIT, sweep

_HEAD = "# Made by `dpicl deploy` from pipelines.yaml; made anew, it is replaced.\n"
MAX_AT_ONCE = 2
"""Scheduled runs that one server process does beside each other; more wait their turn."""


def _own_pool(pipeline: Pipeline) -> str | None:
    """The work pool that the pipeline's schedule names; `dpicl serve` runs the others."""
    return pipeline.schedule.work_pool if pipeline.schedule else None


def _deployment(name: str, pipeline: Pipeline, settings: Settings) -> dict[str, Any]:
    """A pipeline as a deployment of the sweep, by Prefect's names: what a served one and a
    described one share.
    """
    schedule = pipeline.schedule
    changes = {"changes": dict(schedule.parameters)} if schedule and schedule.parameters else {}
    scheduled = override(pipeline, changes.get("changes", {}))
    return {
        "name": name,
        "description": description(scheduled, settings),
        "tags": tags_of(scheduled),
        "parameters": {"pipeline": name, **changes},
        "concurrency_limit": schedule.concurrency_limit if schedule else 1,
    }


def write_prefect_file(
    file: Path, pipelines: Pipelines, pool: str | None, settings: Settings
) -> int:
    """What `prefect deploy --all` reads: the same deployments, for workers of pools that have this
    package.

    Args:
        pool: of pipelines that name none; None leaves them to `dpicl serve`.
        settings: the installation that workers are told, as they start runs in folders of their
            own.

    Returns:
        How many deployments are described.

    Raises:
        RunError: the file is there and somebody else wrote it, or there is nothing to write.
    """
    if file.exists() and not file.read_text("utf-8").startswith(_HEAD):
        raise RunError(
            f"{file.name}: is there and was not written by `dpicl deploy`; expected another "
            f"--out, or no such file"
        )
    described = [
        {
            **_deployment(name, pipeline, settings),
            "entrypoint": "flows.tabicl:sweep",
            "schedules": [{"cron": pipeline.schedule.cron, "timezone": pipeline.schedule.timezone}]
            if pipeline.schedule
            else [],
            # `prefect worker` does not prepare its environment
            "work_pool": {
                "name": _own_pool(pipeline) or pool,
                "job_variables": {"env": {**DEFAULTS, **_installation(settings)}},
            },
        }
        for name, pipeline in pipelines.pipelines.items()
        if _own_pool(pipeline) or pool
    ]
    if not described:
        raise RunError(
            "no schedule names a work pool; expected --pool, or `work_pool` in a schedule of "
            "pipelines.yaml"
        )
    # none at all: else Prefect asks, or takes this host's folder
    content = {"name": "dpicl", "pull": [], "deployments": described}
    file.write_text(
        _HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=140),
        encoding="utf-8",
    )
    return len(described)


def _installation(settings: Settings) -> dict[str, str]:
    """Where this installation is, for a worker in another folder. The ledger's address may hold a
    password, which each worker is told by its own environment.
    """
    places = {
        "DPICL_HOME": settings.home,
        "DPICL_RUNS": settings.runs,
        "DPICL_PIPELINES": settings.pipelines if settings.own_pipelines else None,
        # else those that are shipped would be refused for want of a folder that is named
        "DPICL_CONTRACTS": settings.contracts if settings.contracts.is_dir() else None,
        "DPICL_DATA": settings.data,
    }
    return {name: str(path) for name, path in places.items() if path is not None}


def warn_of_own_ledgers(
    pipelines: Pipelines, pool: str | None, settings: Settings, console: Console
) -> None:
    """Say of which pipelines a pool's workers refuse the runs, since their ledger is one of this
    host alone.
    """
    for name, pipeline in pipelines.pipelines.items():
        if not (_own_pool(pipeline) or pool):
            continue
        changes = dict(pipeline.schedule.parameters) if pipeline.schedule else {}
        with suppress(DpiclError):  # shown by `prepare_server`
            datasets = override(pipeline, changes).datasets
            contracts = [settings.declared(dataset) for dataset in datasets]
            try:
                check_shared(contracts, settings)
            except LedgerRefusedError as error:
                console.print(
                    f"warning: {name}: workers of a pool refuse its runs: {error}. Set it where "
                    "this command and the workers are started.",
                    highlight=False,
                    soft_wrap=True,
                )


def serve_pipelines(settings: Settings, console: Console, notify: str | None = None) -> None:
    """Serve until interrupted; schedules that nobody serves are paused then.

    Raises:
        RunError: no Prefect server is named, it does not answer, or work pools run everything.
    """
    pipelines = prepare_server(settings, console, notify).pipelines
    own = {name: pipeline for name, pipeline in pipelines.items() if not _own_pool(pipeline)}
    if not own:
        raise RunError(
            "every pipeline names a work pool; expected `dpicl deploy` and workers of these "
            "pools, or one without"
        )
    watched = orphans_looked_after(list(own), settings)  # orphans of a pool are its workers'
    with watched, cleaned_daily(settings), _paused_at_the_end(own, console):
        served: list[Any] = [
            sweep.to_deployment(
                **_deployment(name, pipeline, settings),
                schedule=Cron(pipeline.schedule.cron, timezone=pipeline.schedule.timezone)
                if pipeline.schedule
                else None,
                # workers know the module, and not a file of that name
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
            for name, pipeline in own.items()
        ]
        # its handler of a signal calls a coroutine function as if it were none, and then exits
        warnings.filterwarnings("ignore", r"coroutine 'Runner\.astop'", RuntimeWarning)
        serve(*served, limit=MAX_AT_ONCE, pause_on_shutdown=False)


@contextmanager
def _paused_at_the_end(names: Collection[str], console: Console) -> Iterator[None]:
    """Prefect's own pausing leaves out an interrupt before its runner has started, and until then
    it listens to no other signal.
    """
    for sign in {*SIGNALS} - {signal.SIGINT}:
        if signal.getsignal(sign) is not signal.SIG_IGN:  # as a shell's background jobs do
            signal.signal(sign, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        try:
            with get_client(sync_client=True) as client:
                for name in names:
                    with suppress(ObjectNotFound):
                        client.pause_deployment(
                            client.read_deployment_by_name(f"{sweep.name}/{name}").id
                        )
        except (httpx.HTTPError, PrefectException):
            console.print(
                "The server does not answer: schedules of the pipelines are not paused, and their "
                "runs will wait as late."
            )


def prepare_server(settings: Settings, console: Console, notify: str | None) -> Pipelines:
    """Print what is scheduled and how long the budgets last; make the server's automations and
    limits.

    Raises:
        RunError: there is no pipelines.yaml here; no Prefect server is named, it does not answer,
            or lacks the notification block.
    """
    if not settings.states_pipelines:
        raise RunError(
            f"{PIPELINES}: is not in this folder, and nothing else runs by itself; expected one "
            f"here, or its path in DPICL_PIPELINES: {SHIPPED_PIPELINES} has the shipped ones"
        )
    if not os.environ.get("PREFECT_API_URL"):
        raise RunError(
            f"serve needs a Prefect server: start one with `{SERVER}` and set "
            "PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    check_named()
    pipelines = load_pipelines(settings.pipelines)
    accounts = set[str]()
    for name, pipeline in pipelines.pipelines.items():
        schedule = pipeline.schedule
        pool = f", by workers of {_own_pool(pipeline)}" if _own_pool(pipeline) else ""
        console.print(
            f"{name}: {schedule.cron if schedule else 'on demand'}{pool}", highlight=False
        )
        try:
            for line in forecast(name, pipeline, settings):
                console.print(
                    f"  {'' if line.is_enough else 'warning: '}{line.sentence}",
                    highlight=False,
                    soft_wrap=True,
                )
        # the others are served; its own runs are refused with this sentence
        except DpiclError as error:
            console.print(f"  warning: {error}", highlight=False, soft_wrap=True)
        if schedule:
            with suppress(DpiclError), open_ledger(settings) as ledger:  # shown above
                drafted = draft_plan(name, schedule.parameters, settings)
                paying = charges(ledger.trial(), drafted, settings)
                accounts |= {asks.account.name for asks in paying if not asks.account.benchmark}
    with suppress(DpiclError):  # shown above
        series, unknown = series_forecasts(settings)
        for sentence in (*(paid.sentence for paid in series), *unknown):
            console.print(sentence, highlight=False, soft_wrap=True)
    ensure_automations(notify)
    with get_client(sync_client=True) as client:
        # one run at a time for every account that scheduled pipelines spend from
        for account in sorted(accounts):
            client.upsert_global_concurrency_limit_by_name(ACCOUNT_LIMIT + account, limit=1)
    return pipelines
