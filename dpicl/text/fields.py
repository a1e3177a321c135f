"""Fields of a file of records, one list per field: JSON (lines, or one list), CSV, Parquet, or
lines of tagged words.

The fields of a record are looked up in it alone; what else it holds is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.errors import DataError
from dpicl.files.bounded import most_bytes, read_parquet
from dpicl.files.csv_text import BYTE_ORDER_MARK, read_csv, utf8
from dpicl.holder import tell_left_out

JSON_LINES = (".jsonl", ".jsonl.gz")
JSON_LISTS, TAGGED = (".json", ".json.gz"), (".tagged", ".tagged.gz")
SUFFIXES = (*JSON_LINES, ".csv", ".csv.gz", ".parquet", *JSON_LISTS, *TAGGED)
Fields = dict[str, list[Any]]
"""Field -> its value in every record, None where it has none: any JSON value, or text."""


def parse_records(
    data: bytes, fields: Sequence[str], where: str, *, leave_out: bool = False
) -> Fields:
    """The fields of all records in a file's (unpacked) content.

    Args:
        where: the file's name, whose suffix names the format.
        leave_out: whether lines that are no record by themselves are left out.

    Raises:
        DataError: the format is unknown, the content breaks it, or a column is missing.
    """
    if not where.endswith(SUFFIXES):
        raise DataError(
            where, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES)
        )
    if where.endswith((*JSON_LINES, *TAGGED)):
        return _by_line(
            data, fields, where, _tagged if where.endswith(TAGGED) else _json, leave_out=leave_out
        )
    if where.endswith(JSON_LISTS):
        return _fields_of(_json_list(data, where, leave_out=leave_out), fields)

    def wanted(names: list[str]) -> list[str]:
        odd = [field for field in fields if names.count(field) != 1]
        if odd:
            raise DataError(
                where,
                f"field {odd[0]!r} is not one of the columns; expected a column for every field, "
                f"each once",
            )
        return list(fields)

    table = (
        read_parquet(data, wanted, where)
        if where.endswith(".parquet")
        else read_csv(data, wanted, where, leave_out=leave_out)
    )
    values: Fields = {}
    for field in fields:
        column, limit = table.column(field), most_bytes(len(data))
        try:
            # in which one long text may stand for a million records
            if pa.types.is_dictionary(column.type):
                lengths = [
                    pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
                    for chunk in column.chunks
                ]
                if sum(lengths) > limit:
                    raise DataError(
                        where,
                        f"field {field!r} holds too many bytes; expected less in a file of its "
                        f"size",
                        detail=f"more than {limit}",
                    )
                column = column.cast(
                    pa.large_string()
                    if pa.types.is_string(column.type.value_type)
                    else pa.large_binary()
                )
            values[field] = list(map(_as_text, column.to_pylist()))
        except (pa.ArrowException, UnicodeDecodeError):
            raise DataError(where, f"field {field!r} holds no text") from None
    return values


def _by_line(
    data: bytes, fields: Sequence[str], where: str, read: Callable[[str], Any], *, leave_out: bool
) -> Fields:
    records, broken = [], []
    if not leave_out:
        utf8(data, where)
    for number, line in enumerate(data.removeprefix(BYTE_ORDER_MARK).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = read(line.decode())
        except UnicodeDecodeError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        else:
            broken.append(number)
    if leave_out:
        tell_left_out(where, left_out=len(broken))
    elif broken:
        what = "words with tags" if read is _tagged else "JSON object"
        expected = (
            "`word:O` or `word:B-SLOT` of every word"
            if read is _tagged
            else "one object in each line"
        )
        raise DataError(
            where,
            f"some lines are no {what}; expected {expected}",
            detail=f"{len(broken)} lines, line {broken[0]} first",
        )
    return _fields_of(records, fields)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json_list(data: bytes, where: str, *, leave_out: bool) -> list[dict[str, Any]]:
    members = _json(utf8(data, where).removeprefix("\ufeff"))
    records = (
        [record for record in members if isinstance(record, dict)]
        if isinstance(members, list)
        else None
    )
    if records is None or not (leave_out or len(records) == len(members)):
        raise DataError(
            where, "is no list of JSON objects; expected one list, of an object for each record"
        )
    tell_left_out(where, left_out=len(members) - len(records))
    return records


def _as_text(value: Any) -> Any:
    """Bytes that are a text as one; others are no text, which is their record's own fault."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _tagged(line: str) -> dict[str, Any] | None:
    """`a:O comedy:B-Genre film:O <=> <NULL>`: a text, and its slots as lists of phrases; None where
    a word has no tag.
    """
    words, slots, phrase = [], dict[str, list[str]](), ""
    for pair in line.removesuffix("\r").partition(" <=> ")[0].split():
        word, _, tag = pair.rpartition(":")
        kind, _, slot = tag.partition("-")
        if not word or (kind, bool(slot)) not in (("O", False), ("B", True), ("I", True)):
            return None
        words.append(word)
        if kind == "I" and slot == phrase:
            slots[slot][-1] += f" {word}"
        elif slot:
            slots.setdefault(slot, []).append(word)
        phrase = slot
    return {"text": " ".join(words), "slots": slots}


def _fields_of(records: Iterable[dict[str, Any]], fields: Sequence[str]) -> Fields:
    values: Fields = {field: [] for field in fields}
    for record in records:
        for field in fields:
            value: Any = record
            for key in field.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            values[field].append(value)
    return values
