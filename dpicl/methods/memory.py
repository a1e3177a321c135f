"""Secrets, tokens and votes of methods that read texts, which last as long as their process.

Guarantee   none spent: keeps what the methods draw.
"""

from __future__ import annotations

from typing import Any, Protocol

from dpicl.pipeline import Cell
from dpicl.randomness import Draws, Stream, system_stream


class Secrets(Protocol):
    """Secret randomness of a release."""

    def stream(self, cell: Cell, name: str) -> Stream:
        """For one purpose of one cell: the same whenever it is taken up again, so that nothing is
        drawn twice.
        """
        ...


class StoredVotes(Protocol):
    """Clean votes, and where texts lie, that survive a lost worker: of two that store the same the
    first stands.
    """

    def read(self, cell: Cell, name: str) -> bytes | None:
        """What is stored for a cell under this name."""
        ...

    def write(self, cell: Cell, name: str, content: bytes) -> None:
        """Store it, unless there is something already."""
        ...


class Memory:
    """A `Journal`, `Secrets` and `StoredVotes` that last as long as their process."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._kept: dict[tuple[Cell, int | str], Any] = {}
        self._keys: dict[tuple[Cell, str], bytes] = {}

    def read(self, cell: Cell, place: int | str) -> Any:
        """What was kept of a step, or under a name."""
        return self._kept.get((cell, place))

    def keep(self, cell: Cell, place: int | str, content: Any) -> Any:
        """Of two that keep the same the first stands, and is given."""
        return self._kept.setdefault((cell, place), content)

    write = keep

    def stream(self, cell: Cell, name: str) -> Stream:
        """See `Secrets`."""
        if self._draws.simulated:
            return self._draws.public("journal", f"{cell.key},{name}")
        return Stream(
            self._keys.setdefault((cell, name), system_stream().bytes(32)), simulated=False
        )
