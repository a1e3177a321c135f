"""A first contract for a table that has none: its columns, with bounds and categories as the rows have them.

What is taken from rows is no public knowledge. Such lines are marked LOOKED, and the contract says
`draft: true`: nothing is released by it until somebody who knows the field has written what is
publicly known in their place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.base import Name
from dpicl.errors import DataError, ParameterError

MOST_CATEGORIES = 64
"""And no more than half as many as rows: more is free text, or names."""
MARK = "# LOOKED: replace by what is publicly known"
_NAMES = Name.__metadata__[0].pattern  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Drafted:
    """The text of a contract, and counts: columns that it has, and columns of the file that it leaves out."""

    text: str
    column_count: int
    ignored: tuple[str, ...]


@dataclass(frozen=True)
class _Drawn:
    """One column as the contract states it: numbers between bounds, or categories."""

    name: str
    whole: bool = False
    bounds: tuple[float, float] | None = None
    categories: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        if self.bounds is None:
            return f"  {self.name}: {{type: category, categories: {json.dumps(self.categories, ensure_ascii=False)}}}  {MARK}"
        low, high = (int(bound) if self.whole else bound for bound in self.bounds)
        return f"  {self.name}: {{type: {'integer' if self.whole else 'real'}, bounds: [{low}, {high}]}}  {MARK}"

    @property
    def attribute(self) -> str:
        if self.bounds is None:
            parts = json.dumps([[one] for one in self.categories], ensure_ascii=False)
            return f"parts: {parts}, texts: {json.dumps(self.categories, ensure_ascii=False)}"
        cut = _tidy((self.bounds[0] + self.bounds[1]) / 2)
        return f'cuts: [{cut}], texts: ["less than {cut}", "{cut} or more"]'


def draft(table: pa.Table, name: str, file: str, *, label: str, positive: Sequence[str], epsilon: float) -> Drafted:
    """Write a contract for a table of text columns.

    Args:
        table: every column as text, shape (rows, columns).
        name: of the contract.
        file: where the rows are, below the data folder.
        label: the column to predict; `positive` are its values that count as Yes.
        epsilon: the cap of the account.

    Raises:
        ParameterError: there is no such column, or it never or always has these values.
        DataError: no column is left to describe a row by.
    """
    if label not in table.column_names:
        raise ParameterError("label", label, f"one of the {table.num_columns} columns of {file}")
    drawn = {one: _drawn(table.column(one), one) for one in table.column_names}
    outcome = _categories(table.column(label), label)
    if outcome is None or not set(positive) < set(outcome.categories):
        raise ParameterError(
            "positive", ",".join(positive), f"some, but not all, of the values of column {label}, of which there are at most 64"
        )
    features = [column for one, column in drawn.items() if column is not None and one != label]
    if not features:
        raise DataError(file, "has no column that a contract can describe; expected numbers or few categories, named by letters and digits")
    ignored = tuple(one for one, column in drawn.items() if column is None and one != label)
    return Drafted(_text(name, file, features, outcome, positive, ignored, epsilon), len(features) + 1, ignored)


def _drawn(column: pa.ChunkedArray, name: str) -> _Drawn | None:
    if not re.match(_NAMES, name):
        return None
    numbers = _numbers(column)
    if numbers is None or len(np.unique(numbers)) == 1:
        return _categories(column, name)
    whole = bool((numbers == np.rint(numbers)).all())
    low, high = _outwards(float(numbers.min()), float(numbers.max()))
    return _Drawn(name, whole, (math.floor(low), math.ceil(high)) if whole else (low, high))


def _numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    try:
        numbers = pc.cast(column, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _categories(column: pa.ChunkedArray, name: str) -> _Drawn | None:
    found = sorted(set(pc.unique(column).to_pylist()))
    fits = 1 < len(found) <= min(MOST_CATEGORIES, len(column) / 2) and all(value and len(value) <= 200 for value in found)
    return _Drawn(name, categories=tuple(found)) if fits else None


def _outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds to one digit of their width, beyond the rows."""
    step = 10 ** math.floor(math.log10(high - low))
    return _tidy(math.floor(low / step) * step), _tidy(math.ceil(high / step) * step)


def _tidy(value: float) -> float:
    """Without what binary numbers leave behind the twelfth digit."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def _text(
    name: str, file: str, features: Sequence[_Drawn], label: _Drawn, positive: Sequence[str], ignored: Sequence[str], epsilon: float
) -> str:
    said = " ".join(f"The {column.name} is {{{column.name}}}." for column in features)
    leave_out = f"\n  ignore: {json.dumps(list(ignored), ensure_ascii=False)}" if ignored else ""
    attributes = "\n".join(f"  - {{name: {column.name}, column: {column.name}, {column.attribute}}}  {MARK}" for column in features)
    columns = "\n".join(column.line for column in (*features, label))
    return f"""\
# A draft: lines marked LOOKED hold what the rows of {file} say. Write what is publicly known in their place
# (a code book, a law, a device's range), then take out `draft: true`; until then nothing is released.
version: 1
name: {name}
draft: true
description: Records of {name}.

source:
  title: {name}
  licence: not published
  citation: none
  file: {json.dumps(file, ensure_ascii=False)}{leave_out}

privacy:
  unit: row  # or person, with `person: {{id_column: …, max_rows: …}}`, where somebody may have several rows
  neighbours: add-or-remove-one
  sampling_rate: 1/10
  budget: {{epsilon: {epsilon:g}}}

split: {{test_fraction: 0.2}}

columns:
{columns}

label:
  column: {label.name}
  parts: [rest, {json.dumps(list(positive), ensure_ascii=False)}]
  question: {json.dumps(f"Is the {label.name} {' or '.join(positive)}?", ensure_ascii=False)}

groups:
  2: [label]

local:
{attributes}

prompts:
  local:
    text: {json.dumps(said, ensure_ascii=False)}
  central:
    text: {json.dumps(said, ensure_ascii=False)}
"""
