"""How long a run has been worked on, in all its sittings, and what it may still begin: of a
pipeline with `within_hours`.

Guarantee   none spent, as it is of benchmarks alone: time may go by private rows, and must not
            decide whether they are released.

runs/<run_id>/running.json      seconds so far, and what has begun
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpicl.engine.files import read_json, write_json
from dpicl.engine.run_folder import Plan
from dpicl.engine.settings import Settings
from dpicl.errors import PrivacyError

RUNNING = "running.json"
_KEPT_EVERY = 10.0
"""Seconds, which are what a kill loses of the time at most."""
ALL = "all"


def check_within(plan: Plan, settings: Settings) -> None:
    """Only benchmarks may be left out for lack of time. Raises PrivacyError: a contract is of
    private rows.
    """
    private = [
        name
        for name in plan.pipeline.datasets
        if not settings.declared(name).privacy.budget.benchmark
    ]
    if plan.pipeline.within_hours is not None and private:
        raise PrivacyError(
            f"{private[0]}: within_hours would let time decide whether its rows are released; "
            f"expected no such key, or contracts with "
            "`benchmark: true` alone"
        )


def begun_together(plan: Plan, keys: Iterable[str]) -> dict[str, list[str]]:
    """Units by what they begin as, in the plan's order: a seed of a data set; all at once where
    time is no matter.
    """
    together: dict[str, list[str]] = {}
    units = plan.units
    for key in keys:
        unit = units[key]
        together.setdefault(
            ALL if plan.pipeline.within_hours is None else f"seed {unit.seed} of {unit.dataset}", []
        ).append(key)
    return together


def not_run(run: Path, plan: Plan) -> dict[str, list[str]]:
    """What `begun_together` has and time left no room for: nothing before it is over."""
    seconds, begun = _stored(run)
    if plan.pipeline.within_hours is None or seconds < plan.pipeline.within_hours * 3600:
        return {}
    return {
        name: keys for name, keys in begun_together(plan, plan.units).items() if name not in begun
    }


@contextmanager
def running(run: Path, plan: Plan, settings: Settings) -> Iterator[Callable[[str], bool]]:
    """Inside, time counts; gives whether what is called so may begin: what has begun before may,
    and others while there is time. Raises PrivacyError: a contract is of private rows.
    """
    hours = plan.pipeline.within_hours
    if hours is None:
        yield lambda name: True
        return
    check_within(plan, settings)
    (before, begun), since, ended, one = (
        _stored(run),
        time.monotonic(),
        threading.Event(),
        threading.Lock(),
    )

    def keep() -> None:
        with one, suppress(OSError):  # of a full disk a stage tells
            write_json(
                run / RUNNING,
                {"seconds": before + time.monotonic() - since, "begun": begun},
                replace=True,
            )

    def may_begin(name: str) -> bool:
        if name not in begun and before + time.monotonic() - since < hours * 3600:
            begun.append(name)
        keep()
        return name in begun

    def go_on() -> None:
        while not ended.wait(_KEPT_EVERY):
            keep()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield may_begin
    finally:
        ended.set()
        thread.join()
        keep()


def _stored(run: Path) -> tuple[float, list[str]]:
    if not (run / RUNNING).exists():
        return 0.0, []
    stored = read_json(run / RUNNING)
    return float(stored["seconds"]), list(stored["begun"])
