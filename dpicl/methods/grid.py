"""Loops over what a pipeline asks for: the releases of a unit, each at a point of its own, what
they and the cells of its results cost, and rows that are read once for all of them.

Guarantee   none spent: a method's `draw` reads rows, and is charged before.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.methods.base import CellCost, Method, epsilon_of
from dpicl.methods.baselines import FITTED
from dpicl.methods.evaluation import Metrics, Result
from dpicl.methods.tabular_answers import averaged_cell
from dpicl.methods.tabular_method import TabularMethod

Key = TypeVar("Key")


def points(method: Method, unit: Unit) -> dict[Cell, Point[Any]]:
    """What each release of a unit is asked for, by its cell."""
    asked: dict[Cell, Point[Any]] = {}
    for system, options in method.variants(unit.chosen(method.options)).items():
        cells = unit.cells(system)
        if method.source != "icl":
            cells = (Cell(system, epsilon) for epsilon in unit.epsilons)
        asked |= {
            cell: Point(
                cell.key, epsilon_of(cell), options, cell.shots, cell.sampling_rate, unit.seed
            )
            for cell in cells
        }
    return asked


def check(method: Method, contract: Declared, unit: Unit) -> None:
    """Refuse a unit whose releases cannot be guaranteed, as `Method.check` does."""
    for point in points(method, unit).values():
        method.check(contract, point)


def prices(method: Method, contract: Declared, unit: Unit) -> dict[Cell, CellCost]:
    """What a unit spends, release by release. Raises PrivacyError: something has no price."""
    return {cell: method.cost(contract, point) for cell, point in points(method, unit).items()}


def released_by(method: Method, cell: Cell, known: Container[Cell]) -> Cell:
    """The release that a cell's rows come from, of these."""
    named = Cell(cell.system.replace("icl-", f"{method.source}-", 1), cell.epsilon)
    if cell.system.startswith("icl-") and named in known:
        return named
    return Cell(method.source, cell.epsilon)


def fitted_on(method: Method, cell: Cell, name: str) -> Cell:
    """Where a classifier is measured that is fitted on the rows of a release."""
    return Cell(name + cell.system.removeprefix(method.source), cell.epsilon)


def costs(method: Method, contract: Declared, unit: Unit) -> dict[Cell, CellCost]:
    """What every cell of the results costs: that of the release which it is made of."""
    paid = prices(method, contract, unit)
    if method.source == "icl":
        return paid
    evaluated = {cell: paid[released_by(method, cell, paid)] for cell in unit.evaluated_cells}
    averaged = {
        averaged_cell(cell): cost for cell, cost in evaluated.items() if cell.draw is not None
    }
    fitted = {fitted_on(method, cell, name): cost for cell, cost in paid.items() for name in FITTED}
    return {**evaluated, **averaged, **fitted}


def prepare(
    method: TabularMethod[Any],
    train: PrivateTable,
    contract: Contract,
    asked: Mapping[Key, Point[Any]],
    draws: Draws,
) -> dict[Key, np.ndarray]:
    """Private marks of rows for these releases; none of a method that marks none."""
    if method.prepare_stage is None:
        return {}
    shared = train.sharing()
    return {key: method.prepare(shared, contract, point, draws) for key, point in asked.items()}


def draw(
    method: TabularMethod[Any],
    train: PrivateTable,
    contract: Contract,
    asked: Mapping[Key, Point[Any]],
    draws: Draws,
    marks: Mapping[Key, np.ndarray],
) -> dict[Key, Any]:
    """These releases, which are charged; what they share is made once."""
    shared = train.sharing()
    return {
        key: method.draw(shared, contract, point, draws, marks.get(key))
        for key, point in asked.items()
    }


def results(
    unit: Unit, measured: Mapping[Cell, Metrics], costs: Mapping[Cell, CellCost]
) -> list[Result]:
    """One row per cell: the model's, the majority's and the baselines'."""
    rows = []
    for cell, metrics in measured.items():
        cost = costs.get(cell.prompts) or costs.get(replace(cell, system="icl"))
        rows.append(
            Result(
                unit.method,
                cell.system,
                unit.dataset,
                unit.seed,
                cell.epsilon,
                cell.shots,
                None if cell.sampling_rate is None else float(cell.sampling_rate),
                cost.amplified.epsilon if cost and cost.amplified else None,
                **asdict(metrics),
            )
        )
    return rows
