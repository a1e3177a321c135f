"""A first contract writes booleans and whole numbers as such where the rows or their schema have
them, and texts as texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns import CategoryColumn
from dpicl.contract.draft import Draft, DraftColumn
from dpicl.contract.draft_columns import columns_of_rows
from dpicl.contract.draft_schema import read_schema
from dpicl.ground.yaml_file import parse_yaml


def read_back(column: DraftColumn) -> CategoryColumn:
    """As the draft's text is read."""
    draft = Draft(
        "rows",
        "rows.csv",
        (column, DraftColumn("z", "integer", (0, 9))),
        None,
        (),
        origin="a schema",
    )
    contract = parse_contract(parse_yaml(draft.text.encode(), "rows.yaml"), "rows.yaml")
    assert isinstance(contract, Contract)
    read = contract.columns[column.name]
    assert isinstance(read, CategoryColumn)
    return read


ROWS: dict[str, tuple[list[str], str, list[str]]] = {
    "Python's booleans": (["True", "False"], "boolean", ["false", "true"]),
    "R's booleans": (["TRUE", "FALSE"], "boolean", ["false", "true"]),
    "booleans with gaps": (["true", "false", ""], "boolean", ["false", "true", "(missing)"]),
    "classes": (["0", "1"], "integer", ["0", "1"]),
    "classes below zero": (["-1", "1", "10"], "integer", ["-1", "1", "10"]),
    "classes with gaps": (["1", "2", ""], "integer", ["1", "2", "(missing)"]),
    "leading zeros": (["01", "02"], "category", ["01", "02"]),
    "numbers with a point": (["0.0", "1.0"], "category", ["0.0", "1.0"]),
    "words": (["yes", "no"], "category", ["no", "yes"]),
    "letters for booleans": (["t", "f"], "category", ["f", "t"]),
    "a number among words": (["1", "many"], "category", ["1", "many"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_one_type_are_drafted_in_it(name: str) -> None:
    values, expected, categories = ROWS[name]
    rows = pa.table({"y": values * 30, "z": [str(place % 7) for place in range(30 * len(values))]})
    described, ignored = columns_of_rows(rows, "y", False, "rows.csv", {})
    read = read_back(described[0])
    assert not ignored and read.value_type == expected and list(read.categories) == categories


SCHEMAS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "a boolean": ({"type": "boolean"}, "boolean", ["false", "true"]),
    "a boolean of other words": (
        {"type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        "category",
        ["no", "yes"],
    ),
    "a boolean in the words of the standard": (
        {
            "type": "boolean",
            "trueValues": ["true", "True", "TRUE", "1"],
            "falseValues": ["false", "False", "FALSE", "0"],
        },
        "boolean",
        ["false", "true"],
    ),
    "a boolean that may be missing": (
        {"type": "boolean", "constraints": {"required": False}},
        "boolean",
        ["false", "true", "(missing)"],
    ),
    "a boolean that is listed": (
        {"type": "boolean", "constraints": {"enum": [True, False]}},
        "boolean",
        ["false", "true"],
    ),
    "whole numbers": ({"type": "integer", "constraints": {"enum": [1, 2]}}, "integer", ["1", "2"]),
    "real numbers": ({"type": "number", "constraints": {"enum": [0.5, 1]}}, "real", ["0.5", "1"]),
    "texts of numbers": (
        {"type": "string", "constraints": {"enum": ["1", "2"]}},
        "category",
        ["1", "2"],
    ),
    "codes": (
        {"type": "string", "constraints": {"enum": ["007", "01"]}},
        "category",
        ["007", "01"],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_drafted_in_its_types(name: str, tmp_path: Path) -> None:
    field, expected, categories = SCHEMAS[name]
    (tmp_path / "schema.json").write_text(json.dumps({"fields": [{"name": "y", **field}]}))
    schema = read_schema(tmp_path / "schema.json", "rows.csv")
    (described,) = schema.columns
    read = read_back(described)
    assert (
        not schema.ignored and read.value_type == expected and list(read.categories) == categories
    )


def test_a_parquet_file_s_booleans_are_booleans_and_its_durations_are_left_out(
    tmp_path: Path,
) -> None:
    pq.write_table(
        pa.table({"y": [True, False], "stay": pa.array([1, 2], pa.duration("s"))}),
        tmp_path / "rows.parquet",
    )
    schema = read_schema(tmp_path / "rows.parquet", "rows.parquet")
    (described,) = schema.columns
    assert read_back(described).type == "boolean" and set(schema.ignored) == {"stay"}
