"""Reading a table strictly: CSV, gzipped CSV or Parquet, typed by its contract.

A row digest tells whether two files hold the same rows, whatever their order and format.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.errors import DataError
from dpicl.files.bounded import read_bytes, read_parquet
from dpicl.files.csv_text import read_csv
from dpicl.files.objects import Stored
from dpicl.tabular.reading.parse import check_columns, check_distinct, typed_table

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_table(path: Path | Stored, contract: Contract) -> pa.Table:
    """The rows of a file or object, typed by the contract; see `parse.typed_table`.

    CSV is UTF-8 with a comma, a header line and, where needed, double quotes.
    Raises DataError: the file cannot be read or breaks a rule; names file, column, rule and count, never a value; SourceError: the store
    does not give the object.
    """
    if not path.name.endswith(SUFFIXES):
        raise DataError(path.name, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES))
    data = read_bytes(path)
    if path.suffix == ".parquet":

        def columns_to_read(names: list[str]) -> list[str]:
            check_columns(names, contract, path.name)
            return list(contract.read_columns)

        columns = read_parquet(data, columns_to_read, path.name)
    else:
        columns = read_csv(data, lambda names: check_columns(names, contract, path.name), path.name)
    return typed_table(columns, contract, path.name)


def read_text_table(path: Path) -> pa.Table:
    """All columns of any CSV file as text: shape (rows, columns).
    Raises DataError: as for `read_table`, without the rules of a contract.
    """
    return read_csv(read_bytes(path), lambda names: check_distinct(names, path.name), path.name)


def canonical_order(table: pa.Table) -> pa.Table:
    """The rows of a table as `read_table` types it, sorted by all columns, the first counting most; categories by their code."""
    keys = [_numbers(column) for column in reversed(table.columns)]
    return table.take(np.lexsort(keys))


def rows_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal, of a table as `read_table` types it.
    The same for any order of rows, columns and categories, and for any source format.
    """
    columns, header = [], []
    for name in sorted(table.column_names):
        column, used = table.column(name), []
        values = _numbers(column)
        if pa.types.is_dictionary(column.type):  # codes by the rank of those categories that occur, sorted as text
            categories = column.combine_chunks().dictionary.to_pylist()
            used = sorted(categories[code] for code in np.flatnonzero(np.bincount(values)))
            rank = {category: number for number, category in enumerate(used)}
            values = np.array([rank.get(category, -1) for category in categories], dtype="<i8")[values]
        values = values.astype(values.dtype.newbyteorder("<"))
        columns.append(values)
        header.append([name, values.dtype.str, used])
    order = np.lexsort(columns[::-1])
    digest = hashlib.sha256(json.dumps([1, table.num_rows, header]).encode())
    for values in columns:
        digest.update(values[order].tobytes())
    return digest.hexdigest()


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Values, or codes of a category column: shape (rows,)."""
    values = column.combine_chunks()
    return np.asarray(values.indices if pa.types.is_dictionary(values.type) else values)
