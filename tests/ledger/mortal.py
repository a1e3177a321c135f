"""A process that reserves and publishes, and is killed before or after any of its steps.

A step is the answer to a statement, a commit about to be sent, a connection given back after it,
or a file about to be opened, renamed or linked in the ledger's folder.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from dpicl.ledger import Account
from tests.harness import exit_code, forked
from tests.ledger.workload import ADD, Place, cost, release, sha256

CROWDED = Account("shop", "row", ADD, epsilon_cap=1000.0)
_DATABASE_STEPS = ((Engine, "after_cursor_execute"), (Engine, "commit"), (Pool, "checkin"))
_FILE_STEPS = ("open", "os.rename", "os.link")


def _die_at(last: int, folder: Path) -> None:
    left = [last]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def file_step(name: str, arguments: tuple[Any, ...]) -> None:
        if name in _FILE_STEPS and str(folder) in str(arguments[0]):
            step()

    for target, name in _DATABASE_STEPS:
        event.listen(target, name, step)
    sys.addaudithook(file_step)


def _work(place: Place, name: str, last: int, marks: Path) -> None:
    with marks.open("w") as said:
        _die_at(last, place.folder)
        with place.ledger() as ledger:
            ledger.ensure_account(CROWDED)
            ledger.reserve(release(name))
            print("reserved", file=said, flush=True)
            ledger.publish(release(name).release_id, sha256(name))
            print("published", file=said, flush=True)
            ledger.published(release(name).release_id)


def _spend_until_killed(place: Place, name: str, marks: Path) -> None:
    with marks.open("w") as said, place.ledger() as ledger:
        for number in range(10_000):
            ledger.reserve(release(f"{name}-{number}", cost(0.125)))
            print(release(f"{name}-{number}").release_id, file=said, flush=True)


def _open(place: Place, last: int) -> None:
    _die_at(last, place.folder)
    with place.ledger():
        pass


def die_making(place: Place, last: int) -> int:
    """Open a ledger where there is none, and be killed in a step of that; gives the exit code."""
    return exit_code(forked(_open, place, last))


def die_in_step(place: Place, name: str, last: int, marks: Path) -> tuple[int, list[str]]:
    """Work on one release up to a step; gives the exit code and what the process had been told."""
    return exit_code(forked(_work, place, name, last, marks)), marks.read_text().split()


def spender(place: Place, name: str, marks: Path) -> BaseProcess:
    """A process that spends until it is killed, noting every release that it was told is
    reserved.
    """
    return forked(_spend_until_killed, place, name, marks)
