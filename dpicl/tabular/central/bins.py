"""Public bins of every column: what rows of a central model tell apart.

    category    its categories
    number      the contract's `bins`; else every whole number where there are at most 16; else the
                edges that the contract's attributes and sentences make; else eight equal parts of
                the bounds

Guarantee   none spent: bins come from the contract, never from rows.
"""

from __future__ import annotations

import numpy as np

from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.tabular.reading.encode import LocalEncoding, label_codes
from dpicl.types import LABEL, Table

_MOST = 256


def row_encoding(contract: Contract) -> LocalEncoding:
    """Names and numbers of bins of all features, label last. Raises ParameterError: a column has
    more than 256.
    """
    counts = [bin_count(contract, name) for name in contract.features]
    for name, count in zip(contract.features, counts, strict=True):
        if count > _MOST:
            raise ParameterError(
                "bins", count, f"at most {_MOST} of column {name} of {contract.name}"
            )
    return LocalEncoding("k-ary", (*contract.features, LABEL), (*counts, contract.target.count))


def row_bins(table: Table, contract: Contract) -> np.ndarray:
    """The bin of every feature of each row, label last: shape (rows, columns), uint8."""
    columns = [column_bins(table, contract, name) for name in contract.features]
    return np.stack([*columns, label_codes(table, contract)], axis=1).astype(np.uint8)


def column_bins(table: Table, contract: Contract, name: str) -> np.ndarray:
    """The bin of one column in each row: shape (rows,)."""
    return contract.columns[name].codes(table.stored(name), contract.cuts_of(name))


def bin_count(contract: Contract, name: str) -> int:
    """How many bins a column has."""
    return contract.columns[name].count(contract.cuts_of(name))
