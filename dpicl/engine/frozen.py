"""What a period of a series counted, frozen: written once, durably, before anything is drawn from it, and read back by whoever draws.

Trust       Private: exact counts, and keyed hashes of who entered. Sealed with the installation's key under its own horizon and period, for
            its owner only; gone once the horizon's last period is published.
Guarantee   none spent. Whatever became of the table, and however often a period is tried, its release is drawn from these counts: the first
            that were written stand. Each has a random name, which the ledger notes with the period's charge: others are refused from then on.

    series/<horizon>/00031      of the state home: name, the name of the period before, counts, persons

A backup holds none of it: a ledger that came back continues no horizon (`ledger.horizons`).
"""

from __future__ import annotations

import io
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.engine.settings import Settings
from dpicl.engine.state.sealed import read_archive, write_archive
from dpicl.errors import LedgerRefusedError, ParameterError
from dpicl.files.durable import write_whole
from dpicl.tabular.central.exact_counts import ExactCounts
from dpicl.tabular.reading.participation import Entered

FOLDER = "series"
_NAME, _BEFORE, _COUNTS, _ENTERED = "name", "before", "counts.npz", "entered.npz"
_NAME_BYTES = 16


@dataclass(frozen=True)
class Frozen:
    """One period: its random name and that of the period before, exact counts, and how many rows of each person entered."""

    name: str
    before: str
    counts: ExactCounts
    entered: Entered


def new_name(_counts: ExactCounts) -> str:
    """At random, whatever was counted: the ledger shows it."""
    return secrets.token_hex(_NAME_BYTES)


@dataclass(frozen=True)
class FrozenPeriods:
    """The periods of one horizon, by the id of its release; `where` names it in messages."""

    settings: Settings
    key: bytes
    horizon: str
    where: str

    def freeze(self, period: int, counts: ExactCounts, entered: Entered, *, before: str) -> Frozen:
        """Write a period, unless it is there; gives what stands."""
        contents = (
            (_NAME, new_name(counts).encode()),
            (_BEFORE, before.encode()),
            (_COUNTS, _packed({name: _narrow(table) for name, table in counts.arrays().items()})),
            (_ENTERED, _packed({"persons": entered.persons, "rows": _narrow(entered.rows)})),
        )
        self.settings.own(FOLDER, self.horizon)
        write_whole(self._path(period), lambda file: write_archive(file, self._key(period), iter(contents)))
        stands = self.read(period)
        assert stands is not None, "it was written, or was there"
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
            entered = _unpacked(contents[_ENTERED])
            counts = ExactCounts.read(_unpacked(contents[_COUNTS]))
        except (ParameterError, KeyError, ValueError):
            raise LedgerRefusedError(
                f"{self.where}: the counts of period {period} are damaged, or of another installation; {RESTART}"
            ) from None
        return Frozen(
            contents[_NAME].decode(), contents[_BEFORE].decode(), counts, Entered(entered["persons"], entered["rows"].astype(np.int64))
        )

    def history(self, periods: int) -> list[Frozen]:
        """Periods 1 to `periods`, each of which names the one before. Raises LedgerRefusedError: one is lost, or is another one."""
        frozen: list[Frozen] = []
        for period in range(1, periods + 1):
            one = self.read(period)
            if one is None or one.before != (frozen[-1].name if frozen else ""):
                what = "are lost" if one is None else "are not those that the period before was counted with"
                raise LedgerRefusedError(f"{self.where}: the counts of period {period} {what}; {RESTART}")
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


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def _unpacked(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return dict(stored)
