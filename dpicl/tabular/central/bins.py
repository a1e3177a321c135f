"""Public bins of every column: what rows of a central model tell apart, and how they read in a prompt.

    category    its categories
    number      the contract's `bins`; else every whole number where there are at most 16; else the
                edges that the contract's attributes and sentences make; else eight equal parts of the bounds

A bin of a number reads as its middle. One that ends at a bound may be very wide: it reads as if it
were no wider than the one beside it.

Guarantee   none spent: bins come from the contract, never from rows.
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
    """Names and numbers of bins of all features, label last.

    Raises:
        ParameterError: a column has more than 256.
    """
    counts = [len(bin_values(contract, name)) for name in contract.features]
    for name, count in zip(contract.features, counts, strict=True):
        if count > _MOST:
            raise ParameterError("bins", count, f"at most {_MOST} of column {name} of {contract.name}")
    return LocalEncoding("k-ary", (*contract.features, LABEL), (*counts, 2))


def row_bins(table: Table, contract: Contract) -> np.ndarray:
    """The bin of every feature of each row, label last: shape (rows, columns), uint8."""
    columns = [column_bins(table, contract, name) for name in contract.features]
    return np.stack([*columns, label_codes(table, contract)], axis=1).astype(np.uint8)


def row_demonstrations(bins: np.ndarray, contract: Contract) -> list[str]:
    """One demonstration per row of bins, answer included, in the words of group averages."""
    values = [bin_values(contract, name) for name in contract.features]

    @cache
    def text(row: tuple[int, ...]) -> str:
        shown = {name: column[code] for name, column, code in zip(contract.features, values, row[:-1], strict=True)}
        return central_demonstrations(ReleasedGroups((ReleasedGroup((), shown, row[-1]),)), contract)[0]

    return [text(tuple(row)) for row in bins.tolist()]


def column_bins(table: Table, contract: Contract, name: str) -> np.ndarray:
    """The bin of one column in each row: shape (rows,)."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return table.codes(name)
    return np.searchsorted(_inner_edges(contract, name, column), table.numbers(name), side="right")


def bin_values(contract: Contract, name: str) -> list[float | str]:
    """What each bin of a column reads as."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return list(column.categories)
    edges = np.array(bin_edges(contract, name))
    inner = edges[1:-1]
    edges[[0, -1]] = max(edges[0], 2 * edges[1] - edges[2]), min(edges[-1], 2 * edges[-2] - edges[-3])
    if isinstance(column, IntegerColumn):  # a bin of whole numbers ends before the next one's first
        return np.floor((edges[:-1] + np.array([*(inner - 1), edges[-1]])) / 2).tolist()
    return ((edges[:-1] + edges[1:]) / 2).tolist()


def bin_edges(contract: Contract, name: str) -> list[float]:
    """The edges of a number's bins, its bounds included: shape (bins + 1,); whole numbers begin and end at whole ones."""
    column = contract.columns[name]
    assert not isinstance(column, CategoryColumn)
    inner = _inner_edges(contract, name, column)
    return [column.bounds[0], *(np.ceil(inner) if isinstance(column, IntegerColumn) else inner).tolist(), column.bounds[1]]


def _inner_edges(contract: Contract, name: str, column: IntegerColumn | RealColumn) -> np.ndarray:
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
