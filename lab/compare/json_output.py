"""What `dpicl compare` prints with --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
