"""The same rows in the shortest types that the contract's bounds and lists need: what is counted over and over is read faster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpicl.contract.models import CategoryColumn, Column, Contract, IntegerColumn

_SHORT = (pa.int8(), pa.int16(), pa.int32())


def compact(table: pa.Table, contract: Contract) -> pa.Table:
    """Whole numbers in as few bytes as their bounds need, codes in one where the list allows; equal values, same columns.

    A column with numbers that leave the type of their bounds stays as it is; real numbers stay doubles.

    Args:
        table: typed as `parse.typed_table` returns it, shape (rows, columns).
    """
    shorter = {name: _shorter(table.column(name), column) for name, column in contract.columns.items()}
    return pa.table({name: shorter.get(name, table.column(name)) for name in table.column_names})


def _shorter(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if isinstance(column, CategoryColumn):
        return values.cast(pa.dictionary(pa.int8(), pa.string())) if len(column.categories) <= 128 else values
    if not isinstance(column, IntegerColumn):
        return values
    try:
        return values.cast(_type_of(*column.bounds))
    except pa.ArrowInvalid:  # numbers beyond their bounds are clipped by the mechanisms, not here
        return values


def _type_of(low: int, high: int) -> pa.DataType:
    kinds = (kind for kind in _SHORT if np.iinfo(kind.to_pandas_dtype()).min <= low and high <= np.iinfo(kind.to_pandas_dtype()).max)
    return next(kinds, pa.int64())
