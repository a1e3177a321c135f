"""Public bins of every column: what rows of a central model tell apart, and how they read in a prompt.

    category    its categories
    number      the contract's `bins`; else every whole number where there are at most 16; else the
                edges that the contract's attributes and sentences make; else eight equal parts of the bounds

A bin of a number reads as its middle. One that ends at a bound may be very wide: it reads as if it were no wider than the one beside it.

Guarantee   none spent: bins come from the contract, never from rows.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dpicl.contract.columns import CategoryColumn, IntegerColumn, RealColumn
from dpicl.contract.derive import bin_middles, inner_edges
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.tabular.prompts.serialize import central_demonstrations
from dpicl.tabular.reading.encode import LocalEncoding, bin_codes, label_codes
from dpicl.types import LABEL, ReleasedGroup, ReleasedGroups, Table

_MOST = 256


def row_encoding(contract: Contract) -> LocalEncoding:
    """Names and numbers of bins of all features, label last. Raises ParameterError: a column has more than 256."""
    counts = [_bin_count(contract, name) for name in contract.features]
    for name, count in zip(contract.features, counts, strict=True):
        if count > _MOST:
            raise ParameterError("bins", count, f"at most {_MOST} of column {name} of {contract.name}")
    return LocalEncoding("k-ary", (*contract.features, LABEL), (*counts, contract.target.count))


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
    return bin_codes(table.numbers(name), feature_edges(contract, name, column), nullable=column.nullable)


def _bin_count(contract: Contract, name: str) -> int:
    """How many `bin_values` there are."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return len(column.categories)
    return len(feature_edges(contract, name, column)) + 1 + column.nullable


def bin_values(contract: Contract, name: str) -> list[float | str]:
    """What each bin of a column reads as."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return list(column.categories)
    return bin_middles(column, feature_edges(contract, name, column))


def feature_edges(contract: Contract, name: str, column: IntegerColumn | RealColumn) -> np.ndarray:
    """Rising edges between the bins of a feature: its own, else those that stated attributes and sentences make, else equal ones."""
    stated = [cut for attribute in contract.local if attribute.column == name for cut in attribute.cuts]
    words = contract.prompts.central.words.values() if contract.prompts else ()
    return inner_edges(column, [*stated, *(cut for word in words if word.field == name for cut in word.cuts)])
