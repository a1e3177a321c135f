"""What is stored of a release while a model reads private texts for it, so that a killed worker
goes on: tokens, clean votes, and in which queries each record took part.

Tokens: a seed and one small file per token; the first of each stands. Twins of a release write one
text together: all secret draws come from the release's own seed, so that a second draw is the same,
but for rounding where texts of a block share a stream; it is never published beside the first. What
is stored was selected under noise and is charged; journal and seed are deleted when the release is
published. They belong to one state of the rows: where the rows have changed, another journal is
begun, as the same randomness on two tables would compare them.

Uses: a record is here by a keyed mark. Which records there were is written at the first query, and
one that came later takes no part: changed from query to query, a row would have uses anew. A
query's takers are written before the model is asked for it, under a lock, so that of many who ask
at once nobody counts what another is about to write; asked again, after a kill too, it has the same
takers.

State       private/journals/<release>/<version of the rows>    seed and tokens, and encrypted votes
            private/journals/<release>/uses    members: marks of records, sorted; <number>.bits:
            which of them took part in a query
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpicl.ground.errors import LedgerError
from dpicl.ground.files import PRIVATE_MODE, locked, publish
from dpicl.ground.randomness import Draws, Stream, system_stream
from dpicl.home.sealed import SnapshotPlace
from dpicl.home.settings import Settings
from dpicl.ledger import load_key
from dpicl.ledger.keys import KEY_BYTES, keyed_hash
from dpicl.mechanisms.keyed_subsets import MARK_BYTES
from dpicl.mechanisms.record_filter import takes_part

SEED = "seed"
LIFETIME_SECONDS = 7 * 24 * 3600.0
"""Of clean votes of a release that was not resumed."""


@dataclass(frozen=True)
class FileJournal:
    """Tokens and secret draws by release; `names` has the release of every point's key."""

    settings: Settings
    names: Mapping[str, str]
    draws: Draws
    rows: str
    """Keyed name of the state of the rows that are drawn from."""
    _seeds: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """By key, as they were read: there is a draw for every token of every text."""

    def read(self, key: str, step: int) -> tuple[int, ...] | None:
        """The tokens of a step, one per text; None where it has not been taken."""
        with suppress(FileNotFoundError):
            return tuple(json.loads(self._path(key, step).read_text()))
        return None

    def keep(self, key: str, step: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Keep the tokens of a step, and give those that stand.

        Where a twin's release was published meanwhile the journal is gone: what is drawn here will
        not be published.
        """
        publish(self._path(key, step), json.dumps(tokens).encode(), mode=PRIVATE_MODE)
        return self.read(key, step) or tokens

    def stream(self, key: str, name: str) -> Stream:
        """Secret randomness for one purpose: the same whenever this release is resumed, and lost
        once it is published.
        """
        if self.draws.simulated:
            return self.draws.public("journal", f"{key},{name}")
        seed = self._folder(key) / SEED
        if key not in self._seeds or not seed.exists():  # what was forgotten is forgotten here too
            if not seed.exists():
                publish(seed, system_stream().bytes(KEY_BYTES), mode=PRIVATE_MODE)
            self._seeds[key] = seed.read_bytes()
        return Stream(bytes.fromhex(keyed_hash(self._seeds[key], "journal", name)), simulated=False)

    def _path(self, key: str, step: int) -> Path:
        return self._folder(key) / f"{step:04d}.json"

    def _folder(self, key: str) -> Path:
        return _folder(self.settings, self.names[key], self.rows)


def forget(settings: Settings, release: str) -> None:
    """Delete the journal of a published release: as a whole, so that no process goes on with a part
    of it.
    """
    folder = _folder(settings, release)
    gone = folder.with_name(f".{release}.{os.getpid()}")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def votes_folder(settings: Settings, release: str, rows: str) -> Path:
    """Where clean votes of a release on one state of the rows are stored, encrypted; they are
    deleted with its journal.
    """
    return _folder(settings, release, rows, "votes")


def _folder(settings: Settings, release: str, *below: str) -> Path:
    return settings.private("journals", release, *below)


@dataclass(frozen=True)
class KeptVotes:
    """Clean votes, encrypted, in a folder for every release, by the key of its point."""

    places: Mapping[str, SnapshotPlace]

    @staticmethod
    def of(settings: Settings, folders: Mapping[str, Path]) -> KeptVotes:
        """In these folders."""
        return KeptVotes(
            {key: SnapshotPlace(folder, _key(settings)) for key, folder in folders.items()}
        )

    def read(self, key: str, name: str) -> bytes | None:
        """See `StoredVotes`."""
        return self.places[key].read(name)

    def write(self, key: str, name: str, content: bytes) -> None:
        """See `StoredVotes`."""
        self.places[key].write(name, content, LIFETIME_SECONDS)


def sweep_votes(settings: Settings) -> None:
    """Delete votes that are too old, of any run."""
    own = settings.private_home
    for folder in (*own.glob("journals/*/*/votes"), *own.glob("votes/*")):
        with suppress(FileNotFoundError):  # a journal goes as a whole when its release is published
            SnapshotPlace(folder, _key(settings)).sweep(time.time())


def _key(settings: Settings) -> bytes:
    return load_key(settings.home / "keys" / "snapshots.key")


_MEMBERS = "members"
_BITS = ".bits"


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
        publish(self.folder / name, content, mode=PRIVATE_MODE)

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
