"""From codes of released rows to a table of values, in the types of the contract.

    category    of a code that stands for several, any of them, in the type in which the contract
                writes them
    number      uniform within its bin: as many decimal places as the contract states, by `decimals`
                or `step`; of a column that states none as many more as its narrowest bin needs to
                hold ten numbers
    missing     no value

Guarantee   none spent: post-processing of released rows, by the contract's bins and a public
            stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.categories import ValueType, value_of
from dpicl.contract.columns import (
    MISSING,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    Rule,
    number_meant,
)
from dpicl.contract.derive import inner_edges
from dpicl.contract.models import Contract
from dpicl.contract.rules import resolve_parts
from dpicl.errors import DataError
from dpicl.tabular.central.bins import feature_edges, row_encoding
from dpicl.tabular.reading.arrow_types import check_taken
from dpicl.tabular.reading.encode import UNKNOWN, Encoding, LocalEncoding
from dpicl.tabular.reading.parse import as_text, category_codes, is_word, typed_column

_WHERE = "rows"
"""Where values are that a program asks about, in messages."""
_MOST_DIGITS, _NUMBERS_IN_A_BIN = 12, 10
_TYPES = {
    "category": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "real": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("s"),
}


@dataclass(frozen=True)
class Meaning:
    """What the codes of one column of released rows stand for.

    Attributes:
        column: of the contract.
        type: of its values, as the contract names it; of categories, that in which they are
            written.
        nullable: whether one code, the last of a number's, stands for no value.
        categories: of every code, where the column has categories.
        edges: of the bins of a number, one more than bins: a bin ends before the next one's edge,
            the last one with it.
        digits: decimal places of its numbers.
        missing: words that stand for no value where rows come from.
    """

    column: str
    type: str
    nullable: bool = False
    categories: tuple[tuple[str, ...], ...] = ()
    edges: tuple[float, ...] = ()
    digits: int = 0
    missing: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of codes."""
        return len(self.categories) or len(self.edges) - 1 + self.nullable

    @property
    def arrow_type(self) -> pa.DataType:
        """Of its values in a table."""
        return _TYPES[self.type]

    def drawn(self, codes: np.ndarray, chance: np.random.Generator) -> pa.Array:
        """A value for each code, null where there is none: shape (rows,)."""
        share = chance.random(len(codes))
        if self.categories:
            sizes = np.array([len(some) for some in self.categories])
            places = (np.cumsum(sizes) - sizes)[codes] + (share * sizes[codes]).astype(np.int64)
            return pa.array(
                [self.value(category) for some in self.categories for category in some],
                self.arrow_type,
            ).take(pa.array(places))
        missing = codes == len(self.edges) - 1
        numbers = self.placed(np.where(missing, 0, codes), share)
        whole = numbers if self.type == "real" else numbers.astype(np.int64)
        return (
            pa.array(whole, mask=missing)
            .cast(pa.int32() if self.type == "date" else whole.dtype.name)
            .cast(self.arrow_type)
        )

    def placed(self, bins: np.ndarray, share: np.ndarray) -> np.ndarray:
        """The number at this share, in [0, 1), of what each bin holds: float64 of shape (rows,).

        The multiples of 1 / 10^digits in a bin are all as likely; of a bin without any, a number of
        any size in it.
        """
        scale = 10.0**self.digits
        first, last = _multiples(np.array(self.edges), scale)
        numbers = (first[bins] + np.floor(share * (last - first + 1)[bins])) / scale
        low, high = np.array(self.edges[:-1])[bins], np.array(self.edges[1:])[bins]
        return np.where(
            (last < first)[bins],
            low + share * (high - low) if self.type == "real" else low,
            numbers,
        )

    def value(self, category: str) -> str | bool | int | float | None:
        """A category as a value of the column."""
        return None if category == MISSING else value_of(category, cast(ValueType, self.type))

    def codes(self, values: pa.ChunkedArray) -> np.ndarray:
        """The code of each value: int64 of shape (rows,), `UNKNOWN` of what the column cannot hold.
        Each is converted by itself, as it is where rows come from.

        Raises:
            DataError: they are of a type that is neither the column's nor converted to it.
        """
        if self.categories:
            check_taken(values.type, "categories", self.column, _WHERE)
            texts = as_text(
                pc.if_else(pc.is_nan(values), None, values)
                if pa.types.is_floating(values.type)
                else values,
                self.column,
                _WHERE,
            )
            listed = tuple(category for some in self.categories for category in some)
            of_place = np.repeat(
                np.arange(len(self.categories)), [len(some) for some in self.categories]
            )
            kind = cast(ValueType, self.type)
            is_missing = pc.or_(pc.equal(texts, ""), is_word(texts, self.missing, kind))
            places = category_codes(pc.if_else(is_missing, MISSING, texts), listed, kind)
            return np.where(
                np.asarray(places.is_null()), UNKNOWN, of_place[np.asarray(places.fill_null(0))]
            )
        numbers = self.numbers(values)
        missing = len(self.edges) - 1 if self.nullable else UNKNOWN
        return np.where(
            np.isnan(numbers), missing, np.searchsorted(self.edges[1:-1], numbers, side="right")
        )

    def numbers(self, values: pa.ChunkedArray) -> np.ndarray:
        """Values of a number as float64, days or seconds of a date, NaN where there is none: shape
        (rows,).

        Raises:
            DataError: one is no number or date.
        """
        is_date = self.type in ("date", "datetime")
        check_taken(values.type, "dates" if is_date else "numbers", self.column, _WHERE)
        if self.missing or not (
            pa.types.is_temporal(values.type)
            or pa.types.is_integer(values.type)
            or pa.types.is_floating(values.type)
        ):
            text = as_text(values, self.column, _WHERE)
            values = pc.if_else(
                pc.is_in(text, value_set=pa.array(["", "nan", *self.missing])), None, text
            )
        try:
            if is_date:
                of_calendar = {
                    "type": self.type,
                    "bounds": ["0001-01-01", "9999-12-31"],
                    "nullable": True,
                }
                values = typed_column(
                    values, DateColumn.model_validate(of_calendar), self.column, _WHERE
                )
            numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        except pa.ArrowException:
            raise DataError(_WHERE, "holds what is no number", column=self.column) from None
        meant = [
            number for word in self.missing if (number := number_meant(word, self.type)) is not None
        ]
        return np.where(np.isin(numbers, meant), np.nan, numbers)


