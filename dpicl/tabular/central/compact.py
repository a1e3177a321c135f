"""The same rows in the shortest types that the contract's bounds and lists need: what is counted over and over is read faster."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.contract.models import Contract

_SHORT = tuple((kind, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32())))


def compact(table: pa.Table, contract: Contract) -> pa.Table:
    """Whole numbers in as few bytes as their bounds need, codes in one where the list allows; equal values, same columns.

    A column with numbers that leave the type of their bounds stays as it is; real numbers stay doubles.

    Args:
        table: typed as `parse.typed_table` returns it, shape (rows, columns).
    """
    columns = {}
    for name in table.column_names:
        values, column = table.column(name), contract.columns.get(name)
        if isinstance(column, CategoryColumn) and len(column.categories) <= 128:
            values = values.cast(pa.dictionary(pa.int8(), pa.string()))
        elif isinstance(column, IntegerColumn):
            low, high = column.bounds
            fitting = (kind for kind, least, most in _SHORT if least <= low and high <= most)
            with suppress(pa.ArrowInvalid):  # numbers beyond their bounds are clipped by the mechanisms, not here
                values = values.cast(next(fitting, pa.int64()))
        columns[name] = values
    return pa.table(columns)
