"""From codes of released rows to a table of values, in the types of the contract.

    category    of a code that stands for several, any of them
    number      uniform within its bin: as many decimal places as the contract states, by `decimals` or `step`; of a column that
                states none as many more as its narrowest bin needs to hold ten numbers

Guarantee   none spent: post-processing of released rows, by the contract's bins and a public stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from dpicl.contract.models import CategoryColumn, Contract, IntegerColumn, Rule
from dpicl.contract.rules import resolve_parts
from dpicl.tabular.central.bins import bin_edges, row_encoding
from dpicl.tabular.reading.encode import UNKNOWN, Encoding, LocalEncoding

_MOST_DIGITS, _NUMBERS_IN_A_BIN = 12, 10


@dataclass(frozen=True)
class Meaning:
    """What the codes of one column of released rows stand for.

    Attributes:
        column: of the contract.
        categories: of every code, where the column has categories.
        edges: of the bins of a number, one more than there are codes: a bin ends before the next one's edge, the last one with it.
        digits: decimal places of its numbers.
    """

    column: str
    categories: tuple[tuple[str, ...], ...] = ()
    edges: tuple[float, ...] = ()
    digits: int = 0

    @property
    def count(self) -> int:
        """Number of codes."""
        return len(self.categories) or len(self.edges) - 1

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The code of each value: int64 of shape (rows,), `UNKNOWN` of what the column cannot hold."""
        if self.categories:
            code_of = {category: code for code, some in enumerate(self.categories) for category in some}
            return np.array([code_of.get(str(value), UNKNOWN) for value in values.tolist()], dtype=np.int64)
        numbers = values.astype(np.float64)
        return np.where(np.isnan(numbers), UNKNOWN, np.searchsorted(self.edges[1:-1], numbers, side="right"))

    def drawn(self, codes: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """A value for each code: texts, or float64, of shape (rows,)."""
        share = chance.random(len(codes))
        if self.categories:
            sizes = np.array([len(some) for some in self.categories])
            places = (np.cumsum(sizes) - sizes)[codes] + (share * sizes[codes]).astype(np.int64)
            return np.array([category for some in self.categories for category in some], dtype=object)[places]
        scale = 10.0**self.digits
        first, last = _multiples(np.array(self.edges), scale)
        values = (first[codes] + np.floor(share * (last - first + 1)[codes])) / scale
        low, high = np.array(self.edges[:-1])[codes], np.array(self.edges[1:])[codes]
        between = low if not self.digits else low + share * (high - low)
        return np.where((last < first)[codes], between, values)


def _multiples(edges: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last multiple of 1 / scale in every bin, times scale."""
    scaled = np.round(edges * scale, 6)
    first, last = np.ceil(scaled[:-1]), np.ceil(scaled[1:]) - 1
    last[-1] = np.floor(scaled[-1])
    return first, last


@dataclass(frozen=True)
class RowForm:
    """How released rows are coded, label last, and what the codes of each column stand for."""

    encoding: LocalEncoding
    meanings: tuple[Meaning, ...]

    def table(self, codes: np.ndarray, contract: Contract, chance: np.random.Generator) -> pa.Table:
        """Rows of values, in the contract's order of columns: text, int64 or float64; columns that are not in the rows are left out."""
        bins = self.encoding.decode(codes)
        by_column: dict[str, pa.Array] = {}
        for place, meaning in enumerate(self.meanings):
            unknown = bins[:, place] == UNKNOWN
            known = np.where(unknown, chance.integers(meaning.count, size=len(bins)), bins[:, place]) if unknown.any() else bins[:, place]
            by_column.setdefault(meaning.column, _array(meaning.drawn(known, chance), contract, meaning.column))
        return pa.table({name: by_column[name] for name in contract.columns if name in by_column})


def _array(values: np.ndarray, contract: Contract, name: str) -> pa.Array:
    column = contract.columns[name]
    kind = pa.string() if isinstance(column, CategoryColumn) else pa.int64() if isinstance(column, IntegerColumn) else pa.float64()
    return pa.array(values.astype(np.int64) if kind == pa.int64() else values, kind)


def central_form(contract: Contract) -> RowForm:
    """Of rows that are coded by `central.bins`."""
    meanings = []
    for name in contract.features:
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            meanings.append(Meaning(name, tuple((category,) for category in column.categories)))
        else:
            meanings.append(_number(contract, name, bin_edges(contract, name)))
    return RowForm(row_encoding(contract), (*meanings, _label(contract)))


def local_form(contract: Contract, kind: Encoding) -> RowForm:
    """Of rows that are coded by the contract's local attributes."""
    attributes = [_parts(contract, attribute.column, attribute) for attribute in contract.local]
    return RowForm(LocalEncoding.of(contract, kind), (*attributes, _label(contract)))


def _label(contract: Contract) -> Meaning:
    return _parts(contract, contract.label.column, contract.label)


def _parts(contract: Contract, name: str, rule: Rule) -> Meaning:
    """What the parts of a rule stand for."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return Meaning(name, tuple(resolve_parts(rule.parts, column.categories, name, contract.name)))
    return _number(contract, name, [column.bounds[0], *rule.cuts, column.bounds[1]])


def _number(contract: Contract, name: str, edges: Sequence[float]) -> Meaning:
    column = contract.columns[name]
    assert not isinstance(column, CategoryColumn)
    if isinstance(column, IntegerColumn):
        return Meaning(name, edges=tuple(edges))
    stated = column.model_fields_set & {"decimals", "step"}
    digits = column.decimals if "decimals" in stated or not stated else max(0, -int(Decimal(str(column.step)).as_tuple().exponent))
    least = 1 if stated else _NUMBERS_IN_A_BIN
    while digits < _MOST_DIGITS:
        first, last = _multiples(np.array(edges), 10.0**digits)
        if (last - first + 1).min() >= least:
            break
        digits += 1
    return Meaning(name, edges=tuple(edges), digits=digits)
