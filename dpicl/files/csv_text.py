"""CSV as columns of text: UTF-8, a comma, a header line and, where needed, double quotes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from dpicl.errors import DataError
from dpicl.holder import tell_left_out

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_ROW = 1 << 20
_END = b"\x1fend\x1f"
"""In every field of a row behind the last one."""
_QUOTED = re.compile(rb'(?:\A|[,\r\n])"[^"]*+(?:""[^"]*+)*+"(?=([^,\r\n])?)')
"""A field in quotes, and what stands behind it that begins no other field."""
_LINE_END = re.compile("[\r\n]")
_NO_CSV = "is not well-formed CSV; expected closed quotes and rows under 1 MiB"


def read_csv(
    data: bytes,
    check: Callable[[list[str]], Collection[str] | None],
    where: str,
    *,
    leave_out: bool = False,
) -> pa.Table:
    """Columns as text: shape (rows, columns).

    Args:
        check: is given the header's names, and may refuse them; it gives those that are needed, or
            None for all.
        leave_out: whether rows with too many or too few fields, and those with other bytes than
            UTF-8 in a column that is needed, are left out, each by itself, in place of a refusal.

    Raises:
        DataError: the content is not UTF-8 or not well-formed CSV, or rows are ragged.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    # alone: a file that is one long line is refused before it is copied
    beginning = data[:_LONGEST_ROW]
    if len(data) > _LONGEST_ROW:
        beginning = beginning[: max(beginning.rfind(b"\n"), beginning.rfind(b"\r")) + 1]
        if not beginning:
            raise DataError(where, _NO_CSV)
    if not leave_out:
        utf8(data, where)
    try:
        names = next(
            csv.reader(io.StringIO(beginning.decode(errors="replace"), newline=""), strict=True), []
        )
    except csv.Error:
        raise DataError(where, "has a first line that is not CSV; expected a header") from None
    needed = check(names)
    table, ragged = _parsed(
        data, names, where, longest_row=len(data) + _LONGEST_ROW if leave_out else _LONGEST_ROW
    )
    if ragged and not leave_out:
        rows = f"{ragged} of {ragged + table.num_rows} rows"
        raise DataError(
            where, f"some rows are ragged; expected {len(names)} fields in each", detail=rows
        )
    texts = _decoded(table if needed is None else table.select(list(needed)))
    tell_left_out(where, left_out=ragged + table.num_rows - texts.num_rows)
    return texts


def _parsed(data: bytes, names: list[str], where: str, *, longest_row: int) -> tuple[pa.Table, int]:
    """All columns as bytes, and how many rows have another number of fields. Raises DataError: rows
    do not end, or a quote is never closed, or closed by one that begins another row's field, by
    which the rows between would be lost.
    """
    ragged, has_lines = 0, False

    def note(row: pa_csv.InvalidRow) -> str:
        nonlocal ragged, has_lines
        ragged, has_lines = ragged + 1, has_lines or _LINE_END.search(row.text or "") is not None
        return "skip"

    # A header alone needs its end of line; a blank line is skipped; a row of our own comes last,
    # unless a quote before it is open.
    ended = b"".join((data, b"\n", b",".join([_END] * len(names)), b"\n"))
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(ended),
            read_options=pa_csv.ReadOptions(block_size=longest_row),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        raise DataError(where, _NO_CSV) from None
    if not table.num_rows or any(column[-1].as_py() != _END for column in table.columns):
        raise DataError(where, _NO_CSV)
    has_lines = has_lines or any(
        pc.any(pc.match_substring_regex(column, _LINE_END.pattern)).as_py()
        for column in table.columns
    )
    if has_lines and any(
        one[1] and _LINE_END.search(one[0].decode("latin-1"), 1) for one in _QUOTED.finditer(data)
    ):
        raise DataError(where, _NO_CSV)
    return table.slice(0, table.num_rows - 1), ragged


def _decoded(table: pa.Table) -> pa.Table:
    """Columns of bytes as text, without the rows that are none."""
    kept = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            kept &= np.fromiter(map(_is_utf8, column.to_pylist()), dtype=bool, count=table.num_rows)
    table = table if kept.all() else table.filter(pa.array(kept))
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def utf8(data: bytes, where: str) -> str:
    """The content as text.

    Raises:
        DataError: it is not UTF-8; names the first line that is not.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            where, "is not UTF-8; expected text in UTF-8", detail=f"from line {line} on"
        ) from None
