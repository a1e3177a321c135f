"""Columns of a draft as the rows have them: a look at private data, which `draft.Draft.looked` has to tell."""

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
    found = {name: _column(table.column(name), name) for name in table.column_names if name != label}
    ignored = tuple(name for name, column in found.items() if column is None)
    return [*(column for column in found.values() if column is not None), outcome], ignored


def _column(values: pa.ChunkedArray, name: str) -> DraftColumn | None:
    if not can_be_named(name):
        return None
    numbers = _numbers(values)
    if numbers is None or len(np.unique(numbers)) == 1:
        return _categories(values, name)
    whole = bool((numbers == np.rint(numbers)).all())
    return DraftColumn(name, "integer" if whole else "real", _outwards(float(numbers.min()), float(numbers.max())))


def _numbers(values: pa.ChunkedArray) -> np.ndarray | None:
    try:
        numbers = pc.cast(values, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _categories(values: pa.ChunkedArray, name: str) -> DraftColumn | None:
    found = sorted(set(pc.unique(values).to_pylist()))
    fits = 1 < len(found) <= min(MOST_CATEGORIES, len(values) / 2) and all(value and len(value) <= 200 for value in found)
    return DraftColumn(name, "category", categories=tuple(found)) if fits else None


def _outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds to one digit of their width, beyond the rows."""
    step = 10 ** math.floor(math.log10(high - low))
    return tidy(math.floor(low / step) * step), tidy(math.ceil(high / step) * step)
