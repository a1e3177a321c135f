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

Values that a program or a driver holds as objects of Python, as CSV would hold them: each by its
own type, whatever the others are.

Rows in memory, of pandas, polars, Arrow or whatever gives an Arrow stream, as an Arrow table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from math import isfinite, isnan
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from dpicl.contract.base import as_written
from dpicl.contract.columns.base import is_text
from dpicl.contract.models import Contract
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.records import sound

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


def is_plain(kind: pa.DataType, wanted: str = "categories") -> bool:
    """What columns take that take `categories`, `numbers` or `dates`, bytes apart."""
    return bool(
        pa.types.is_null(kind) or is_text(kind) or any(test(kind) for test in _TAKEN[wanted])
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
    if is_bytes(stored) or is_plain(stored, wanted):
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


NO_VALUE = "\x00neither number nor text"
"""In the place of a value that CSV has no text for: it breaks every column's rule by itself."""
NO_VALUE_RULE = (
    "holds neither numbers nor text; expected numbers, text, dates or truth values in its cells, "
    "or no such column in the contract but under `source: {ignore: [...]}`"
)
NO_DATE = "\x00no date as stated"
"""The same in the place of a date that is written otherwise than `source.dates` says."""
NO_DATE_RULE = "is no date in the form that `source.dates` states"
_MOST_DIGITS = 400
"""Of a decimal that is written without an exponent; a number of more is beyond 64 bits in any
case.
"""


def of_objects(values: Iterable[Any]) -> pa.Array:
    """A column of a driver's objects, of shape (rows,): of those that Arrow has no plain type for
    together, each is a text.
    """
    every = list(values)
    with suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
        column = pa.array(every, from_pandas=False)
        if is_bytes(column.type):
            return as_utf8(column)
        if is_plain(column.type):
            return column
    return texts(every)


def texts(values: Iterable[Any]) -> pa.Array:
    """A column of objects as texts, of shape (rows,): null where one is missing, `NO_VALUE` where
    it is nothing that CSV would hold.
    """
    written = [_text(value) for value in values]
    try:
        return pa.array(written, pa.string())
    except (pa.ArrowException, UnicodeError):  # half a letter
        return as_utf8(
            pa.array(
                [text and text.encode(errors="surrogatepass") for text in written], pa.binary()
            )
        )


def as_utf8(column: pa.Array) -> pa.Array:
    """Bytes of any length as texts, of shape (rows,): `NO_VALUE` where they are none in UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in column.to_pylist()], pa.string())


def _text(value: Any) -> str | None:
    # a time of numpy's would be a plain number where Python has none as exact
    if isinstance(value, np.generic):
        is_time = value.dtype.kind in "mM"
        value = (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).item()
        value = NO_VALUE if is_time and not isinstance(value, date | None) else value
    # of pandas, which may not be installed
    if value is None or type(value).__name__ in (
        "NAType",
        "NaTType",
    ):
        return None
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else repr(value)
    if isinstance(value, Decimal):
        return (
            None
            if value.is_nan()
            else format(value, "f")
            if abs(value.adjusted()) < _MOST_DIGITS
            else str(value)
        )
    if isinstance(value, date):  # and a datetime, which is one
        return value.isoformat()
    with suppress(ValueError):  # bytes of no text; more digits than Python writes
        text = value.decode() if isinstance(value, bytes) else as_written(value)
        return str(text) if isinstance(text, str | UUID) else NO_VALUE
    return NO_VALUE


def is_pandas(rows: Any) -> bool:
    """Whether they are a DataFrame; pandas is not imported for it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def without_views(table: pa.Table) -> pa.Table:
    """A table whose texts and bytes are of types that rows can be chosen from, as those of polars
    cannot.
    """
    kinds = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for place, field in enumerate(table.schema):
        if (kind := kinds.get(field.type)) is not None:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table


def as_arrow(rows: Any, columns_to_read: Callable[[list[str]], Sequence[str]] = list) -> pa.Table:
    """Rows in memory as an Arrow table: of pandas, polars, Arrow, or whatever gives an Arrow
    stream; of their columns those to read, by all names. Others are not looked at. Raises
    DataError: a column has no plain values; ParameterError: it is nothing of the kind.
    """
    try:
        if is_pandas(rows):
            names = [str(name) for name in rows.columns]
            wanted = columns_to_read(names)
            columns = {place: name for place, name in enumerate(names) if name in wanted}
            return sound(
                pa.Table.from_arrays(
                    [column_of(name, rows.iloc[:, place]) for place, name in columns.items()],
                    names=[*columns.values()],
                )
            )
        if isinstance(rows, pa.RecordBatch) or (
            hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.Table)
        ):
            rows = pa.table(rows)
        if isinstance(rows, pa.Table):
            if columns_to_read is not list:
                rows = rows.select(list(columns_to_read(rows.column_names)))
            return sound(without_views(rows))
    except pa.ArrowException:
        raise DataError(
            "rows",
            "cannot be read as an Arrow table; expected columns of numbers, texts, dates or "
            "categories",
        ) from None
    expected = (
        "a data frame of pandas, polars or Arrow, the path of a file or folder, s3://…, or a "
        "dpicl.Query"
    )
    raise ParameterError("rows", f"<{type(rows).__name__}>", expected)


def column_of(name: str, values: Any) -> pa.Array:
    """One column of a DataFrame. Of Python objects every cell is written as a text by its own type,
    whatever the other cells are.
    """
    if hasattr(values, "sparse"):
        values = values.sparse.to_dense()
    if hasattr(values, "cat") and values.cat.categories.dtype == object:
        return texts(values.cat.categories).take(
            pa.array(values.cat.codes.to_numpy(), mask=(values.cat.codes < 0).to_numpy())
        )
    if values.dtype == object:
        return texts(values)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError("rows", NO_VALUE_RULE, column=name) from None
