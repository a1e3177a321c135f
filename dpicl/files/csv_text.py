"""CSV as columns of text: UTF-8, a comma, a header line and, where needed, double quotes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.csv as pa_csv

from dpicl.errors import DataError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_ROW = 1 << 20
_NO_CSV = "is not well-formed CSV; expected closed quotes and rows under 1 MiB"


def read_csv(data: bytes, check: Callable[[list[str]], object], where: str) -> pa.Table:
    """All columns as text: shape (rows, columns).

    Args:
        check: is given the header's names, and may refuse them.

    Raises:
        DataError: the content is not UTF-8 or not well-formed CSV, or rows are ragged.
    """
    data = data.removeprefix(_BYTE_ORDER_MARK)
    beginning = data[:_LONGEST_ROW]  # alone: a file that is one long line is refused before it is copied
    if len(data) > _LONGEST_ROW:
        beginning = beginning[: max(beginning.rfind(b"\n"), beginning.rfind(b"\r")) + 1]
        if not beginning:
            raise DataError(where, _NO_CSV)
    utf8(data, where)
    try:
        names = next(csv.reader(io.StringIO(beginning.decode(), newline=""), strict=True), [])
    except csv.Error:
        raise DataError(where, "has a first line that is not CSV; expected a header") from None
    check(names)
    ragged: list[int] = []

    def note(row: pa_csv.InvalidRow) -> str:
        ragged.append(row.actual_columns)
        return "skip"

    try:
        table = pa_csv.read_csv(
            pa.BufferReader(data + b"\n"),  # a header alone needs its end of line; a blank line is skipped
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowException:
        raise DataError(where, _NO_CSV) from None
    if ragged:
        raise DataError(
            where,
            f"some rows are ragged; expected {len(names)} fields in each",
            detail=f"{len(ragged)} of {len(ragged) + table.num_rows} rows",
        )
    return table


def utf8(data: bytes, where: str) -> str:
    """The content as text.

    Raises:
        DataError: it is not UTF-8; names the first line that is not.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(where, "is not UTF-8; expected text in UTF-8", detail=f"from line {line} on") from None
