"""What a period of a series counted, frozen: written once, durably, before anything is drawn from
it, and read back by whoever draws.

Trust       Private: exact counts, and keyed hashes of who entered. Sealed with the installation's
            key under its own horizon and period, for its owner only; gone once the horizon's last
            period is published.
Guarantee   none spent. Whatever became of the table, and however often a period is tried, its
            release is drawn from these counts: the first that were written stand. Each has a random
            name, which the ledger notes with the period's charge: others are refused from then on.

    series/<horizon>/00031      of the state home: its name and that of the period before; counts,
                                persons and their rows, one after another

A backup holds none of it: a ledger that came back continues no horizon (`ledger.horizons`).
"""

from __future__ import annotations

import json
import secrets
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.engine.settings import Settings
from dpicl.engine.state.sealed import read_archive, write_archive
from dpicl.errors import LedgerRefusedError, ParameterError
from dpicl.files.durable import write_whole
from dpicl.methods.counted_horizon import CountedHorizon
from dpicl.tabular.reading.participation import Entered

FOLDER = "series"
_ABOUT, _ARRAYS = "about.json", "arrays"
_NAME_BYTES = 16


@dataclass(frozen=True)
class Frozen:
    """One period: its random name and that of the period before, exact counts, and how many rows of
    each person entered.
    """

    name: str
    before: str
    counts: Any
    entered: Entered


def new_name(_counts: np.ndarray) -> str:
    """At random, whatever was counted: the ledger shows it."""
    return secrets.token_hex(_NAME_BYTES)


@dataclass(frozen=True)
class FrozenPeriods:
    """The periods of one horizon, by the id of its release; `where` names it in messages, and
    `method` knows what was counted.
    """

    settings: Settings
    key: bytes
    horizon: str
    where: str
    method: CountedHorizon[Any, Any]

    def freeze(self, period: int, counts: Any, entered: Entered, *, before: str) -> Frozen:
        """Write a period, unless it is there; gives what stands. Raises LedgerRefusedError: a twin
        has ended the horizon meanwhile.
        """
        said, flat = self.method.packed(counts)
        about, arrays = _packed(flat, entered)
        named = json.dumps({**said, **about, "name": new_name(flat), "before": before}).encode()
        contents = ((_ABOUT, named), (_ARRAYS, zlib.compress(arrays, 1)))
        self.settings.own(FOLDER, self.horizon)
        write_whole(
            self._path(period), lambda file: write_archive(file, self._key(period), iter(contents))
        )
        stands = self.read(period)
        if stands is None:
            raise LedgerRefusedError(
                f"{self.where}: the counts of period {period} are gone; {RESTART}"
            )
        return stands

    def read(self, period: int) -> Frozen | None:
        """A period as it was frozen; None before.
        Raises LedgerRefusedError: its file is another one, or damaged.
        """
        path = self._path(period)
        if not path.exists():
            return None
        try:
            contents = dict(read_archive(path, self._key(period)))
            about = json.loads(contents[_ABOUT])
            flat, entered = _unpacked(about, zlib.decompress(contents[_ARRAYS]))
            counts = self.method.unpacked(about, flat)
        except (ParameterError, KeyError, ValueError, zlib.error):
            raise LedgerRefusedError(
                f"{self.where}: the counts of period {period} are damaged, or of another "
                f"installation; {RESTART}"
            ) from None
        return Frozen(about["name"], about["before"], counts, entered)

    def history(self, periods: int) -> list[Frozen]:
        """Periods 1 to `periods`, each of which names the one before. Raises LedgerRefusedError:
        one is lost, or is another one.
        """
        frozen: list[Frozen] = []
        for period in range(1, periods + 1):
            one = self.read(period)
            if one is None or one.before != (frozen[-1].name if frozen else ""):
                what = (
                    "are lost"
                    if one is None
                    else "are not those that the period before was counted with"
                )
                raise LedgerRefusedError(
                    f"{self.where}: the counts of period {period} {what}; {RESTART}"
                )
            frozen.append(one)
        return frozen

    def forget(self) -> None:
        """Remove all periods: the horizon is over."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.settings.home / FOLDER / self.horizon

    def _path(self, period: int) -> Path:
        return self._folder / f"{period:05}"

    def _key(self, period: int) -> bytes:
        return bytes.fromhex(keyed_hash(self.key, "frozen period", self.horizon, period))


RESTART = "what was published stands, and a new horizon (`releases.first`) is a new charge"


def _narrow(values: np.ndarray) -> np.ndarray:
    """In the shortest signed whole numbers that hold them."""
    most = int(np.abs(values).max()) if values.size else 0
    return values.astype(np.min_scalar_type(-most - 1))


def _packed(flat: np.ndarray, entered: Entered) -> tuple[dict[str, Any], bytes]:
    """All arrays one after another, and what they are: many small files of arrays would take longer
    to read than to count.
    """
    counts, rows = _narrow(flat), _narrow(entered.rows)
    about = {"counts": counts.dtype.str, "persons": len(rows), "rows": rows.dtype.str}
    return about, counts.tobytes() + entered.persons.tobytes() + rows.tobytes()


def _unpacked(about: Mapping[str, Any], content: bytes) -> tuple[np.ndarray, Entered]:
    after = about["persons"] * (np.dtype(np.uint64).itemsize + np.dtype(about["rows"]).itemsize)
    flat = np.frombuffer(
        content, about["counts"], (len(content) - after) // np.dtype(about["counts"]).itemsize
    )
    persons = np.frombuffer(content, np.uint64, about["persons"], flat.nbytes)
    rows = np.frombuffer(content, about["rows"], about["persons"], flat.nbytes + persons.nbytes)
    return flat, Entered(persons, rows.astype(np.int64))
