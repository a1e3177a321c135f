"""A period that was closed: what was counted stands, and reports that come afterwards are late.

The file holds the counts and the pseudonyms that they are of, 16 bytes of each; it is written once,
and another collection or period refuses it.

Guarantee   none spent: clients' reports are randomised before they are sent.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dpicl.errors import DataError
from dpicl.files.durable import write_whole
from dpicl.tabular.local.tally import Tally
from dpicl.tabular.reports.check import Checker

_MODE = 0o600


@dataclass(frozen=True)
class Closed:
    """Counts that stand, and whose reports they are of: sorted, shape (clients,)."""

    tally: Tally
    who: np.ndarray

    def write(self, path: Path, checker: Checker) -> bool:
        """A new file; false where another command has made one meanwhile, which stands."""

        def write(file: BinaryIO) -> None:
            np.savez(
                file,
                collection=checker.collection,
                period=checker.period,
                counts=self.tally.stored,
                who=self.who,
            )

        return write_whole(path, write, mode=_MODE)

    @staticmethod
    def read(path: Path, checker: Checker) -> Closed:
        """What was closed. Raises DataError: the file is no such, or of another collection or
        period.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                named = (str(file["collection"]), str(file["period"]))
                stored, who = file["counts"], file["who"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise DataError(
                path.name,
                "is no closed period; expected a file that --close has written, or a new name",
            ) from None
        if named != (checker.collection, checker.period):
            raise DataError(
                path.name,
                "is a closed period of another collection or period; expected this one's, or a "
                "new name",
            )
        return Closed(Tally.read(stored, checker.questions), who)

    def has(self, who: np.ndarray) -> np.ndarray:
        """Whether each of these pseudonyms, shape (reports, 2), is among those that were counted:
        shape (reports,), bool.
        """
        wanted = as_bytes(who)
        if not len(self.who):
            return np.zeros(len(wanted), dtype=bool)
        places = np.minimum(np.searchsorted(self.who, wanted), len(self.who) - 1)
        return np.asarray(self.who[places] == wanted)


def as_bytes(who: np.ndarray) -> np.ndarray:
    """Pairs of numbers, shape (reports, 2), as sixteen bytes each, which can be sorted: shape
    (reports,).
    """
    return np.ascontiguousarray(who.astype(">u8")).view("S16").reshape(-1)
