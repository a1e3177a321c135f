"""A client's memory: which report it gave to which collection. Asked again it gives the same, and spends nothing.

A fresh draw for every question would wear the noise off. So a report is durable before it is
sent, the first one stands, and a record that has changed meanwhile still gets the old one: a
new answer would tell of the change. All collections in one memory add up to no more than the cap.

State       one file, mode 0600, of JSON lines: a collection with its cost, or a report with a hash of whose it is
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpicl.client.reports import Report
from dpicl.errors import BudgetError, DataError
from dpicl.files.durable import sync_folder

_BEGINNING = b'{"collection": "'


class Memory:
    """The reports of one data holder's clients, by collection."""

    def __init__(self, lines: list[dict[str, Any]], file: int) -> None:
        self._file = file
        self._costs = {str(line["collection"]): float(line["epsilon"]) for line in lines if "epsilon" in line}
        self._reports: dict[tuple[str, str], Report] = {
            (line["collection"], line["who"]): line["report"] for line in lines if "report" in line
        }

    @property
    def spent(self) -> float:
        """What all collections cost a client who answered each."""
        return math.fsum(self._costs.values())

    def join(self, collection: str, epsilon: float, cap: float) -> None:
        """Take part in a collection.

        Raises:
            BudgetError: with those before it would cost a client more than the cap.
        """
        if collection in self._costs:
            return
        if self.spent + epsilon > cap * (1 + 1e-12):
            raise BudgetError(f"clients: another collection asks epsilon={epsilon:.6g}, and {self.spent:.6g} of cap {cap:.6g} is spent")
        self._write({"collection": collection, "epsilon": epsilon})
        self._costs[collection] = epsilon

    def report(self, collection: str, who: str, draw: Callable[[], Report]) -> Report:
        """What this client has reported to this collection; drawn and kept now if nothing was."""
        key = (collection, who)
        if key not in self._reports:
            self._reports[key] = drawn = draw()
            self._write({"collection": collection, "who": who, "report": drawn})
        return self._reports[key]

    def keep(self) -> None:
        """Make everything durable: before the first report leaves."""
        os.fsync(self._file)

    def _write(self, line: dict[str, object]) -> None:
        content = (json.dumps(line) + "\n").encode()
        if os.write(self._file, content) < len(content):  # what is broken off here must not be sent
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def open_memory(path: Path) -> Iterator[Memory]:
    """The memory in this file, made if it is not there; others wait until it is closed.

    Raises:
        DataError: the file is no memory.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_new:
            sync_folder(path.parent)
        yield Memory(_whole_lines(path, file), file)
    finally:
        os.close(file)


def _whole_lines(path: Path, file: int) -> list[dict[str, Any]]:
    """All lines but one that a killed process broke off: it was never sent, and is cut away."""
    content = path.read_bytes()
    whole, broken_off = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        if not all(line["collection"] and float(line.get("epsilon", 0)) >= 0 for line in lines) or not (
            _BEGINNING.startswith(broken_off) or broken_off.startswith(_BEGINNING)
        ):
            raise ValueError
        os.ftruncate(file, len(whole))
        return lines
    except (ValueError, TypeError, KeyError):
        raise DataError(path.name, "is no memory of reports; expected one that this client wrote, or a new name") from None
