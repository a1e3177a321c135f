"""Exact counts over columns with the label, which noisy ones are drawn from.

Trust       Central: they stay with the curator.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row adds 1 to one cell of every table.
Guarantee   none by itself; `noisy` is a step of `noisy_steps`.

From `row_encoding` on: public bins of every column: what rows of a central model tell apart.

    category    its categories
    number      the contract's `bins`; else every whole number where there are at most 16; else the
                edges that the contract's attributes and sentences make; else eight equal parts of
                the bounds

Guarantee   none spent: bins come from the contract, never from rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, pi, prod, sqrt

import numpy as np

from dpicl.contract.models import Contract
from dpicl.data.central.graphical_model import NoisyMarginal
from dpicl.data.central.junction_tree import Scope
from dpicl.data.reading.encode import LocalEncoding, label_codes
from dpicl.data.reading.relations import broken
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import LABEL, PrivateCodes, Table
from dpicl.mechanisms.noisy_steps import GaussianBudget, StepBudget

_MOST_COUNTS = 1 << 24
_MOST_OF_TRIPLE, _MOST_TRIPLES = 1 << 12, 1_200
"""Cells of a triple with the label; and triples, those of 20 columns: more take minutes to choose
among.
"""


@dataclass(frozen=True)
class ExactCounts:
    """Private: int64 counts over columns with the label, the last of each scope; those of two
    batches of the rows add up.
    """

    sizes: tuple[int, ...]
    tables: Mapping[Scope, np.ndarray]

    @staticmethod
    def of(truth: PrivateCodes, sizes: Sequence[int], *, triples: bool = False) -> ExactCounts:
        """Over every column and every two, of rows with codes of shape (rows, columns), the label
        last; over every three where there are not too many of these.
        """
        label = len(sizes) - 1
        codes = np.ascontiguousarray(truth.codes.T, dtype=np.int64)
        assert (codes < np.array(sizes)[:, np.newaxis]).all(), "codes beyond their column's bins"
        tables = {}
        for scope in _scopes(sizes, triples):
            columns = (*scope, label)
            cells = np.int64(0)
            shape = tuple(sizes[column] for column in columns)
            for column in columns:
                cells = cells * sizes[column] + codes[column]
            tables[columns] = np.bincount(cells, minlength=prod(shape)).reshape(shape)
        return ExactCounts(tuple(sizes), tables)

    @property
    def label(self) -> int:
        """The label's column."""
        return len(self.sizes) - 1

    @property
    def scopes(self) -> list[Scope]:
        """Columns but the label that were counted together."""
        return [columns[:-1] for columns in self.tables]

    def over(self, scope: Scope) -> np.ndarray:
        """Counts over these columns and the label; over none of them the label's."""
        return self.tables[*scope, self.label] if scope else self.tables[0, self.label].sum(axis=0)

    def of_columns(self, columns: Scope) -> np.ndarray:
        """Counts over columns with the label or without."""
        return self.over(columns[:-1]) if self.label in columns else self.over(columns).sum(axis=-1)

    def noisy(
        self, scope: Scope, *, budget: StepBudget, stream: Stream, with_label: bool = True
    ) -> NoisyMarginal:
        """Counts over these columns and the label with the noise of a budget; exact ones of an
        infinite one.
        """
        columns = (*scope, self.label) if with_label else scope
        table = self.of_columns(columns)
        counts = np.array(budget.counts(table.ravel().tolist(), stream)).reshape(table.shape)
        return NoisyMarginal(columns, counts, budget.scale, isinstance(budget, GaussianBudget))

    def __add__(self, other: ExactCounts) -> ExactCounts:
        return ExactCounts(
            self.sizes,
            {columns: counts + other.tables[columns] for columns, counts in self.tables.items()},
        )

    def __sub__(self, other: ExactCounts) -> ExactCounts:
        return ExactCounts(
            self.sizes,
            {columns: counts - other.tables[columns] for columns, counts in self.tables.items()},
        )

    def scaled(self, times: float) -> ExactCounts:
        """Of rows that stand for so many others each."""
        return ExactCounts(
            self.sizes,
            {
                columns: np.rint(counts * times).astype(np.int64)
                for columns, counts in self.tables.items()
            },
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file."""
        return {",".join(map(str, columns)): counts for columns, counts in self.tables.items()}

    @staticmethod
    def read(arrays: Mapping[str, np.ndarray]) -> ExactCounts:
        """The counts that `arrays` gave."""
        tables = {tuple(map(int, name.split(","))): counts for name, counts in arrays.items()}
        sizes = [counts.shape[0] for columns, counts in sorted(tables.items()) if len(columns) == 2]
        return ExactCounts((*sizes, tables[0, len(sizes)].shape[1]), tables)


def cells(sizes: Sequence[int], scope: Scope) -> int:
    """Of counts over these columns and the label."""
    return prod(sizes[column] for column in scope) * sizes[-1]


def variation_of_noise(sizes: Sequence[int], deviation: float, rows: int) -> list[float]:
    """Of every column but the label, the expected total variation between so many rows and counts
    of it with the label, whose noise has this deviation; at most 1.
    """
    of_bin = sqrt(sizes[-1]) * deviation  # of a bin's count, added over the label
    # as of normal noise
    return [min(1.0, size * of_bin * sqrt(2 / pi) / 2 / rows) for size in sizes[:-1]]


def _scopes(sizes: Sequence[int], triples: bool) -> Iterator[Scope]:
    """Columns but the label that are counted together."""
    features = len(sizes) - 1
    yield from ((column,) for column in range(features))
    yield from combinations(range(features), 2)
    if triples and comb(features, 3) <= _MOST_TRIPLES:
        small = [
            scope
            for scope in combinations(range(features), 3)
            if cells(sizes, scope) <= _MOST_OF_TRIPLE
        ]
        if sum(cells(sizes, scope) for scope in small) <= _MOST_COUNTS:
            yield from small


def check_counts(sizes: Sequence[int], where: str) -> None:
    """Refuse more counts than memory is for. Raises ParameterError: there are more than 2^24."""
    features, label = sizes[:-1], sizes[-1]
    cells = label * (sum(features) + (sum(features) ** 2 - sum(size**2 for size in features)) // 2)
    if cells > _MOST_COUNTS:
        raise ParameterError(
            "columns",
            len(sizes),
            f"such with at most {_MOST_COUNTS:,} counts of pairs of columns; {where} has {cells:,}",
        )


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
    """The bin of every feature of each row, label last: shape (rows, columns), uint8. What breaks a
    relation of the contract is missing, where it may be.
    """
    breaks = broken(table, contract)
    columns = []
    for name in contract.features:
        bins = column_bins(table, contract, name)
        if name in breaks:
            bins = np.where(breaks[name], bin_count(contract, name) - 1, bins)
        columns.append(bins)
    return np.stack([*columns, label_codes(table, contract)], axis=1).astype(np.uint8)


def column_bins(table: Table, contract: Contract, name: str) -> np.ndarray:
    """The bin of one column in each row: shape (rows,)."""
    return contract.columns[name].codes(table.stored(name), contract.cuts_of(name))


def bin_count(contract: Contract, name: str) -> int:
    """How many bins a column has."""
    return contract.columns[name].count(contract.cuts_of(name))
