"""In which queries of a session each record took part: private, written before an answer is drawn,
and never shown.

A record is here by a keyed mark. Which records there were is written at the first query, and one
that came later takes no part: changed from query to query, a row would have uses anew. A query's
takers stand before the model is asked for it, under a lock, so that of many who ask at once nobody
counts what another is about to write; asked again, after a kill too, it has the same takers.

State       private/journals/<release>/uses    members: their marks, sorted; <number>.bits: which of
            them took part in a query
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpicl.engine.files import PRIVATE_MODE, publish
from dpicl.errors import LedgerError
from dpicl.files.locks import locked
from dpicl.mechanisms.keyed_subsets import MARK_BYTES
from dpicl.mechanisms.record_filter import takes_part

_MEMBERS, _BITS = "members", ".bits"


@dataclass
class FileSpending:
    """`Spending` of one release in a folder, which is there.

    Attributes:
        most: queries that one unit takes part in.
        answered: numbers of the queries that have an answer; whose takers must be known.
    """

    account: str
    folder: Path
    most: int
    key: bytes = field(repr=False)
    answered: Callable[[], Collection[int]]
    _total: np.ndarray | int = field(default=0, repr=False)
    _read: set[int] = field(default_factory=set, repr=False)

    def admit(self, number: int, units: np.ndarray, is_near: np.ndarray) -> np.ndarray:
        """See `Spending.admit`. Raises LedgerError: what was written of earlier queries is lost or
        damaged.
        """
        own = units.astype(np.uint8).view(f"V{MARK_BYTES}").ravel()
        with locked(self.folder / ".lock"):
            numbers = {int(path.stem) for path in self.folder.glob(f"*{_BITS}")}
            if set(self.answered()) - numbers:
                raise self._broken("is lost")
            members = self._members(own, begun=bool(numbers))
            places = np.minimum(
                np.searchsorted(_ordered(members), _ordered(own)), max(len(members) - 1, 0)
            )
            was_there = members[places] == own if len(members) else np.zeros(len(own), dtype=bool)
            if number not in numbers:
                taking = np.zeros(len(members), dtype=bool)
                taking[places[was_there & is_near]] = True
                takers = takes_part(taking, self._uses(numbers, len(members)), most=self.most)
                self._write(f"{number:06d}{_BITS}", np.packbits(takers).tobytes())
            takers = self._bits(number, len(members))
        return np.asarray(is_near & was_there & (takers[places] if len(members) else False))

    def _members(self, own: np.ndarray, *, begun: bool) -> np.ndarray:
        """Marks of all units that were there at the first query, sorted."""
        path = self.folder / _MEMBERS
        if not path.exists():
            if begun:
                raise self._broken("is lost")
            self._write(_MEMBERS, np.unique(_ordered(own)).tobytes())
        content = path.read_bytes()
        if len(content) % MARK_BYTES:
            raise self._broken("is damaged")
        return np.frombuffer(content, dtype=f"V{MARK_BYTES}")

    def _uses(self, numbers: Collection[int], members: int) -> np.ndarray:
        """In how many of these queries each member took part: what was read before stays as it
        is.
        """
        for number in set(numbers) - self._read:
            self._total = self._total + self._bits(number, members)
            self._read.add(number)
        return np.zeros(members, dtype=np.int64) + self._total

    def _bits(self, number: int, members: int) -> np.ndarray:
        """Which members took part in a query: shape (members,), bool."""
        content = np.frombuffer((self.folder / f"{number:06d}{_BITS}").read_bytes(), dtype=np.uint8)
        if len(content) != (members + 7) // 8:
            raise self._broken("is damaged")
        return np.unpackbits(content, count=members).astype(bool)

    def _write(self, name: str, content: bytes) -> None:
        publish(self.folder / name, lambda file: file.write(content), mode=PRIVATE_MODE)

    def _broken(self, what: str) -> LedgerError:
        return LedgerError(
            f"{self.account}: who took part in earlier queries {what}, and nothing is answered "
            f"without it; restore private/ from a backup, "
            "or charge a release of its own by another --count"
        )


def _ordered(marks: np.ndarray) -> np.ndarray:
    """The same as texts of bytes, which have an order: a mark may end in zeros, which these leave
    out, alike on both sides.
    """
    return marks.view(f"S{MARK_BYTES}")
