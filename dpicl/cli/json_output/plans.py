"""What `dpicl list`, `plan`, `contract check` and `compare` print with --json."""

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


@dataclass(frozen=True)
class ComparedCell:
    """A cell that both runs have. What names it is null where it has no such number."""

    method: str
    """Name of the method."""
    dataset: str
    """Name of the data set."""
    system: str
    """How it is answered."""
    shots: float | None
    """Number of demonstrations."""
    sampling_rate: float | None
    """Rate of the secret subsample."""
    epsilon: float | None
    """Of the release."""
    metric: str
    """What it is judged by; errors are better the smaller."""
    first: float | None
    """Mean of the first run over the seeds that both runs have."""
    second: float | None
    """Mean of the second run over these."""
    seeds: int
    """How many seeds these are."""
    is_same: bool
    """Whether nothing differs."""
    by_answer: bool
    """Whether single answers were compared."""
    difference: float | None
    """What the second run is better by."""
    half: float | None
    """Half of its 95 % interval."""
    marked: str | None
    """`better` or `worse` by more than noise, or null."""


@dataclass(frozen=True)
class ComparedTest:
    """A two-sided paired t-test over data sets."""

    method: str
    """Name of the method."""
    system: str
    """How it is answered."""
    shots: float | None
    """Number of demonstrations."""
    metric: str
    """What is averaged."""
    datasets: int
    """Number of data sets."""
    difference: float | None
    """Mean over data sets of what the second run is better by."""
    statistic: float | None
    """t; null where all differences are equal."""
    freedom: int
    """Degrees of freedom."""
    p: float | None
    """The p-value; null where all differences are equal."""


@dataclass(frozen=True)
class DifferingFact:
    """A cost, or a fact that differs."""

    what: str
    """Its name."""
    first: str
    """What it is in the first run."""
    second: str
    """What it is in the second run."""


@dataclass(frozen=True)
class ComparedRuns:
    """Two runs cell by cell."""

    runs: tuple[str, str]
    """Names of the first and the second run."""
    better: int
    """Cells in which the second run is better by more than noise."""
    worse: int
    """Cells in which it is worse."""
    same: int
    """Cells in which nothing differs."""
    cells: Sequence[ComparedCell]
    """Every cell that both runs have."""
    tests: Sequence[ComparedTest]
    """Tests over data sets."""
    differing: Sequence[DifferingFact]
    """Costs, and facts that differ."""
    notes: Sequence[str]
    """Sentences on how the comparison was made."""
