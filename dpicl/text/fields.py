"""Fields of a file of records, one list per field: JSON Lines, CSV or Parquet.

The fields of a record are looked up in it alone; what else it holds is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.errors import DataError
from dpicl.files.bounded import most_bytes, read_parquet
from dpicl.files.csv_text import BYTE_ORDER_MARK, read_csv, utf8
from dpicl.holder import tell_left_out

JSON_LINES = (".jsonl", ".jsonl.gz")
SUFFIXES = (*JSON_LINES, ".csv", ".csv.gz", ".parquet")
Fields = dict[str, list[Any]]
"""Field -> its value in every record, None where it has none: any JSON value, or text."""


def parse_records(data: bytes, fields: Sequence[str], where: str, *, leave_out: bool = False) -> Fields:
    """The fields of all records in a file's (unpacked) content.

    Args:
        where: the file's name, whose suffix names the format.
        leave_out: whether lines that are no record by themselves are left out.

    Raises:
        DataError: the format is unknown, the content breaks it, or a column is missing.
    """
    if not where.endswith(SUFFIXES):
        raise DataError(where, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES))
    if where.endswith(JSON_LINES):
        return _json_lines(data, fields, where, leave_out=leave_out)

    def wanted(names: list[str]) -> list[str]:
        odd = [field for field in fields if names.count(field) != 1]
        if odd:
            raise DataError(where, f"field {odd[0]!r} is not one of the columns; expected a column for every field, each once")
        return list(fields)

    table = read_parquet(data, wanted, where) if where.endswith(".parquet") else read_csv(data, wanted, where, leave_out=leave_out)
    values: Fields = {}
    for field in fields:
        column, limit = table.column(field), most_bytes(len(data))
        try:
            if pa.types.is_dictionary(column.type):  # in which one long text may stand for a million records
                lengths = [pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks]
                if sum(lengths) > limit:
                    raise DataError(
                        where, f"field {field!r} holds too many bytes; expected less in a file of its size", detail=f"more than {limit}"
                    )
                column = column.cast(pa.large_string())
            values[field] = column.to_pylist()
        except (pa.ArrowException, UnicodeDecodeError):
            raise DataError(where, f"field {field!r} holds no text") from None
    return values


def _json_lines(data: bytes, fields: Sequence[str], where: str, *, leave_out: bool) -> Fields:
    values: Fields = {field: [] for field in fields}
    broken: list[int] = []
    if not leave_out:
        utf8(data, where)
    for number, line in enumerate(data.removeprefix(BYTE_ORDER_MARK).split(b"\n"), 1):
        try:
            text = line.decode()
            if not text.strip():
                continue
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            broken.append(number)
            continue
        for field in fields:
            value: Any = record
            for key in field.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            values[field].append(value)
    if leave_out:
        tell_left_out(where, left_out=len(broken))
    elif broken:
        raise DataError(
            where, "some lines are no JSON object; expected one object in each line", detail=f"{len(broken)} lines, line {broken[0]} first"
        )
    return values
