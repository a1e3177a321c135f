"""What a Prefect server watches for us: low budgets, failed checks, runs that went silent.

The first two follow events that runs send, with counts and costs and no value. The last one is the
absence of a flow run's heartbeats: such a run is marked as crashed, so that it does not hold its
place indefinitely.

Scheduled runs outlive their processes: a killed one is resumed in its own folder, under its own
flow run.

Retention on the orchestrator: flow runs of dpicl that ended long ago go, with their task runs, logs
and artifacts.

What a server's process does besides, every so often.
"""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.events.actions import ChangeFlowRunState, DoNothing, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.states import AwaitingRetry, Crashed, State

from dpicl.ground.errors import BROKEN_RULES, BudgetError, DpiclError, RunError
from dpicl.ground.files import is_free, locked
from dpicl.home.settings import Settings
from dpicl.installation.clean import DAY, clean
from flows.runtime import check_named, embedded_server, known_to_prefect
from tasks.artifacts import BUDGET_LOW, VALIDATION_FAILED

SILENT = timedelta(seconds=420)
"""Nine of our heartbeats, and two of a process that knows of Prefect's own interval only."""
PREFIX = "dpicl: "
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "AwaitingRetry", "Paused", "Suspended")
_WENT_SILENT = EventTrigger(
    match={"prefect.resource.id": "prefect.flow-run.*"},
    match_related={"prefect.resource.role": "flow", "prefect.resource.name": "sweep"},
    after={"prefect.flow-run.heartbeat"},
    expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDS)},
    for_each={"prefect.resource.id"},
    posture=Posture.Proactive,
    threshold=1,
    within=SILENT,
)
"""Once a flow run of ours has shown a heartbeat, the next one or an end must follow."""


def ensure_automations(notify: str | None) -> None:
    """Make or renew the automations on the server.

    Args:
        notify: a notification block as `type/name`, e.g. `slack-webhook/on-call`; None only shows
            what fired.

    Raises:
        RunError: the server has no such block.
    """
    block: UUID | None = None
    if notify:
        kind, _, name = notify.partition("/")
        with get_client(sync_client=True) as client:
            try:
                block = client.read_block_document_by_name(name, kind, include_secrets=False).id
            except ObjectNotFound:
                raise RunError(
                    f"notification block {notify[:80]!r}: the server has none; expected "
                    f"type/name, e.g. slack-webhook/on-call"
                ) from None

    def notice(sentence: str) -> list[SendNotification]:
        body = "{{ event.event }}\n{{ event.payload }}"
        if block:
            return [
                SendNotification(block_document_id=block, subject=f"dpicl: {sentence}", body=body)
            ]
        return []

    wanted = [
        AutomationCore(
            name=f"{PREFIX}{name}",
            description=f"Fires when {sentence}.",
            trigger=EventTrigger(
                expect={event},
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
                within=timedelta(0),
            ),
            actions=notice(sentence) or [DoNothing()],
        )
        for name, event, sentence in (
            (
                "budget low",
                BUDGET_LOW,
                "the budget will not last the schedule, or has refused a run",
            ),
            ("validation failed", VALIDATION_FAILED, "the checks of a data set failed"),
            ("run given up", GIVEN_UP, "a run failed and is not tried again"),
        )
    ]
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED, message=f"no sign of life for {SILENT.total_seconds():g} s"
    )
    silent = (
        f"Fires when a run has shown no sign of life for {SILENT.total_seconds() / 60:g} minutes, "
        f"and marks it as crashed."
    )
    actions = [crashed, *notice("a run went silent")]
    wanted.append(
        AutomationCore(
            name=f"{PREFIX}run stuck", description=silent, trigger=_WENT_SILENT, actions=actions
        )
    )
    with get_client(sync_client=True) as client:
        for automation in wanted:
            known = client.read_automations_by_name(automation.name)
            if known:
                client.update_automation(known[0].id, automation)
            else:
                client.create_automation(automation)


log = logging.getLogger("dpicl.flows")
TRIES = 8
DELAY_SECONDS = 5.0
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
    if begun:
        return (begun[0].parent.name, True)
    return (f"{pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{own}", False)


def held(flow_run: UUID, settings: Settings) -> AbstractContextManager[None]:
    """Hold a flow run's lock, which dies with the process; a second process waits, and then finds
    all done.
    """
    return locked(settings.own("locks") / str(flow_run))


@contextmanager
def held_by_hand(settings: Settings) -> Iterator[UUID | None]:
    """Hold the lock of the flow run around this call, which a command made; None without one."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        yield None
        return
    own = context.flow_run.id
    try:
        with held(own, settings):
            yield own
    finally:  # of a killed process it stays, which is how its end is seen
        (settings.home / "locks" / str(own)).unlink(missing_ok=True)


def end_killed(name: str, own: UUID, settings: Settings) -> None:
    """Mark other flow runs of this name as crashed that the server shows as running, and whose lock
    was made here and is held by no process: the one that resumes them goes on in their place.
    """
    running = FlowRunFilter.model_validate(
        {"name": {"any_": [name]}, "state": {"type": {"any_": [StateType.RUNNING]}}}
    )
    # a page that is out of date is not worth a run
    with suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        for flow_run in client.read_flow_runs(flow_run_filter=running):
            lock = settings.home / "locks" / str(flow_run.id)
            if flow_run.id != own and lock.exists() and not is_held(flow_run.id, settings):
                ended: State[Any] = Crashed(message="its process died; another run resumes it")
                client.set_flow_run_state(flow_run.id, ended, force=True)
                lock.unlink(missing_ok=True)


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


_FLOW = "sweep"
_PARAMETERS = {"pipeline", "changes", "run_id", "resume", "period"}
"""Of a flow run of ours: the name of its flow, and what it may be called with."""
_PAGE = 100
_LOGS_SECONDS = 30.0
_WAIT_SECONDS = 10.0
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
        runs = sum(link.is_run for link in removed)
        log.info(
            "cleaned: %d runs, %d leftovers, %d flow runs", runs, len(removed) - runs, flow_runs
        )


_END_SECONDS = 5.0


@contextmanager
def repeated(look: Callable[[], None], every: float) -> Iterator[None]:
    """While inside, something is done in a thread, at once and then every so many seconds; it
    handles its own errors.
    """
    stop = threading.Event()

    def work() -> None:
        while True:
            look()
            if stop.wait(every):
                return

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_END_SECONDS)
