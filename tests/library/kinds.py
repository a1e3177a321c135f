"""Contracts of version 2 with every kind of label, and values that may be missing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpicl.contract import Contract
from dpicl.contract.columns import DateColumn
from dpicl.contract.columns.base import MISSING
from dpicl.contract.load import parse_contract
from tests.library.examples import random_table

LABELS: dict[str, Any] = {
    "classes": "plan",
    "nullable classes": "city",
    "number": "spent",
    "nullable number": "height",
    "dates": "since",
    "binary": {"column": "spent", "cuts": [40], "question": "Did they spend 40 or more?"},
    "none": None,
}
"""A label of every kind of the columns below."""
every_kind = pytest.mark.parametrize("kind", LABELS)


def kind_tree(kind: str, name: str = "customers", *, private: bool = False) -> dict[str, Any]:
    """Columns of every type, two of them nullable, and a label of this kind: a benchmark, or
    private with public queries.
    """
    content: dict[str, Any] = {
        "name": name,
        "source": {"file": f"{name}.csv"},
        "privacy": {
            "sampling_rate": "1/2",
            "budget": {"epsilon": 1000} if private else {"benchmark": True},
        },
        "split": {"test_fraction": 0.2},
        "columns": {
            "age": {"type": "integer", "bounds": [18, 100], "nullable": True},
            "height": {"type": "real", "bounds": [1, 2.5], "nullable": True, "decimals": 1},
            "plan": {"type": "category", "categories": ["basic", "plus", "pro"]},
            "city": {"type": "category", "categories": ["north", "south"], "nullable": True},
            "since": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"]},
            "spent": {"type": "real", "bounds": [0, 100], "bins": [20, 40, 60, 80]},
        },
    }
    if private:  # replace-one, so that clients may report too: their number is public then
        content["privacy"]["neighbours"] = "replace-one"
        del content["split"]
        if LABELS[kind] is not None:
            content["queries"] = {"file": f"{name}_queries.csv"}
    if LABELS[kind] is not None:
        content["label"] = LABELS[kind]
    if kind == "binary":  # bins are of features, and of numbers to predict
        del content["columns"]["spent"]["bins"]
    return content


def kind_contract(kind: str, *, private: bool = False) -> Contract:
    """The contract of `kind_tree`."""
    contract = parse_contract(kind_tree(kind, private=private), "customers.yaml")
    assert isinstance(contract, Contract)
    return contract


def kind_rows(count: int, seed: int = 0) -> str:
    """Made-up rows of the columns as CSV: dates as people write them, nothing where a value is
    missing.
    """
    contract, columns = kind_contract("none"), {}
    for name, values in zip(
        contract.columns, random_table(contract, count, seed).columns, strict=True
    ):
        column = contract.columns[name]
        if isinstance(column, DateColumn):
            columns[name] = pa.array([column.text(value) for value in values.to_pylist()])
        else:
            texts = pc.cast(
                pc.round(values, 1) if pa.types.is_floating(values.type) else values, pa.string()
            ).combine_chunks()
            columns[name] = pc.if_else(pc.equal(texts, MISSING), "", texts)
    return str(pa.table(columns).to_pandas().to_csv(index=False))
