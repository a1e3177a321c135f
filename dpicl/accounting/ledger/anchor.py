"""The anchor: a small file outside the database that remembers the end of the chain.

A database restored from an old copy verifies on its own; against the anchor its chain is too short,
or holds another record in the anchor's place. The file is written after every commit and only moves
forward, so a crash leaves it behind the database, never ahead. Every host has its own. A host
without one trusts the ledger that it sees first.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from pathlib import Path

from dpicl.errors import LedgerRefusedError
from dpicl.files.durable import write_whole
from dpicl.files.locks import locked


@dataclass(frozen=True)
class Head:
    """A place in the chain: the number of a record and its hash; 0 and "" before the first."""

    sequence: int = 0
    hash: str = ""


class Anchor:
    """The highest head that this host has seen, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Head:
        """The head in the file; the empty one without a file. Raises LedgerRefusedError: the file
        is damaged.
        """
        try:
            content = json.loads(self.path.read_text("utf-8"))
            return Head(int(content["sequence"]), str(content["hash"]))
        except FileNotFoundError:
            return Head()
        except (ValueError, KeyError, TypeError):
            raise LedgerRefusedError(
                f"{self.path}: not an anchor; expected JSON with sequence and hash"
            ) from None

    def advance(self, head: Head) -> None:
        """Write a committed head, durably, unless the file is there already or further.

        A process that may only read the file leaves that to those that write.
        """
        if self.read().sequence >= head.sequence:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.path.with_name(f".{self.path.name}.lock")):
                if self.read().sequence >= head.sequence:
                    return
                content = json.dumps({"sequence": head.sequence, "hash": head.hash})
                write_whole(self.path, lambda file: file.write(content.encode()), replace=True)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
