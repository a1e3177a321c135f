"""MST and AIM as their authors publish them: files `mst.py` and `aim.py` of private-pgm, unchanged,
from a folder of that repository.

Selection, budget and Gaussian noise are theirs. What fits a model to the noisy counts is dpicl's
exact inference, which has the same optimum as theirs and takes seconds where theirs takes minutes;
`Stand-ins` below are the few names of their package `mbi` that the files import.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpicl.data.central.graphical_model import (
    GraphicalModel,
    ModelMarginals,
    NoisyMarginal,
    graphical_model,
    row_count,
)
from dpicl.data.central.junction_tree import JunctionTree
from lab.benchmarks.peers.list_of_systems import DELTA, MODEL_MEGABYTES, ROWS
from lab.benchmarks.peers.scores import Arrays, of_rows

FOLDER = "DPICL_PRIVATE_PGM"
"""Names a folder with the repository ryan112358/private-pgm."""
Scope = tuple[int, ...]
Job = dict[str, Any]


def run_mst(table: Arrays, job: Job) -> dict[str, float]:
    """`MST(data, epsilon, delta)`."""
    module = _imported("mst")
    np.random.seed(job["seed"])
    return of_rows(module.MST(_data(table), job["epsilon"], DELTA).df.to_numpy(), table)


def run_aim(table: Arrays, job: Job) -> dict[str, float]:
    """`AIM(epsilon, delta).run(data, workload)`."""
    module, data = _imported("aim"), _data(table)
    np.random.seed(job["seed"])
    *columns, label = data.domain.attrs
    workload = [((one, other, label), 1.0) for one, other in itertools.combinations(columns, 2)]
    _, rows = module.AIM(job["epsilon"], DELTA, prng=np.random, max_model_size=MODEL_MEGABYTES).run(
        data, workload
    )
    return of_rows(rows.df.to_numpy(), table)


@dataclass(frozen=True)
class Domain:
    """Sizes of columns."""

    sizes: dict[int, int]

    @staticmethod
    def fromdict(sizes: dict[int, int]) -> Domain:
        """As it is named there."""
        return Domain({column: int(size) for column, size in sizes.items()})

    @property
    def attrs(self) -> Scope:
        """All columns."""
        return tuple(self.sizes)

    def size(self, columns: Sequence[int]) -> int:
        """Cells."""
        return prod(self.sizes[column] for column in columns)

    def __iter__(self) -> Iterator[int]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class Vector:
    """Counts of cells."""

    values: np.ndarray

    @property
    def size(self) -> int:
        """Cells."""
        return self.values.size

    def datavector(self) -> np.ndarray:
        """As one vector."""
        return self.values.ravel()


@dataclass(frozen=True)
class Dataset:
    """Rows of codes."""

    df: pd.DataFrame
    domain: Domain

    def project(self, columns: Sequence[int]) -> Vector:
        """Counts over columns."""
        shape = tuple(self.domain.sizes[column] for column in columns)
        cells = np.ravel_multi_index(
            tuple(self.df[column].to_numpy(np.int64) for column in columns), shape
        )
        return Vector(np.bincount(cells, minlength=prod(shape)).astype(float))


@dataclass(frozen=True)
class LinearMeasurement:
    """Noisy counts over a clique; `query` weighs cells that stand for several."""

    noisy_measurement: np.ndarray
    clique: Scope
    stddev: float = 1.0
    query: Any = None

    def marginal(self, domain: Domain) -> NoisyMarginal:
        """In dpicl's words; a cell that stands for several weighs as much as others do."""
        weights = (
            np.ones(len(self.noisy_measurement))
            if self.query is None
            else self.query(Vector(np.ones(len(self.noisy_measurement))))
        )
        order = tuple(sorted(self.clique))
        counts = (self.noisy_measurement / weights).reshape(
            [domain.sizes[column] for column in self.clique]
        )
        return NoisyMarginal(
            order,
            counts.transpose([self.clique.index(column) for column in order]),
            self.stddev / sqrt(2),
        )


@dataclass(frozen=True)
class Model:
    """What `mirror_descent` gives."""

    domain: Domain
    fitted: GraphicalModel
    total: float
    cliques: list[Scope] = field(default_factory=list)

    @property
    def potentials(self) -> Model:
        """To start the next fit from."""
        return self

    def expand(self, cliques: Sequence[Scope]) -> Model:
        """The next fit finds what it knows."""
        return self

    @cached_property
    def _marginals(self) -> ModelMarginals:
        return ModelMarginals(self.fitted)

    def project(self, columns: Sequence[int]) -> Vector:
        """Expected counts."""
        label = self.fitted.tree.label
        shares = self._marginals.over([column for column in columns if column != label])
        return Vector(self.total * (shares if label in columns else shares.sum(axis=-1)))

    def synthetic_data(self, rows: int | None = None) -> Dataset:
        """As many as everybody releases."""
        chance = np.random.default_rng(np.random.randint(2**31))
        return Dataset(
            pd.DataFrame(self.fitted.rows(ROWS, chance), columns=list(self.domain)), self.domain
        )


def mirror_descent(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    potentials: Model | None = None,
    **_: Any,
) -> Model:
    """The model that explains noisy counts best."""
    counts = [measurement.marginal(domain) for measurement in measurements]
    fitted = graphical_model(
        tuple(domain.sizes.values()), counts, earlier=potentials.fitted if potentials else None
    )
    return Model(domain, fitted, row_count(counts), [count.columns for count in counts])


def hypothetical_model_size(domain: Domain, cliques: Sequence[Scope]) -> float:
    """Megabytes of all cliques' tables."""
    sizes = tuple(domain.sizes.values())
    tree = JunctionTree.of(sizes, [tuple(sorted(clique)) for clique in cliques])
    return (
        sum(prod(sizes[column] for column in clique.columns) for clique in tree.cliques)
        * sizes[-1]
        * 8
        / 2**20
    )


def _data(table: Arrays) -> Dataset:
    sizes = {column: int(size) for column, size in enumerate(table["sizes"])}
    return Dataset(pd.DataFrame(table["train_codes"], columns=list(sizes)), Domain(sizes))


def _imported(name: str) -> Any:
    """A file of the folder, with stand-ins for `mbi` and, which it imports without use,
    matplotlib.
    """
    folder = Path(os.environ.get(FOLDER, "")) / "mechanisms"
    if FOLDER not in os.environ or not (folder / f"{name}.py").exists():
        raise ModuleNotFoundError(
            f"{FOLDER} names no folder of private-pgm with mechanisms/{name}.py"
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        stand_in = types.ModuleType("mbi")
        estimation, trees = (
            types.SimpleNamespace(mirror_descent=mirror_descent),
            types.SimpleNamespace(hypothetical_model_size=hypothetical_model_size),
        )
        names = {
            "Dataset": Dataset,
            "Domain": Domain,
            "LinearMeasurement": LinearMeasurement,
            "Factor": Vector,
        }
        vars(stand_in).update(names, estimation=estimation, junction_tree=trees)
        sys.modules["mbi"] = stand_in
        sys.modules.setdefault("matplotlib", types.ModuleType("matplotlib"))
        sys.modules.setdefault("matplotlib.pyplot", types.ModuleType("matplotlib.pyplot"))
    return importlib.import_module(name)
