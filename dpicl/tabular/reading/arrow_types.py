"""Which types of Arrow a column of the contract takes: a closed list, since most types cast to
numbers that mean something else.

A duration would be read as a number of its stored unit, a pandas period as one of years since 1970,
an identifier as its bytes.

    category, boolean   text, numbers, booleans, dates and times of a day
    integer, real       text, numbers
    date, datetime      text, dates, times of a day, and numbers, which are read as written:
                        20240229

Text is any layout of strings, and bytes of any length, as Parquet files without a mark have them; a
dictionary is what its values are; a column of nulls alone has no type to refuse. A type is a fact
about the column, whatever is in its rows.
"""

from __future__ import annotations

import re

import pyarrow as pa

from dpicl.contract.columns.base import is_text
from dpicl.contract.models import Contract
from dpicl.errors import DataError

_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_DATES = (pa.types.is_date, pa.types.is_timestamp)
_TAKEN = {
    "categories": (*_NUMBERS, pa.types.is_boolean, *_DATES),
    "numbers": _NUMBERS,
    "dates": (*_NUMBERS, *_DATES),
}
_INSTEAD = (
    (pa.types.is_duration, "a number of a unit, such as hours"),
    (pa.types.is_time, "text, or a number of minutes"),
    (pa.types.is_boolean, "`type: boolean` in the contract"),
    (pa.types.is_date, "`type: date` in the contract"),
    (pa.types.is_timestamp, "`type: datetime` in the contract"),
)
"""What may help whose column is of such a type."""


def is_bytes(kind: pa.DataType) -> bool:
    """Bytes of any length."""
    return any(test(kind) for test in _BYTES)


def is_plain(kind: pa.DataType) -> bool:
    """What a category's column takes, bytes apart."""
    return bool(
        pa.types.is_null(kind) or is_text(kind) or any(test(kind) for test in _TAKEN["categories"])
    )


def check_types(schema: pa.Schema, contract: Contract, where: str) -> None:
    """Every column of the contract is of a type that it takes; others are not looked at. Raises
    DataError: one is not.
    """
    for name, column in contract.columns.items():
        if name in schema.names:
            check_taken(schema.field(name).type, column.takes, name, where)


def check_taken(kind: pa.DataType, wanted: str, name: str, where: str) -> None:
    """Raises DataError: columns that take `categories`, `numbers` or `dates` do not take this
    type.
    """
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    if (
        pa.types.is_null(stored)
        or is_text(stored)
        or any(test(stored) for test in (*_BYTES, *_TAKEN[wanted]))
    ):
        return
    plain = "numbers" if wanted == "categories" else wanted
    instead = next(
        (said for test, said in _INSTEAD if test(stored)),
        "one of these in its place, such as by `.astype(str)`"
        if isinstance(stored, pa.BaseExtensionType)
        else "one of these in its place",
    )
    # without the names that a nested type has in it
    word = getattr(stored, "extension_name", re.split(r"[\[<(]", str(stored))[0])
    raise DataError(
        where, f"holds neither {plain} nor text but {word}; expected {instead}", column=name
    )