def _multiples(edges: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last multiple of 1 / scale in every bin, times scale."""
    scaled = np.round(edges * scale, 6)
    first, last = np.ceil(scaled[:-1]), np.ceil(scaled[1:]) - 1
    last[-1] = np.floor(scaled[-1])
    return first, last


@dataclass(frozen=True)
class RowForm:
    """How released rows are coded, label last, and what the codes of each column stand for; `label`
    is None where nothing is predicted.
    """

    encoding: LocalEncoding
    features: tuple[Meaning, ...]
    label: Meaning | None

    def table(self, codes: np.ndarray, contract: Contract, chance: np.random.Generator) -> pa.Table:
        """Rows of values, in the contract's order of columns and its types; columns that are not in
        the rows are left out.
        """
        bins, columns = self.encoding.decode(codes), {}
        meanings = (*self.features, *([self.label] if self.label else []))
        for place, meaning in enumerate(meanings):
            unknown = bins[:, place] == UNKNOWN
            known = (
                np.where(unknown, chance.integers(meaning.count, size=len(bins)), bins[:, place])
                if unknown.any()
                else bins[:, place]
            )
            if meaning.column not in columns:
                columns[meaning.column] = (
                    pa.field(meaning.column, meaning.arrow_type, meaning.nullable),
                    meaning.drawn(known, chance),
                )
        named = [columns[name] for name in contract.columns if name in columns]
        return pa.Table.from_arrays(
            [values for _, values in named], schema=pa.schema([field for field, _ in named])
        )


def central_form(contract: Contract) -> RowForm:
    """Of rows that are coded by `central.bins`."""
    return RowForm(
        row_encoding(contract),
        tuple(_whole(contract, name) for name in contract.features),
        _label(contract),
    )


def local_form(contract: Contract, kind: Encoding) -> RowForm:
    """Of rows that are coded by the contract's local attributes."""
    attributes = tuple(
        _parts(contract, attribute.column, attribute) for attribute in contract.attributes
    )
    return RowForm(LocalEncoding.of(contract, kind), attributes, _label(contract))


def _label(contract: Contract) -> Meaning | None:
    label = contract.label
    if label is None:
        return None
    return (
        _parts(contract, label.column, label) if label.has_rule else _whole(contract, label.column)
    )


def _whole(contract: Contract, name: str) -> Meaning:
    """All values of a column: each category, or the bins of a number."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return _listed(contract, name, column, tuple((category,) for category in column.categories))
    inner = (
        feature_edges(contract, name, column) if name in contract.features else inner_edges(column)
    )
    return _number(contract, name, column, inner.tolist(), column.nullable)


def _parts(contract: Contract, name: str, rule: Rule) -> Meaning:
    """What the parts of a rule stand for."""
    column = contract.columns[name]
    if isinstance(column, CategoryColumn):
        return _listed(
            contract,
            name,
            column,
            tuple(resolve_parts(rule.parts, column.categories, name, contract.name)),
        )
    return _number(contract, name, column, rule.cuts, rule.missing)


def _listed(
    contract: Contract, name: str, column: CategoryColumn, categories: tuple[tuple[str, ...], ...]
) -> Meaning:
    return Meaning(
        name, column.value_type, column.nullable, categories, missing=contract.missing_words(name)
    )


def _number(
    contract: Contract, name: str, column: Column, inner: Sequence[float], nullable: bool
) -> Meaning:
    assert not isinstance(column, CategoryColumn)
    if isinstance(column, IntegerColumn):  # a bin of whole numbers begins at one
        edges = (column.bounds[0], *np.ceil(inner).tolist(), column.bounds[1])
        kind = column.type if isinstance(column, DateColumn) else "integer"
        return Meaning(name, kind, nullable, edges=edges, missing=contract.missing_words(name))
    stated = column.model_fields_set & {"decimals", "step"}
    digits = (
        column.decimals
        if "decimals" in stated or not stated
        else max(0, -int(Decimal(str(column.step)).as_tuple().exponent))
    )
    least = 1 if stated else _NUMBERS_IN_A_BIN
    edges = (column.bounds[0], *inner, column.bounds[1])
    while digits < _MOST_DIGITS:
        first, last = _multiples(np.array(edges), 10.0**digits)
        if (last - first + 1).min() >= least:
            break
        digits += 1
    return Meaning(
        name,
        column.type,
        nullable,
        edges=edges,
        digits=digits,
        missing=contract.missing_words(name),
    )
