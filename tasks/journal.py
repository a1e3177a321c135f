"""The journal of texts that are being written: one small file per token and release, the first one stands.

A killed worker goes on at the token that it lost; twins of a release write one text together.
What is kept was elected under noise and is charged; it is deleted when the release is published.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.pipeline import Cell
from dpicl.randomness import Draws, Stream
from tasks.files import PRIVATE_MODE, publish
from tasks.settings import Settings


@dataclass(frozen=True)
class FileJournal:
    """Tokens by release; `names` has the release of every cell, `key` is the installation's secret."""

    settings: Settings
    names: Mapping[Cell, str]
    key: bytes
    draws: Draws

    def read(self, cell: Cell, step: int) -> tuple[int, ...] | None:
        """The tokens of a step, one per text; None where it has not been taken."""
        path = self._path(cell, step)
        return tuple(json.loads(path.read_text())) if path.exists() else None

    def keep(self, cell: Cell, step: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Keep the tokens of a step, and give those that stand."""
        path = self._path(cell, step)
        publish(path, lambda file: file.write(json.dumps(tokens).encode()), mode=PRIVATE_MODE)
        return tuple(json.loads(path.read_text()))

    def lasting(self, cell: Cell, name: str) -> Stream:
        """The same secret randomness for every try of a release, on this installation."""
        if self.draws.simulated:
            return self.draws.public("lasting", f"{cell.key},{name}")
        return Stream(bytes.fromhex(keyed_hash(self.key, "lasting", self.names[cell], name)), simulated=False)

    def _path(self, cell: Cell, step: int) -> Path:
        return _folder(self.settings, self.names[cell]) / f"{step:04d}.json"


def forget(settings: Settings, release: str) -> None:
    """Delete the journal of a published release."""
    shutil.rmtree(_folder(settings, release), ignore_errors=True)


def _folder(settings: Settings, release: str) -> Path:
    return settings.private("journals", release)
