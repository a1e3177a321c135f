"""Contracts, rows and units for any registered method."""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract import Contract
from dpicl.ground.errors import ParameterError
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, grid, tabular
from tests.library.examples import private_contract, random_table, small_contract
from tests.library.kinds import LABELS, kind_contract
from tests.library.text_contracts import as_ensemble, text_contract
from tests.library.units import unit_for

TABULAR = [name for name, method in METHODS.items() if method.data == "table"]
every_method = pytest.mark.parametrize("name", METHODS)
every_tabular_method = pytest.mark.parametrize("name", TABULAR)


def contract_for(name: str, *, private: bool = False) -> Any:
    """A contract that the method reads: a benchmark's, or one with a budget."""
    if METHODS[name].data == "texts":

        def changed(content: dict[str, Any]) -> None:
            as_ensemble(content)
            for label in content["task"]["labels"].values():
                label["min_rows"] = 40
            content["privacy"]["budget"] = (
                {"epsilon": 100, "delta": 1e-5} if private else {"benchmark": True}
            )

        return text_contract(changed)
    return private_contract() if private else small_contract()


def grid_for(*methods: str, dataset: str = "shop", shots: int = 1) -> dict[str, Any]:
    """A pipeline's grid of one cell for each of these methods, answered by hashes."""
    grid = {"epsilons": [1], "shots": [shots], "seeds": [0], "model": "fake"}
    return {"methods": [*methods], "datasets": [dataset], **grid}


TABLES = ("shop", *LABELS)
"""Contracts of tables: the small one, which states everything, and those that state columns and a
label of some kind.
"""
every_table = pytest.mark.parametrize("table", TABLES)


def table_for(table: str) -> Contract:
    """One of `TABLES`."""
    return small_contract() if table == "shop" else kind_contract(table)


def takes(name: str, table: str) -> bool:
    """Whether a method releases a table; of one without a label some refuse to."""
    try:
        unit = unit_for(name, shots=table_for(table).shots[:2])
        for asked in grid.points(tabular(name), unit).values():
            tabular(name).refuse(table_for(table), asked)
    except ParameterError:
        return False
    return True


UNLABELLED = [name for name in TABULAR if takes(name, "none")]
"""Methods that take a table of which nothing is predicted."""


def rows_for(count: int = 60, table: str = "shop") -> PrivateTable:
    """Made-up rows of a table's contract."""
    return PrivateTable(random_table(table_for(table), count, 0))
