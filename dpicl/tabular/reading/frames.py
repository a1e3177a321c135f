"""Rows in memory, of pandas, polars, Arrow or whatever gives an Arrow stream, as an Arrow table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from dpicl.errors import DataError, ParameterError
from dpicl.tabular.reading.cells import NO_VALUE_RULE, texts


def is_pandas(rows: Any) -> bool:
    """Whether they are a DataFrame; pandas is not imported for it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


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
            return pa.Table.from_arrays(
                [column_of(name, rows.iloc[:, place]) for place, name in columns.items()],
                names=[*columns.values()],
            )
        if isinstance(rows, pa.RecordBatch) or (
            hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.Table)
        ):
            rows = pa.table(rows)
        if isinstance(rows, pa.Table):
            return (
                rows
                if columns_to_read is list
                else rows.select(list(columns_to_read(rows.column_names)))
            )
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
