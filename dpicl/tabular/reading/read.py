"""Reading a table strictly: CSV, gzipped CSV or Parquet, typed by its contract.

A row digest tells whether two files hold the same rows, whatever their order and format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.errors import DataError
from dpicl.files.bounded import read_bytes, read_parquet
from dpicl.files.csv_text import read_csv
from dpicl.files.objects import Stored
from dpicl.tabular.reading.header import check_columns, check_distinct
from dpicl.tabular.reading.parse import typed_table

_LARGEST = 2**62
"""Of a key that several columns are put into."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_table(path: Path | Stored, contract: Contract, *, part: bool = False) -> pa.Table:
    """The rows of a file or object, typed by the contract; see `parse.typed_table`. A `part` of a
    source may have no header either.

    CSV is UTF-8 with a comma, a header line and, where needed, double quotes.
    Raises DataError: the file cannot be read or breaks a rule; names file, column, rule and count,
    never a value; SourceError: the store does not give the object.
    """
    if not path.name.endswith(SUFFIXES):
        raise DataError(
            path.name, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES)
        )
    data = read_bytes(path, part=part)
    if part and not data.strip():  # of nothing there is no header either
        return no_rows(contract)

    def columns_to_read(names: list[str]) -> list[str]:
        check_columns(names, contract, path.name)
        return list(contract.read_columns)

    if path.suffix == ".parquet":
        columns = read_parquet(data, columns_to_read, path.name)
    else:
        columns = read_csv(
            data,
            columns_to_read,
            path.name,
            leave_out=contract.leaves_out and not contract.exchanges,
        )
    return typed_table(columns, contract, path.name)


def no_rows(contract: Contract) -> pa.Table:
    """A table of none, typed as `read_table` types it."""
    return typed_table(
        pa.table({name: pa.array([], pa.string()) for name in contract.read_columns}),
        contract,
        contract.name,
    )


def read_text_table(path: Path) -> pa.Table:
    """All columns of any CSV file as text: shape (rows, columns).
    Raises DataError: as for `read_table`, without the rules of a contract.
    """
    return read_csv(read_bytes(path), lambda names: check_distinct(names, path.name), path.name)


def canonical_order(table: pa.Table) -> pa.Table:
    """The rows of a table as `read_table` types it, sorted by all columns, the first counting most;
    categories by their code.
    """
    return table.take(_order([_numbers(column) for column in table.columns]))


def rows_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal, of a table as `read_table` types it.
    The same for any order of rows, columns and categories, and for any source format.
    """
    columns, header = [], []
    for name in sorted(table.column_names):
        column, used = table.column(name), []
        values = _numbers(column)
        # codes by the rank of those categories that occur, sorted as text
        if pa.types.is_dictionary(column.type):
            categories = column.combine_chunks().dictionary.to_pylist()
            used = sorted(categories[code] for code in np.flatnonzero(np.bincount(values)))
            rank = {category: number for number, category in enumerate(used)}
            values = np.array([rank.get(category, -1) for category in categories], dtype="<i8")[
                values
            ]
        values = values.astype(values.dtype.newbyteorder("<"))
        columns.append(values)
        header.append([name, values.dtype.str, used])
    order = _order(columns)
    digest = hashlib.sha256(json.dumps([1, table.num_rows, header]).encode())
    for values in columns:
        digest.update(values[order].tobytes())
    return digest.hexdigest()


def _order(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Rows sorted by all columns, the first counting most: shape (rows,). Whole numbers of
    neighbouring columns are sorted as one.
    """
    keys, sizes = list[np.ndarray](), list[int]()
    for values in columns:
        is_whole = (
            values.dtype.kind in "iu" and np.can_cast(values.dtype, np.int64) and len(values) > 0
        )
        low, high = (int(values.min()), int(values.max())) if is_whole else (0, _LARGEST)
        size = high - low + 1
        # as it is: a number with decimals, or of a range that a difference does not hold
        if size > _LARGEST:
            keys, sizes = [*keys, values], [*sizes, size]
        elif keys and sizes[-1] * size <= _LARGEST:
            keys[-1], sizes[-1] = (
                keys[-1] * size + (values.astype(np.int64) - low),
                sizes[-1] * size,
            )
        else:
            keys, sizes = [*keys, values.astype(np.int64) - low], [*sizes, size]
    if sizes[0] > _LARGEST:
        return np.lexsort(keys[::-1])
    # several times as fast as a stable sort; rows that are equal in all columns are the same ones
    order = np.argsort(keys[0])
    if len(keys) > 1:
        first = keys[0][order]
        alike = first[1:] == first[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        # 0.0 and -0.0 are equal, and stay in the order that they came in
        tied = np.sort(order[places])
        order[places] = tied[np.lexsort([key[tied] for key in reversed(keys)])]
    return order


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Values, or codes of a category column: shape (rows,)."""
    values = column.combine_chunks()
    return np.asarray(values.indices if pa.types.is_dictionary(values.type) else values)
