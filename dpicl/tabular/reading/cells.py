"""Values that a program or a driver holds as objects of Python, as CSV would hold them: each by its
own type, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from math import isfinite, isnan
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from dpicl.contract.base import as_written
from dpicl.tabular.reading.arrow_types import is_bytes, is_plain

NO_VALUE = "\x00neither number nor text"
"""In the place of a value that CSV has no text for: it breaks every column's rule by itself."""
NO_VALUE_RULE = (
    "holds neither numbers nor text; expected numbers, text, dates or truth values in its cells, "
    "or no such column in the contract but under "
    "`source: {ignore: [...]}`"
)
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
        is_time, value = (
            value.dtype.kind in "mM",
            (value.astype("datetime64[us]") if value.dtype.kind == "M" else value).item(),
        )
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
