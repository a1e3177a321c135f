"""Units of any registered method, and what their releases draw."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.types import PrivateTable
from dpicl.methods import Options, grid, tabular, unit_of
from dpicl.methods.base import draws_for
from tests.direct import points_of
from tests.library.examples import random_table


def unit_for(
    name: str,
    dataset: str = "shop",
    *,
    epsilons: tuple[float, ...] = (1.0,),
    shots: tuple[int, ...] = (1, 2),
    seed: int = 0,
    rates: tuple[Fraction, ...] = (),
    baselines: bool = False,
    **chosen: Any,
) -> Unit:
    """A unit of a method with these choices of its own."""
    options = Options.model_validate({name: chosen})
    return unit_of(name, dataset, seed, epsilons, shots, rates, baselines, options)


def drawn(unit: Unit, contract: Contract, rows: PrivateTable | int = 300) -> dict[Cell, Any]:
    """What each release draws of a table, or of so many made-up rows; nothing is charged."""
    if isinstance(rows, int):
        rows = PrivateTable(random_table(contract, rows, 0))
    method, asked, draws = tabular(unit.method), points_of(unit), draws_for(contract, unit.seed)
    marks = grid.prepare(method, rows, contract, asked, draws)
    return grid.draw(method, rows, contract, asked, draws, marks)
