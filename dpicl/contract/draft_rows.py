"""Columns of a draft as the rows have them: a look at private data, which `Draft.looked` states."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.draft import MOST_CATEGORIES, DraftColumn, can_be_named, tidy
from dpicl.errors import ParameterError


def columns_of_rows(table: pa.Table, label: str, where: str) -> tuple[list[DraftColumn], tuple[str, ...]]:
    """Columns that a contract can describe, the label by its categories, and names of those that it leaves out.

    Args:
        table: every column as text, shape (rows, columns).
        label: the column to predict.
        where: the file's name, for messages.

    Raises:
        ParameterError: there is no such label, or it is no column of categories.
    """
    if label not in table.column_names:
        raise ParameterError("label", label, f"one of the {table.num_columns} columns of {where}")
    outcome = _categories(table.column(label), label)
    if outcome is None:
        raise ParameterError("label", label, f"a column of values of which there are at most {MOST_CATEGORIES}")
    columns = {name: _column(table.column(name), name) for name in table.column_names if name != label}
    ignored = tuple(name for name, column in columns.items() if column is None)
    return [*(column for column in columns.values() if column is not None), outcome], ignored


def _column(values: pa.ChunkedArray, name: str) -> DraftColumn | None:
    if not can_be_named(name):
        return None
    try:
        numbers = pc.cast(values, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return _categories(values, name)
    if not np.isfinite(numbers).all() or len(np.unique(numbers)) == 1:
        return _categories(values, name)
    low, high = float(numbers.min()), float(numbers.max())
    step = 10 ** math.floor(math.log10(high - low))  # bounds to one digit of their width, beyond the rows
    bounds = tidy(math.floor(low / step) * step), tidy(math.ceil(high / step) * step)
    return DraftColumn(name, "integer" if (numbers == np.rint(numbers)).all() else "real", bounds)


def _categories(values: pa.ChunkedArray, name: str) -> DraftColumn | None:
    categories = sorted(set(pc.unique(values).to_pylist()))
    fits = 1 < len(categories) <= min(MOST_CATEGORIES, len(values) / 2) and all(value and len(value) <= 200 for value in categories)
    return DraftColumn(name, "category", categories=tuple(categories)) if fits else None
