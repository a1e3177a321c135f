"""Rows that a user asks about: the contract's features, without a label."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pyarrow as pa

from dpicl.contract.models import CategoryColumn, Contract
from dpicl.errors import DataError
from dpicl.files.csv_text import read_csv
from dpicl.tabular.reading.parse import check_distinct, typed_table
from dpicl.types import QueryTable


def read_asked(data: bytes, contract: Contract, where: str) -> QueryTable:
    """Rows of CSV with a header, or of JSON objects one a line; columns that are no features are not looked at.

    Args:
        where: the file's name, for messages; one that ends in `.jsonl` holds JSON.

    Raises:
        DataError: a feature is missing, a value breaks the contract, or there is no row.
    """
    columns = (
        _objects(data, contract, where) if where.endswith(".jsonl") else read_csv(data, lambda names: _check(names, contract, where), where)
    )
    known = {name: columns.column(name) for name in contract.features}
    unasked = [name for name in contract.read_columns if name not in known]
    filled = pa.table({**known, **{name: pa.array([_any_value(contract, name)] * columns.num_rows) for name in unasked}})
    typed = typed_table(filled, contract, where)
    if typed.num_rows < columns.num_rows:
        raise DataError(where, "holds rows with a missing value; expected every feature", count=columns.num_rows - typed.num_rows)
    return QueryTable(typed.select(list(contract.columns)))


def _check(names: list[str], contract: Contract, where: str) -> None:
    check_distinct(names, where)
    missing = [name for name in contract.features if name not in names]
    if missing:
        raise DataError(
            where, f"is not among the columns; expected all {len(contract.features)} features of the contract", column=missing[0]
        )


def _any_value(contract: Contract, name: str) -> str:
    """For a column that no query shows, such as the label."""
    column = contract.columns.get(name)
    if column is None:
        return "nobody"
    return column.categories[0] if isinstance(column, CategoryColumn) else str(column.bounds[0])


def _objects(data: bytes, contract: Contract, where: str) -> pa.Table:
    try:
        rows = [json.loads(line.decode("utf-8")) for line in data.removeprefix(codecs.BOM_UTF8).split(b"\n") if line.strip()]
    except (ValueError, RecursionError):
        raise DataError(where, "is no JSON in UTF-8; expected one object a line") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(where, "holds no rows, or others than objects; expected one JSON object a line")
    absent = [sum(row.get(name) is None for row in rows) for name in contract.features]
    for name, count in zip(contract.features, absent, strict=True):
        if count:
            raise DataError(where, "is missing from some rows; expected every feature in each", column=name, count=count)
    return pa.table({name: pa.array([_text(row[name], where, name) for row in rows]) for name in contract.features})


def _text(value: Any, where: str, name: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(where, "holds half a letter; expected text in UTF-8", column=name)
    return text
