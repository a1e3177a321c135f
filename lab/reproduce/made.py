"""What there is to judge a paper by, and the results of one printed cell in a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from dpicl.contract.declared import Declared
from lab.compare.sides import Side
from lab.published.cells import PrintedCell
from lab.reproduce.meanings import CERTAIN, PAPER_RUNS


@dataclass(frozen=True)
class Made:
    """Finished runs by pipeline and model, why there is none of a data set or pipeline, and which
    data sets stand in for a paper's.
    """

    runs: Mapping[tuple[str, str], Side]
    models: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    contracts: Mapping[str, Declared] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """{data set that the paper prints: the one that was run in its place}."""

    def here(self, cell: PrintedCell) -> PrintedCell:
        """The cell as runs of ours name it."""
        return replace(cell, dataset=self.stand_ins.get(cell.dataset, cell.dataset))


@dataclass(frozen=True)
class Measured:
    """What a run has of a cell: mean, variance of the mean over seeds, queries, and the system,
    which is one of several where a paper prints the larger of them.
    """

    mean: float
    over_seeds: float
    seeds: int
    queries: float
    system: str

    def half(self, printed: float) -> float:
        """Equation (1): `printed` is the paper's deviation, and ours too where one seed has
        none.
        """
        own = self.over_seeds if self.seeds > 1 else printed**2
        of_queries = max(self.mean * (1 - self.mean), 0.25 / self.queries) / self.queries
        return CERTAIN * math.sqrt(of_queries + own + printed**2 / PAPER_RUNS)

    def apart(self, constant: float) -> float:
        """Equation (2)."""
        both = min(self.mean + constant, 2 - self.mean - constant) - (self.mean - constant) ** 2
        return CERTAIN * math.sqrt(max(both, 0.25 / self.queries) / self.queries + self.over_seeds)


def results_at(cell: PrintedCell, side: Side, system: str | None = None) -> pd.DataFrame:
    """The results of a cell, or of another system at its shots and epsilon."""
    where = is_of(side, cell.method, cell.dataset, system or cell.system)
    for name in ("shots", "epsilon"):
        value = getattr(cell, name)
        if value is not None:
            where &= side.run.results[name].to_numpy() == value
    return side.run.results[where]


def is_of(side: Side, method: str, dataset: str, system: str) -> np.ndarray:
    """Which results are of these, shape (results,)."""
    wanted = {"method": method, "dataset": dataset, "system": system}
    return np.logical_and.reduce(
        [side.run.results[name].to_numpy(dtype=object) == value for name, value in wanted.items()]
    )


def measured(cell: PrintedCell, side: Side) -> Measured | None:
    """What a run has of a cell; None where it lacks it, or one of those of which the larger is
    printed.
    """
    found = []
    for system in cell.larger_of or (cell.system,):
        rows = results_at(cell, side, system)
        means, counts = rows[cell.metric].dropna(), rows["query_count"].dropna()
        if not len(means):
            return None
        over_seeds = float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0
        queries = max(float(counts.mean()), 1.0) if len(counts) else 1.0
        found.append(Measured(float(means.mean()), over_seeds, len(means), queries, system))
    return max(found, key=lambda one: one.mean)
