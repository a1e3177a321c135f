"""Who else is told that a run starts, completes or fails: observers of the entry-point group
`dpicl.observers`, each of which is on where an environment variable of its name is set.

    [project.entry-points."dpicl.observers"]
    OPENLINEAGE_URL = "dpicl.observers.openlineage:observe"

An observer is a function of a run's events: the first as it starts, the second at its end; a run
that is killed has no second one. It works beside the run, whose end waits for it `SECONDS` at most,
and what it fails with is one warning. It sees `RunEvent`s alone, and whatever it sends of them is
on the list of what leaves.

Guarantee   none spent: names of the plan, certificates of what was charged and published, and rows
            of results.csv.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal
from uuid import UUID, uuid4

from dpicl.contract import Contract
from dpicl.ground.errors import DpiclError
from dpicl.ground.installed import contributed, extra_of
from dpicl.ground.nouns import twelve_digits
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release.certificate import Certificate
from dpicl.release.certificate_issue import certify
from dpicl.runs.draw import asked_of, facts_of
from dpicl.runs.results import results_of
from dpicl.runs.run_folder import open_unit, read_plan

log = logging.getLogger("dpicl.runs")
GROUP = "dpicl.observers"
SECONDS = 15.0
"""That all observers together may hold back the end of a run."""
State = Literal["START", "COMPLETE", "FAIL"]


@dataclass(frozen=True)
class RunEvent:
    """What an observer sees of a run. The run's own name, hosts, users and addresses of rows are
    not in it.
    """

    state: State
    time: datetime
    sitting: UUID
    """Drawn at random, of both events."""
    pipeline: str
    datasets: tuple[str, ...]
    """Names of contracts."""
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """{contract of a table: {column: its type}}, as the contract states them."""
    certificates: tuple[Certificate, ...] = ()
    """At the end: of all that is published of the run."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """At the end: {account that these were charged to: what it has spent by then}, which is more
    than a certificate says of an earlier charge.
    """
    results: tuple[Mapping[str, Any], ...] = ()
    """At the end: rows of results.csv."""


Observe = Callable[[Iterator[RunEvent]], None]


class _Observer(Thread):
    """One of them, in a thread that nobody has to wait for."""

    def __init__(self, point: EntryPoint, run: Path) -> None:
        # under the caller's settings
        super().__init__(target=copy_context().run, args=(self._observe,), daemon=True)
        self._point = point
        self._run = run
        self.ended = SimpleQueue[State]()

    def _observe(self) -> None:
        try:
            observe: Observe = self._point.load()
            observe(self._events())
        except Exception as error:  # noqa: BLE001 - the run goes on without it
            missing = extra_of(error) if isinstance(error, ImportError) else None
            # a message may hold an address with its secret
            self.warn(missing or f"it failed with {type(error).__name__}")

    def _events(self) -> Iterator[RunEvent]:
        plan = read_plan(self._run)
        grid = plan.pipeline
        start = RunEvent(
            "START",
            datetime.now(UTC),
            uuid4(),
            plan.pipeline_name,
            grid.datasets,
            grid.methods,
            grid.epsilons,
            _columns(grid.datasets),
        )
        yield start
        state = self.ended.get()
        certificates = tuple(_certificates(self._run, plan.units))
        yield replace(
            start,
            state=state,
            time=datetime.now(UTC),
            certificates=certificates,
            spent=_spent({one.accounting.account for one in certificates}),
            results=tuple(results_of(self._run, plan.units)),
        )

    def warn(self, reason: str) -> None:
        """That it is told no more."""
        log.warning("%s: this run is not reported there: %s", self._point.name, reason)


@contextmanager
def observed(run: Path) -> Iterator[None]:
    """Inside, a run that observers are told of."""
    points = [point for point in contributed(GROUP) if os.environ.get(point.name)]
    observers = [_Observer(point, run) for point in points]
    for observer in observers:
        observer.start()
    state: State | None = None
    try:
        yield
        state = "COMPLETE"
    except Exception:
        state = "FAIL"
        raise
    finally:
        if state is not None:  # else it was stopped, and waits for nobody
            for observer in observers:
                observer.ended.put(state)
            until = time.monotonic() + SECONDS
            for observer in observers:
                observer.join(max(0.0, until - time.monotonic()))
                if observer.is_alive():
                    observer.warn(f"no answer within {SECONDS:g} s")


def _columns(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Of texts, which have fields that nobody types, there are none."""
    settings = Settings.current()
    contracts = {name: settings.declared(name) for name in names}
    return {
        name: {column: stated.type for column, stated in contract.columns.items()}
        for name, contract in contracts.items()
        if isinstance(contract, Contract)
    }


def _spent(accounts: Collection[str]) -> dict[str, float]:
    if not accounts:
        return {}
    with open_ledger(Settings.current()) as ledger:
        return {name: twelve_digits(ledger.spent(name).epsilon) for name in accounts}


def _certificates(run: Path, units: Iterable[str]) -> Iterator[Certificate]:
    """Of what is published: of clients' reports, whose cost is their own, there are none."""
    for key in units:
        folder = open_unit(str(run), key)
        # queries that name its releases are gone once a run has ended
        with suppress(DpiclError, OSError):
            facts = facts_of(folder)
            for point in asked_of(folder):
                with suppress(DpiclError):  # not published
                    yield certify(
                        folder.declared, folder.unit.method, point, folder.settings, facts
                    )
