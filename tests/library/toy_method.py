"""A method of ten lines that is wired nowhere: noisy counts of the label, and baselines that read the rows again."""

from __future__ import annotations

from typing import Any

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.methods import tabular_answers as answers
from dpicl.methods.common import Cost, check_free
from dpicl.methods.interface import Baselines, Data, Trust
from dpicl.methods.tabular_answers import truth_of
from dpicl.pipeline import Cell, Unit

VERSION = 1
DATA: Data = "table"
TRUST: Trust = "central"
MODEL_READS_ROWS = False
BASELINES: Baselines = "private"
ANSWERS_QUERIES = False

__all__ = ["answers", "truth_of"]


def identity(contract: Any, unit: Unit, cell: Cell) -> dict[str, object]:
    """Nothing but epsilon makes another release."""
    return {}


def releases(contract: Any, unit: Unit) -> dict[Cell, Cost]:
    """One release per epsilon."""
    of = {epsilon: Guarantee(epsilon, 0.0, Neighbours.ADD_OR_REMOVE_ONE, "row", Event("toy")) for epsilon in unit.epsilons}
    return {Cell("icl", epsilon): Cost(guarantee) for epsilon, guarantee in of.items()}


costs = releases


def statement(contract: Any, unit: Unit, cell: Cell, cost: Cost) -> str:
    """As it is."""
    return f"{cost.charged.epsilon:g}-DP"


def baselines(*_arguments: Any) -> dict[Cell, Any]:
    """Would read the rows."""
    raise AssertionError("the rows were read")


def run(split: Any, contract: Any, unit: Unit, scorer: Any) -> list[Any]:
    """Checks as every method does."""
    check_free(contract, unit)
    return []
