"""Scheduled runs outlive their processes: a killed one is resumed in its own folder, under its own
flow run.

    started   a flow run of a deployment holds a lock for as long as its process lives, and names
              its folder by its own id
    killed    the runner that started the process notices, and resubmits the flow run
    failed    servers, databases and workers come back: any failure but a broken rule is retried
              after a while
    orphaned  where that runner died too, `dpicl serve` finds flow runs whose lock no process holds
    hung      a process that works longer than its schedule allows kills itself, and is a killed one

Work that is repeated costs nothing and changes nothing: releases are charged once, and a folder's
finished parts stay.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import PrefectException
from prefect.states import AwaitingRetry, State

from dpicl.engine.settings import Settings
from dpicl.errors import BROKEN_RULES, BudgetError
from dpicl.files.locks import is_free, locked
from flows.repeating import repeated
from tasks.artifacts import BUDGET_LOW

log = logging.getLogger("dpicl.flows")
TRIES, DELAY_SECONDS = 8, 5.0
"""How often a flow run may fail or be killed; the wait after a first failure, doubled after every
further one.
"""
GIVEN_UP = "dpicl.run.given-up"
"""Event: of a flow run that is not retried, with the kind of its failure."""
_LOOK_EVERY_SECONDS = 15.0
_BEGIN_SECONDS = {StateType.PENDING: 120.0, StateType.RUNNING: 10.0, StateType.CRASHED: 90.0}
"""How long a process may be in a state before it holds its lock, or its runner's hook has
resubmitted it: imports come between, or nothing does.
"""
_TOO_OLD_SECONDS = 86_400.0
_LAST_WORD_SECONDS = 5.0
"""Until a line of the log has reached the server: Prefect sends them every two."""


def scheduled_run() -> FlowRun | None:
    """The flow run around this call if a deployment made it."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    return flow_run if flow_run and flow_run.deployment_id else None


def folder_name(pipeline: str, flow_run: FlowRun, settings: Settings) -> tuple[str, bool]:
    """The folder of a scheduled run, and whether it was begun before."""
    own = flow_run.id.hex[-12:]  # the first digits are a time, which runs may share
    begun = sorted(settings.runs.glob(f"{pipeline}-*-{own}/plan.json"))
    return (
        (begun[0].parent.name, True)
        if begun
        else (f"{pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{own}", False)
    )


def held(flow_run: UUID, settings: Settings) -> AbstractContextManager[None]:
    """Hold a flow run's lock, which dies with the process; a second process waits, and then finds
    all done.
    """
    return locked(settings.own("locks") / str(flow_run))


def is_held(flow_run: UUID, settings: Settings) -> bool:
    """Whether a process works on a flow run."""
    return not is_free(settings.home / "locks" / str(flow_run))


@contextmanager
def killed_after(hours: float | None) -> Iterator[None]:
    """Inside, a process that has not come to the end by then kills itself: it may hang where no
    exception reaches it.
    """

    def kill_own_process() -> None:
        log.error(
            "it worked longer than its schedule's timeout_hours, %g: its process is killed, and "
            "it is resumed where it stopped",
            hours,
        )
        time.sleep(_LAST_WORD_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    timer = threading.Timer((hours or 0) * 3600, copy_context().run, [kill_own_process])
    timer.daemon = True
    if hours is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def resubmit(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """A runner's hook for a flow run whose process died: it is resubmitted, a few times."""
    del flow, state  # a hook's arguments have names
    _schedule(flow_run, "its process died; resumed where it stopped", delays=False)


def resubmit_later(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """A flow's hook after a failure: unless a rule is broken, which stays so, it is resubmitted
    later, a few times.
    """
    del flow
    error = state.result(raise_on_failure=False)
    if isinstance(error, BudgetError):
        _emit(BUDGET_LOW, flow_run, {"refusal": str(error)})
    if isinstance(error, BROKEN_RULES):
        _emit(GIVEN_UP, flow_run, {"failure": type(error).__name__})
    else:
        _schedule(flow_run, f"{type(error).__name__}; retried", delays=True)


def _schedule(flow_run: FlowRun, message: str, *, delays: bool) -> None:
    settings = Settings.from_environment()
    # another process was faster
    if flow_run.deployment_id is None or is_held(flow_run.id, settings):
        return
    tries = _count(flow_run.id, settings)
    if tries >= TRIES:
        log.error("%s: was resubmitted %d times; it is left as it is", flow_run.name, tries - 1)
        _emit(GIVEN_UP, flow_run, {"failure": message.partition(";")[0]})
        return
    due = datetime.now(UTC) + timedelta(
        seconds=DELAY_SECONDS * 2**tries if delays or tries > 1 else 0
    )
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(
            flow_run.id, AwaitingRetry(scheduled_time=due, message=message), force=True
        )


def _count(flow_run: UUID, settings: Settings) -> int:
    """Count one more submission of a flow run, and return the total. The server counts only those
    that came to run.
    """
    with (settings.own("locks") / str(flow_run)).open("a") as file:
        file.write("+")
        return file.tell()


def _emit(event: str, flow_run: FlowRun, payload: dict[str, Any]) -> None:
    """Emit an event of a flow run that a deployment made; one that was started by hand shows its
    failure itself.
    """
    if flow_run.deployment_id is not None:
        emit_event(
            event, {"prefect.resource.id": f"prefect.flow-run.{flow_run.id}"}, payload=payload
        )


def find_orphans(deployments: Sequence[str], settings: Settings) -> list[FlowRun]:
    """Flow runs of these deployments that began here, that the server shows as running or crashed,
    and whose lock no process holds.
    """
    running = FlowRunFilter.model_validate({"state": {"type": {"any_": list(_BEGIN_SECONDS)}}})
    named = DeploymentFilter(name=DeploymentFilterName(any_=list(deployments)))
    ours = FlowFilter(name=FlowFilterName(any_=["sweep"]))
    with get_client(sync_client=True) as client:
        flow_runs = client.read_flow_runs(
            flow_filter=ours, flow_run_filter=running, deployment_filter=named, limit=200
        )
    return [run for run in flow_runs if _is_orphan(run, settings)]


def _is_orphan(flow_run: FlowRun, settings: Settings) -> bool:
    state = flow_run.state
    if (
        state is None
        or not _BEGIN_SECONDS[state.type]
        <= (datetime.now(UTC) - state.timestamp).total_seconds()
        <= _TOO_OLD_SECONDS
    ):
        return False
    lock = settings.home / "locks" / str(flow_run.id)
    if not lock.exists():  # another installation's, or not begun
        return state.type == StateType.PENDING
    return lock.stat().st_size < TRIES and not is_held(flow_run.id, settings)


@contextmanager
def orphans_looked_after(deployments: Sequence[str], settings: Settings) -> Iterator[None]:
    """While inside, orphaned flow runs are resubmitted, at once and then every few seconds."""

    def look() -> None:
        try:
            for run in find_orphans(deployments, settings):
                log.warning("%s: no process works on it; resubmitted", run.name)
                _schedule(run, "no process works on it; resumed where it stopped", delays=False)
        except (httpx.HTTPError, PrefectException) as error:  # the server may be away for a while
            log.warning("looking for orphaned runs: %s", type(error).__name__)

    with repeated(look, _LOOK_EVERY_SECONDS):
        yield
