"""Retention on the orchestrator: flow runs of dpicl that ended long ago go, with their task runs,
logs and artifacts.

Through the server's API, a page at a time; other flows of the same server stay. Its SQLite file
shrinks where it lies in the state folder. Events are deleted by the server itself, after a week.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.exceptions import ObjectNotFound, PrefectException

from dpicl.engine.settings import Settings
from dpicl.engine.state.clean import DAY, clean
from dpicl.errors import DpiclError
from flows.embedded_server import embedded_server, known_to_prefect
from flows.repeating import repeated
from flows.runtime import check_named

log = logging.getLogger("dpicl.flows")
_FLOW, _PARAMETERS = "sweep", {"pipeline", "changes", "run_id", "resume", "period"}
"""Of a flow run of ours: the name of its flow, and what it may be called with."""
_PAGE = 100
_LOGS_SECONDS, _WAIT_SECONDS = 30.0, 10.0
_FREE_SHARE = 0.2
"""Of a database's pages: fewer free ones are left to be used again."""


def clean_prefect(settings: Settings, keep_days: int, *, dry_run: bool = False) -> tuple[int, int]:
    """Delete flow runs that ended earlier than that: how many, and the bytes that the database in
    the state folder has shrunk by.

    The server is the one that PREFECT_API_URL names, else one that is started for it on the
    database of the state folder. Raises RunError: the server does not answer.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    if os.environ.get("PREFECT_API_URL"):
        check_named()
        count = len(delete_flow_runs(before, dry_run=dry_run))
    else:
        with embedded_server() as server, known_to_prefect():
            server.wait()
            deleted = delete_flow_runs(before, dry_run=dry_run)
            count = len(deleted)
            if not dry_run:
                _wait_for_logs(deleted)
    return count, 0 if dry_run else _shrink(settings.home / "prefect" / "prefect.db")


def delete_flow_runs(before: datetime, *, dry_run: bool) -> list[UUID]:
    """Delete ours that ended before a time; with `dry_run` only find them."""
    deleted: list[UUID] = []
    others = 0
    ended = FlowRunFilter.model_validate({"end_time": {"before_": before, "is_null_": False}})
    ours = FlowFilter(name=FlowFilterName(any_=[_FLOW]))
    with get_client(sync_client=True) as client:
        while page := client.read_flow_runs(
            flow_filter=ours, flow_run_filter=ended, limit=_PAGE, offset=others
        ):
            for run in page:
                # another flow of this name
                if not {"pipeline"} <= run.parameters.keys() <= _PARAMETERS:
                    others += 1
                    continue
                deleted.append(run.id)
                if dry_run:
                    others += 1
                else:
                    _delete_one(client, run.id)
    return deleted


def _delete_one(client: SyncPrefectClient, flow_run: UUID) -> None:
    """Artifacts first: the server deletes them with nothing else, and they are found by their
    run.
    """
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run]))
    while artifacts := client.read_artifacts(artifact_filter=of_run, limit=_PAGE):
        for artifact in artifacts:
            with suppress(ObjectNotFound):
                client.delete_artifact(artifact.id)
    with suppress(ObjectNotFound):
        client.delete_flow_run(flow_run)


def _wait_for_logs(flow_runs: list[UUID]) -> None:
    """The server deletes them after it has answered."""
    until = time.monotonic() + _LOGS_SECONDS
    with get_client(sync_client=True) as client:
        for start in range(0, len(flow_runs), _PAGE):
            of_runs = LogFilter(
                flow_run_id=LogFilterFlowRunId(any_=flow_runs[start : start + _PAGE])
            )
            while client.read_logs(log_filter=of_runs, limit=1) and time.monotonic() < until:
                time.sleep(0.2)


def _shrink(database: Path) -> int:
    """Give free pages back to the disk; 0 where there are few, or the database is busy."""
    if not database.exists():
        return 0
    before = database.stat().st_size
    with (
        suppress(sqlite3.Error),
        closing(
            sqlite3.connect(database, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as connection,
    ):
        free, pages = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("freelist_count", "page_count")
        )
        if free > _FREE_SHARE * pages:
            connection.execute("VACUUM").close()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    return max(0, before - database.stat().st_size)


def cleaned_daily(settings: Settings, *, every: float = DAY) -> AbstractContextManager[None]:
    """While inside, runs that are older than DPICL_KEEP go, at once and then every day; with
    `never` none do.
    """
    return repeated(partial(_clean_once, settings, settings.keep_days), every)


def _clean_once(settings: Settings, days: int | None) -> None:
    """The schedules go on whatever happens here."""
    try:
        removed = list(clean(settings, days))
        flow_runs = 0 if days is None else clean_prefect(settings, days)[0]
    except (DpiclError, OSError, httpx.HTTPError, PrefectException) as error:
        log.warning("cleaning: %s", type(error).__name__)
        return
    if removed or flow_runs:
        runs = sum(one.is_run for one in removed)
        log.info(
            "cleaned: %d runs, %d leftovers, %d flow runs", runs, len(removed) - runs, flow_runs
        )
