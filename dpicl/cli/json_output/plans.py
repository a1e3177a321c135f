"""What `dpicl list`, `plan` and `contract check` print with --json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Listing:
    """What can be run."""

    pipelines: Sequence[Mapping[str, Any]]
    """Of each its `name` and the [keys of pipelines.yaml](pipelines.md#pipeline)."""
    models: Sequence[str]
    """Names of models in pipelines.yaml."""


@dataclass(frozen=True)
class PlanWay:
    """One way to release, at one ε and signal."""

    method: str
    """Name of the method."""
    options: Mapping[str, str]
    """Options of the method."""
    shots: int
    """Number of demonstrations."""
    epsilon: float
    """Of the release."""
    charged: float
    """What the account would pay."""
    signal: float | None
    """AUC of a classifier on the raw rows; null where nothing is predicted."""
    auc: float | None
    """Expected AUC of a classifier on what is released."""
    auc_interval: tuple[float, float] | None
    """90 % interval of it."""
    columns: Mapping[str, float]
    """Expected error of each column."""
    column_error: float
    """Mean of these."""
    pair_error: float | None
    """Mean over pairs of columns."""
    recommended: bool
    """Whether this is the way to take."""


@dataclass(frozen=True)
class Plan:
    """Every method simulated."""

    dataset: str
    """Name of the contract."""
    rows: int
    """Number of rows, as stated."""
    simulated_rows: int
    """Number of rows that were made up."""
    signals: Mapping[str, float]
    """By name, the AUC of a classifier on the raw rows."""
    refused: Mapping[str, str]
    """Methods that the contract rules out, and why."""
    ways: Sequence[PlanWay]
    """Every way at every ε and signal."""
    sentence: str
    """The recommendation."""
    command: str | None
    """The command that follows it; null where nothing is useful."""


@dataclass(frozen=True)
class DraftLine:
    """A line that still has the mark of a draft."""

    line: int
    """Its number."""
    text: str
    """What it says."""


@dataclass(frozen=True)
class CheckedContract:
    """A contract that holds."""

    file: str
    """Name of the file."""
    name: str
    """Name of the contract."""
    unreplaced: Sequence[DraftLine]
    """Lines of a draft that are left to fill in."""
    warnings: Sequence[str]
    """Advice in sentences."""
    contract: Mapping[str, Any]
    """The [keys of the contract](contract.md), with their defaults."""
