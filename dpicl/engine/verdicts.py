"""What a run says of its rows without noise: which checks hold, and how long the stages took that
read rows.

Of a benchmark, whose rows are public, it stands in the run's folder; of any other data set it is as
private as the rows:

DPICL_HOME/private/run-verdicts/RUN/validation/NAME.json      every rule, and whether it holds
                                    expectations/NAME.html    the same by Great Expectations, and
                                    your own expectations
                                    timings/…                 of stages that read rows

It stays until `dpicl state clean` removes the run; `dpicl protect`, which keeps no run, removes it
with the rows.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.contract.declared import Declared
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, read_json, write_json
from dpicl.engine.settings import PRIVATE, Settings

VERDICTS = "run-verdicts"
"""Beside folders that are called as data sets are, whose names have no dash."""


@dataclass(frozen=True)
class Verdicts:
    """Where a run's verdicts on one data set are written, and for whom."""

    folder: Path
    mode: int
    place: str
    """The folder, as it is told to those who may not look into it."""

    @staticmethod
    def of(run: Path, declared: Declared, settings: Settings) -> Verdicts:
        """Of a data set in a run."""
        if declared.privacy.budget.benchmark:
            return Verdicts(run, PUBLIC_MODE, run.name)
        return Verdicts(
            settings.private(VERDICTS, run.name),
            PRIVATE_MODE,
            f"DPICL_HOME/{PRIVATE}/{VERDICTS}/{run.name}",
        )

    @property
    def is_public(self) -> bool:
        """Whether everybody may read them."""
        return self.mode == PUBLIC_MODE

    def write(self, name: str, content: Any) -> None:
        """Write a file of them, in place of one that an earlier try left."""
        write_json(self.folder / name, content, mode=self.mode, replace=True)

    def rules(self, dataset: str) -> list[dict[str, Any]] | None:
        """Every rule of a data set's contract, and whether it holds; None before they were
        checked.
        """
        path = self.folder / validation_file(dataset)
        return read_json(path) if path.exists() else None


def validation_file(dataset: str) -> str:
    """Below the folder of verdicts."""
    return f"validation/{dataset}.json"


def remove_verdicts(run: str, settings: Settings) -> None:
    """Those of a run that nobody can look up."""
    shutil.rmtree(settings.private_home / VERDICTS / run, ignore_errors=True)
