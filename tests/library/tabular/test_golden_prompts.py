"""Whole prompts of every contract, letter by letter; UPDATE_GOLDEN=1 writes them anew.

The values are made up, so no data set is needed: numbers at fixed shares of their bounds,
categories and levels by their position.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.data.prompts import (
    central_demonstrations,
    central_queries,
    local_demonstrations,
    local_queries,
)
from dpicl.ground.types import (
    EncodedQueries,
    QueryTable,
    ReleasedGroup,
    ReleasedGroups,
    ReleasedRows,
)
from dpicl.models.requests import prompt
from tests.library.examples import CONTRACTS, every_contract

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "prompts"


def _local(contract: Contract) -> str:
    shown, asked = (
        [(place + by) % one.part_count for place, one in enumerate(contract.local)] for by in (0, 1)
    )
    rows = ReleasedRows(np.array([[*shown, 1]]))
    queries = local_queries(EncodedQueries(np.array([[*asked, 0]])), contract)
    return prompt(local_demonstrations(rows, lambda same: same, contract), queries[0])


def _value(contract: Contract, name: str, share: float, position: int) -> float | str:
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return column.categories[position % len(column.categories)]
    return column.bounds[0] + share * (column.bounds[1] - column.bounds[0])


def _query(contract: Contract) -> QueryTable:
    columns = {}
    for position, (name, column) in enumerate(contract.columns.items()):
        value = _value(contract, name, 0.1, position + 1)
        if isinstance(column, CategoryColumn):
            code = pa.array([column.categories.index(value)], pa.int16())
            columns[name] = pa.DictionaryArray.from_arrays(code, pa.array(column.categories))
        else:
            columns[name] = [round(value) if isinstance(column, IntegerColumn) else float(value)]
    return QueryTable(pa.table(columns))


def _central(contract: Contract) -> str:
    values = {
        name: _value(contract, name, 0.31416, position)
        for position, name in enumerate(contract.features)
    }
    groups = ReleasedGroups((ReleasedGroup(("all",), values, 0),))
    queries = central_queries(_query(contract), contract)
    return prompt(central_demonstrations(groups, contract), queries[0])


@every_contract
def test_prompts_are_the_golden_ones_letter_by_letter(contract: Contract) -> None:
    actual = f"# local\n{_local(contract)}\n\n# central\n{_central(contract)}\n"
    path = FOLDER / f"{contract.name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(actual, encoding="utf-8")
        pytest.skip("written anew")
    assert actual == path.read_text(encoding="utf-8")


def test_there_is_one_golden_file_per_contract() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CONTRACTS)
