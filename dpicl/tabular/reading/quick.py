"""Columns that come typed, as Parquet has them: taken as they are where text would give the same.

Whatever is not plainly right (a null where none may be, a fraction, an unknown category) is left to
the way by text, which says what is wrong with it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.columns import CategoryColumn, Column, DateColumn, IntegerColumn
from dpicl.tabular.reading.arrow_types import is_text


def quick_column(
    values: pa.ChunkedArray, column: Column, longest_text: int
) -> pa.ChunkedArray | None:
    """The column as int64, float64 or dictionary<int16, string>, whose texts have at most so many
    bytes; None where only text can tell.
    """
    kind = values.type
    if column.nullable and pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    if values.null_count and not column.nullable:
        return None
    if isinstance(column, CategoryColumn):
        return (
            _categories(values, column, longest_text)
            if pa.types.is_dictionary(kind) and is_text(kind.value_type)
            else None
        )
    if isinstance(column, DateColumn):
        return _moments(values, column)
    if isinstance(column, IntegerColumn):
        return values.cast(pa.int64()) if pa.types.is_signed_integer(kind) else None
    if pa.types.is_signed_integer(kind):
        return values.cast(pa.int64()).cast(pa.float64(), safe=False)
    if pa.types.is_float64(kind) and all(
        bool(np.isfinite(chunk.drop_null().to_numpy()).all()) for chunk in values.chunks
    ):
        return pc.add(values, 0.0)  # turns -0.0 into 0.0
    return None


def _categories(
    values: pa.ChunkedArray, column: CategoryColumn, longest_text: int
) -> pa.ChunkedArray | None:
    """Codes of the dictionary's texts, looked up once for each, then for every row."""
    categories, chunks = pa.array(column.categories), []
    for chunk in values.chunks:
        texts = chunk.dictionary.cast(pa.string())
        if texts.null_count or pc.any(pc.greater(pc.binary_length(texts), longest_text)).as_py():
            return None
        codes = pc.index_in(texts, value_set=categories).cast(pa.int16()).take(chunk.indices)
        if column.nullable:
            codes = pc.if_else(
                pc.is_null(chunk.indices), pa.scalar(len(categories) - 1, codes.type), codes
            )
        if codes.null_count:
            return None
        chunks.append(pa.DictionaryArray.from_arrays(codes, categories))
    return pa.chunked_array(chunks, pa.dictionary(pa.int16(), pa.string()))


def _moments(values: pa.ChunkedArray, column: DateColumn) -> pa.ChunkedArray | None:
    """Days or seconds of dates and timestamps; what is finer is cut off."""
    kind = values.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return None
    if pa.types.is_timestamp(kind):  # as UTC, and downwards also before 1970
        unit = "day" if column.type == "date" else "second"
        values = pc.floor_temporal(values.cast(pa.timestamp(kind.unit)), unit=unit)
    if column.type == "date":
        return values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.timestamp("s")).cast(pa.int64())
