"""Public levels of every column: what rows of a central model tell apart, and how they read in a prompt.

    category    its categories
    number      the contract's `levels`; else every whole number where there are at most 16; else the
                cuts that the contract's attributes and sentences make; else eight equal parts of the bounds

A level of a number reads as its middle. One that ends at a bound may be very wide: it reads as if it
were no wider than the one beside it.

Guarantee   none spent: levels come from the contract, never from rows.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dpicl.contract.models import CategoryColumn, Contract, IntegerColumn, RealColumn
from dpicl.errors import ParameterError
from dpicl.tabular.prompts.serialize import central_demonstrations
from dpicl.tabular.reading.encode import LocalEncoding, label_codes
from dpicl.types import LABEL, ReleasedGroup, ReleasedGroups, Table

_WHOLE, _EQUAL, _MOST = 16, 8, 256


def row_encoding(contract: Contract) -> LocalEncoding:
    """Names and numbers of levels of all features, label last.

    Raises:
        ParameterError: a column has more than 256.
    """
    counts = [len(_values(contract, name)) for name in contract.features]
    for name, count in zip(contract.features, counts, strict=True):
        if count > _MOST:
            raise ParameterError("levels", count, f"at most {_MOST} of column {name} of {contract.name}")
    return LocalEncoding("k-ary", (*contract.features, LABEL), (*counts, 2))


def row_levels(table: Table, contract: Contract) -> np.ndarray:
    """The level of every feature of each row, label last: shape (rows, columns), uint8."""
    columns = [_codes(table, contract, name) for name in contract.features]
    return np.stack([*columns, label_codes(table, contract)], axis=1).astype(np.uint8)


def row_demonstrations(levels: np.ndarray, contract: Contract) -> list[str]:
    """One demonstration per row of levels, answer included, in the words of group averages."""
    values = [_values(contract, name) for name in contract.features]

    @cache
    def text(row: tuple[int, ...]) -> str:
        shown = {name: column[level] for name, column, level in zip(contract.features, values, row[:-1], strict=True)}
        return central_demonstrations(ReleasedGroups((ReleasedGroup((), shown, row[-1]),)), contract)[0]

    return [text(tuple(row)) for row in levels.tolist()]


def _codes(table: Table, contract: Contract, name: str) -> np.ndarray:
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return table.codes(name)
    return np.searchsorted(_cuts(contract, name, column), table.numbers(name), side="right")


def _cuts(contract: Contract, name: str, column: IntegerColumn | RealColumn) -> np.ndarray:
    low, high = column.bounds
    if column.bins is not None:
        return np.array(column.bins, dtype=float)
    if isinstance(column, IntegerColumn) and high - low < _WHOLE:
        return np.arange(low + 1, high + 1, dtype=float)
    stated = [cut for attribute in contract.local if attribute.column == name for cut in attribute.cuts]
    stated += [cut for word in contract.prompts.central.words.values() if word.field == name for cut in word.cuts]
    if not stated:
        return np.linspace(low, high, _EQUAL + 1)[1:-1]
    return np.array(sorted(set(np.ceil(stated).tolist() if isinstance(column, IntegerColumn) else stated)))


def _values(contract: Contract, name: str) -> list[float | str]:
    """What each level of a column reads as."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return list(column.categories)
    cuts = _cuts(contract, name, column)
    if isinstance(column, IntegerColumn):
        cuts = np.ceil(cuts)
    edges = np.array([column.bounds[0], *cuts, column.bounds[1]])
    edges[[0, -1]] = max(edges[0], 2 * edges[1] - edges[2]), min(edges[-1], 2 * edges[-2] - edges[-3])
    if isinstance(column, IntegerColumn):  # a level of whole numbers ends before the next one's first
        return np.floor((edges[:-1] + np.array([*(cuts - 1), edges[-1]])) / 2).tolist()
    return ((edges[:-1] + edges[1:]) / 2).tolist()
