"""Reading a table strictly: CSV, gzipped CSV or Parquet, typed by its contract.

A row digest tells whether two files hold the same rows, whatever their order and format.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from dpicl.contract.models import Contract
from dpicl.errors import DataError
from dpicl.tabular.bounded import read_bytes, read_parquet
from dpicl.tabular.parse import check_columns, check_distinct, typed_table

SUFFIXES = (".csv", ".csv.gz", ".parquet")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_table(path: Path, contract: Contract) -> pa.Table:
    """The rows of a file, typed by the contract; see `parse.typed_table`.

    CSV is UTF-8 with a comma, a header line and, where needed, double quotes.

    Raises:
        DataError: the file cannot be read or breaks a rule; names file, column, rule and
            count, never a value.
    """
    if not path.name.endswith(SUFFIXES):
        raise DataError(path.name, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES))
    data = read_bytes(path)
    columns = _parquet_columns(data, contract, path.name) if path.suffix == ".parquet" else _csv_columns(data, contract, path.name)
    return typed_table(columns, contract, path.name)


def read_text_table(path: Path) -> pa.Table:
    """All columns of any CSV file as text: shape (rows, columns).

    Raises:
        DataError: as for `read_table`, without the rules of a contract.
    """
    data = read_bytes(path).removeprefix(_BYTE_ORDER_MARK)
    names = _header(data, path.name)
    check_distinct(names, path.name)
    return _csv_text(data, names, path.name)


def _parquet_columns(data: bytes, contract: Contract, where: str) -> pa.Table:
    def wanted(names: list[str]) -> list[str]:
        check_columns(names, contract, where)
        return list(contract.read_columns)

    return read_parquet(data, wanted, where)


def _csv_columns(data: bytes, contract: Contract, where: str) -> pa.Table:
    data = data.removeprefix(_BYTE_ORDER_MARK)
    names = _header(data, where)
    check_columns(names, contract, where)
    return _csv_text(data, names, where)


def _header(data: bytes, where: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True), [])
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(where, f"is not UTF-8 from line {line} on; expected text in UTF-8") from None
    except csv.Error:
        raise DataError(where, "has a first line that is not CSV; expected a header") from None


def _csv_text(data: bytes, names: list[str], where: str) -> pa.Table:
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
        raise DataError(where, "is not well-formed CSV; expected closed quotes and rows under 1 MiB") from None
    if ragged:
        raise DataError(where, f"{len(ragged)} of {len(ragged) + table.num_rows} rows are ragged; expected {len(names)} fields in each")
    return table


def canonical_order(table: pa.Table) -> pa.Table:
    """The rows sorted by all columns, the first counting most; categories by their code.

    Args:
        table: typed as `read_table` returns it, shape (rows, columns).
    """
    keys = [_numbers(column) for column in reversed(table.columns)]
    return table.take(np.lexsort(keys))


def rows_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal.

    The same for any order of rows, columns and categories, and for any source format.

    Args:
        table: typed as `read_table` returns it, shape (rows, columns).
    """
    columns, header = [], []
    for name in sorted(table.column_names):
        values, categories = _comparable(table.column(name))
        columns.append(values)
        header.append([name, values.dtype.str, categories])
    order = np.lexsort(columns[::-1])
    digest = hashlib.sha256(json.dumps([1, table.num_rows, header]).encode())
    for values in columns:
        digest.update(values[order].tobytes())
    return digest.hexdigest()


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Values, or codes of a category column: shape (rows,)."""
    values = column.combine_chunks()
    return np.asarray(values.indices if pa.types.is_dictionary(values.type) else values)


def _comparable(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Little-endian values of shape (rows,), and the categories that occur, sorted as text."""
    numbers = _numbers(column)
    if not pa.types.is_dictionary(column.type):
        return numbers.astype(numbers.dtype.newbyteorder("<")), []
    all_categories = column.combine_chunks().dictionary.to_pylist()
    used = sorted(all_categories[code] for code in np.unique(numbers))
    rank = {category: number for number, category in enumerate(used)}
    ranks = np.array([rank.get(category, -1) for category in all_categories], dtype="<i8")
    return ranks[numbers], used
