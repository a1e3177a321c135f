"""Secrets, tokens and votes of methods that read texts, which last as long as their process.

Guarantee   none spent: keeps what the methods draw.
"""

from __future__ import annotations

from dpicl.pipeline import Cell
from dpicl.randomness import Draws, Stream, system_stream


class MemoryJournal:
    """A journal that lasts as long as its process."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._kept: dict[tuple[Cell, int], tuple[int, ...]] = {}
        self._keys: dict[tuple[Cell, str], bytes] = {}

    def read(self, cell: Cell, step: int) -> tuple[int, ...] | None:
        """See `Journal`."""
        return self._kept.get((cell, step))

    def keep(self, cell: Cell, step: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """See `Journal`."""
        return self._kept.setdefault((cell, step), tokens)

    def stream(self, cell: Cell, name: str) -> Stream:
        """See `Journal`."""
        if self._draws.simulated:
            return self._draws.public("journal", f"{cell.key},{name}")
        return Stream(self._keys.setdefault((cell, name), system_stream().bytes(32)), simulated=False)


class Memory:
    """Secrets and stored votes that last as long as their process."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._kept: dict[str, bytes] = {}

    def stream(self, cell: Cell, name: str) -> Stream:
        """See `Secrets`; nothing is taken up again here."""
        return self._draws.secret("journal", f"{cell.key},{name}")

    def read(self, cell: Cell, name: str) -> bytes | None:
        """See `StoredVotes`."""
        return self._kept.get(name)

    def write(self, cell: Cell, name: str, content: bytes) -> None:
        """See `StoredVotes`."""
        self._kept.setdefault(name, content)
