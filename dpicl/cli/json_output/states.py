"""What `dpicl state` and `dpicl model` print with --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StateFinding:
    """One finding, faults first. The exit code is 1 if there is a fault."""

    fault: bool
    """False for a note, such as versions or who works now."""
    path: str
    """Where."""
    rule: str
    """What is so."""
    do: str
    """What to do about it."""


@dataclass(frozen=True)
class RemovedPath:
    """What was removed, or would be."""

    path: str
    """Where it was."""
    what: str
    """What it was."""
    bytes: int | None
    """Its size; null for private files."""


@dataclass(frozen=True)
class CleanedState:
    """What was removed."""

    dry_run: bool
    """Whether nothing was removed, and only listed."""
    keep_days: int | None
    """Age from which runs are removed; null where all are kept."""
    removed: Sequence[RemovedPath]
    """Runs, and what killed processes left."""
    bytes: int
    """Of all but private files."""
    flow_runs: int | None
    """Flow runs of Prefect; null where it has no server or database here."""


@dataclass(frozen=True)
class WrittenBackup:
    """The backup that was written."""

    file: str
    """Its path."""
    bytes: int
    """Its size."""
    taken_utc: str
    """When it was taken."""
    record: int
    """Number of the last record of the ledger in it."""
    releases: int
    """Number of published releases in it."""
    ledger: str
    """`file`, or `server` where the ledger is in PostgreSQL and has to be copied by its own
    tools.
    """
    key_made: bool
    """Whether the key file is new."""
    missing: Sequence[str]
    """Releases whose artefact is gone."""


@dataclass(frozen=True)
class RestoredAccount:
    """One account. Every cap is 0."""

    account: str
    """Name of the account."""
    epsilon_spent: float | None
    """What was spent when the backup was taken."""


@dataclass(frozen=True)
class RestoredState:
    """The backup that was restored."""

    home: str
    """Where it was restored."""
    taken_utc: str
    """When the backup was taken."""
    backup_record: int
    """Number of the last record in the backup."""
    record: int
    """Number of the record that closes the budgets."""
    accounts: Sequence[RestoredAccount]
    """Every account."""


@dataclass(frozen=True)
class ModelCheck:
    """One check that holds."""

    check: str
    """What was checked."""
    detail: str
    """What was found."""


@dataclass(frozen=True)
class CheckedModel:
    """Whether a model can be used. The exit code is 2 if it cannot."""

    model: str
    """Its name."""
    usable: bool
    """Whether every check holds."""
    sentence: str
    """The verdict, with the reason of a refusal."""
    checks: Sequence[ModelCheck]
    """The checks that hold, in their order; the first that does not is the last."""
