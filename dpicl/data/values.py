"""From codes of released rows to a table of values, in the types of the contract.

    category    of a code that stands for several, any of them, in the type in which the contract
                writes them
    number      within its bin where the bins beside it let expect it (`inside`): as many decimal
                places as the contract states, by `decimals`
                or `step`; of a column that states none as many more as its narrowest bin needs to
                hold ten numbers
    missing     no value

Guarantee   none spent: post-processing of released rows, by the contract's bins and a public
            stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.columns import AnyNumber, number_like
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import ValueType, category_codes, is_word, value_of
from dpicl.contract.columns.number import placed
from dpicl.contract.models import Contract
from dpicl.contract.parts import Rule
from dpicl.data.central.exact_counts import row_encoding
from dpicl.data.inside import inside
from dpicl.data.reading.encode import UNKNOWN, Encoding, LocalEncoding
from dpicl.data.reading.parse import as_text, typed_column
from dpicl.data.reading.typed_columns import check_taken
from dpicl.ground.errors import DataError

_POINTS, _FINE = 33, 12
"""Of a bin, of whose numbers the mean is taken, with so many decimal places."""
_LAST = 1 - 1e-9
"""How far in its bin a number may lie that is still in it."""
_WHERE = "rows"
"""Where values are that a program asks about, in messages."""
_TYPES = {
    "category": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "real": pa.float64(),
}
"""Of values of categories."""


def number_word(number: float) -> str:
    """A plain number as people write it, with four figures or all before the point."""
    return f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"


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
        shares: of released rows, of each bin of a number; none where numbers are as likely anywhere
            in their bin.
        within: of each bin the parts of what it holds that numbers are from, rising shares in
            [0, 1]; none where they are from all of it.
        groups: (code, category) of codes, as `CategoryColumn.groups` has them.
    """

    column: str
    type: str
    nullable: bool = False
    categories: tuple[tuple[str, ...], ...] = ()
    edges: tuple[float, ...] = ()
    digits: int = 0
    missing: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    within: tuple[tuple[tuple[float, float], ...], ...] = ()
    groups: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """Number of codes."""
        return len(self.categories) or len(self.edges) - 1 + self.nullable

    @property
    def ends(self) -> tuple[float, ...]:
        """Of the bins of a number: the edges, of which the last one lies beyond the last value."""
        return (*self.edges[:-1], self.edges[-1] + self.number.grain)

    @property
    def number(self) -> AnyNumber:
        """Some column of this type of numbers."""
        return number_like(self.type)

    @property
    def names(self) -> tuple[str, ...]:
        """Of every code: its categories, or the range of a number's bin."""
        if self.categories:
            return tuple(
                ", ".join("none" if category == MISSING else category for category in some)
                for some in self.categories
            )
        highs = (*(edge - self.number.grain for edge in self.edges[1:-1]), self.edges[-1])
        names = [
            low if low == high else f"{low} to {high}"
            for low, high in zip(self._words(self.edges[:-1]), self._words(highs), strict=True)
        ]
        return (*names, *(["none"] if self.nullable else []))

    def word(self, number: float) -> str:
        """One of its numbers as people write it."""
        return self._words([number])[0]

    @property
    def end_names(self) -> tuple[str, ...]:
        """Of every edge of a number's bins, as `names` has them."""
        return tuple(self._words(self.edges))

    def _words(self, edges: Sequence[float]) -> list[str]:
        if not self.number.plain:
            return [str(word) for word in self.number.restored(np.array(edges))]
        return [number_word(edge) for edge in edges]

    def drawn(
        self, codes: np.ndarray, share: np.ndarray, instead: np.ndarray | None = None
    ) -> pa.Array:
        """A value for each code, null where there is none: shape (rows,).

        Args:
            share: of what a code stands for, what is below the value, in [0, 1).
            instead: of a number, what is to stand there; NaN where nothing is.
        """
        if self.categories:
            sizes = np.array([len(some) for some in self.categories])
            places = (np.cumsum(sizes) - sizes)[codes] + (share * sizes[codes]).astype(np.int64)
            return pa.array(
                [self.value(category) for some in self.categories for category in some],
                _TYPES[self.type],
            ).take(pa.array(places))
        numbers = self.placed(codes, share, self.digits)
        if instead is not None:
            numbers = np.where(np.isnan(instead), numbers, instead)
        missing = np.isnan(numbers)
        return pa.array(
            self.number.restored(np.where(missing, self.edges[0], numbers)), mask=missing
        )

    def placed(self, codes: np.ndarray, share: np.ndarray, digits: int) -> np.ndarray:
        """A number for each code, with so many decimal places, at this share of what its bin holds;
        NaN where there is none: shape (rows,).
        """
        missing = codes == len(self.edges) - 1
        bins = np.where(missing, 0, codes)
        if self.within:
            share = self._within(bins, share)
        if self.shares:
            share = inside(self.ends, self.shares, self.number.grain).drawn(bins, share)
        return np.where(missing, np.nan, placed(self.edges, digits, bins, share))

    def means(self, count: int) -> np.ndarray:
        """The mean of each of the first bins of a number: shape (count,); NaN of a missing one."""
        at = (np.arange(_POINTS) + 0.5) / _POINTS
        digits = self.digits if self.number.grain else _FINE
        inner = len(self.edges) - 1
        return np.array(
            [
                self.placed(np.full(_POINTS, place), at, digits).mean() if place < inner else np.nan
                for place in range(count)
            ]
        )

    def _within(self, bins: np.ndarray, share: np.ndarray) -> np.ndarray:
        """This share of the parts that numbers are from, as a share of all that a bin holds."""
        found = share.copy()
        for place, parts in enumerate(self.within):
            if parts and (rows := bins == place).any():
                begins, ends = np.transpose(parts)
                until = np.cumsum(ends - begins)
                far = share[rows] * until[-1]
                part = np.minimum(np.searchsorted(until, far, side="right"), len(parts) - 1)
                before = (until - (ends - begins))[part]
                last = np.nextafter(ends[part], 0)
                found[rows] = np.minimum(begins[part] + (far - before), last)
        return found

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
            of_place = np.repeat(
                np.arange(len(self.categories)), [len(some) for some in self.categories]
            )
            places = self.places(values)
            return np.where(places == UNKNOWN, UNKNOWN, of_place[places])
        return np.floor(self.positions(values)).astype(np.int64)

    def positions(self, values: pa.ChunkedArray) -> np.ndarray:
        """The code of each value and, of a number, how far it lies in its bin, in [0, 1): float64
        of shape (rows,). See `codes`.
        """
        if self.categories:
            return self.codes(values).astype(np.float64)
        numbers = self.numbers(values)
        missing = len(self.edges) - 1 if self.nullable else UNKNOWN
        bins = np.searchsorted(self.edges[1:-1], numbers, side="right")
        return np.where(np.isnan(numbers), missing, bins + self._far(bins, numbers))

    @property
    def mean_positions(self) -> np.ndarray:
        """Of each code that of the mean of its bin: shape (codes,)."""
        codes = np.arange(self.count)
        if self.categories:
            return codes.astype(np.float64)
        inner = len(self.edges) - 1
        far = self._far(codes[:inner], self.means(inner))
        return codes + np.append(far, np.zeros(self.count - inner))

    def _far(self, bins: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        ends = np.array(self.ends)
        return np.clip((numbers - ends[bins]) / np.diff(ends)[bins], 0, _LAST)

    def places(self, values: pa.ChunkedArray) -> np.ndarray:
        """The place of each value among all categories: int64 of shape (rows,), `UNKNOWN` of what
        is none. Raises DataError: they are of a type that is not converted to the column's.
        """
        check_taken(values.type, "categories", self.column, _WHERE)
        texts = as_text(
            pc.if_else(pc.is_nan(values), None, values)
            if pa.types.is_floating(values.type)
            else values,
            self.column,
            _WHERE,
        )
        listed = tuple(category for some in self.categories for category in some)
        kind = cast(ValueType, self.type)
        is_missing = pc.or_(pc.equal(texts, ""), is_word(texts, self.missing, kind))
        gap = MISSING if self.nullable else pa.scalar(None, pa.string())
        filled = pc.if_else(is_missing, gap, texts)
        places = category_codes(filled, listed, kind, dict(self.groups))
        return np.asarray(places.fill_null(UNKNOWN)).astype(np.int64)

    def numbers(self, values: pa.ChunkedArray) -> np.ndarray:
        """Values of a number as float64, days or seconds of a date, NaN where there is none: shape
        (rows,).

        Raises:
            DataError: one is no number or date.
        """
        check_taken(values.type, self.number.takes, self.column, _WHERE)
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
            if not self.number.plain:
                values = typed_column(values, self.number, self.column, _WHERE)
            numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        except pa.ArrowException:
            raise DataError(_WHERE, "holds what is no number", column=self.column) from None
        meant = [
            number for word in self.missing if (number := self.number.number(word)) is not None
        ]
        return np.where(np.isin(numbers, meant), np.nan, numbers)


@dataclass(frozen=True)
class RowForm:
    """How released rows are coded, label last, and what the codes of each column stand for; `label`
    is None where nothing is predicted.
    """

    encoding: LocalEncoding
    features: tuple[Meaning, ...]
    label: Meaning | None

    @property
    def meanings(self) -> tuple[Meaning, ...]:
        """Of all columns, the label last."""
        return (*self.features, *([self.label] if self.label else []))

    def seen(self, codes: np.ndarray) -> RowForm:
        """The same, numbers being where these released rows let expect them in their bins."""
        bins = self.encoding.decode(codes)

        def meant(meaning: Meaning, column: np.ndarray) -> Meaning:
            if meaning.categories:
                return meaning
            known = column[(column != UNKNOWN) & (column < len(meaning.edges) - 1)]
            counts = np.bincount(known, minlength=len(meaning.edges) - 1)
            return replace(meaning, shares=tuple((counts / max(1, len(known))).tolist()))

        features = (meant(meaning, bins[:, place]) for place, meaning in enumerate(self.features))
        label = self.label and meant(self.label, bins[:, -1])
        return RowForm(self.encoding, tuple(features), label)

    def table(
        self,
        codes: np.ndarray,
        contract: Contract,
        chance: np.random.Generator,
        shares: np.ndarray | None = None,
        totals: Mapping[int, np.ndarray] = MappingProxyType({}),
    ) -> pa.Table:
        """Rows of values, in the contract's order of columns and its types; columns that are not in
        the rows are left out.

        Args:
            shares, totals: see `related_rows.RelatedRows`; shares are drawn if None.
        """
        bins = self.encoding.decode(codes)
        columns = {}
        for place, meaning in enumerate(self.meanings):
            unknown = bins[:, place] == UNKNOWN
            known = (
                np.where(unknown, chance.integers(meaning.count, size=len(bins)), bins[:, place])
                if unknown.any()
                else bins[:, place]
            )
            if meaning.column not in columns:
                share = chance.random(len(known)) if shares is None else shares[:, place]
                values = meaning.drawn(known, share, totals.get(place))
                columns[meaning.column] = meaning.nullable, values
        named = [(name, *columns[name]) for name in contract.columns if name in columns]
        return pa.Table.from_arrays(
            [values for *_, values in named],
            schema=pa.schema(
                [pa.field(name, values.type, nullable) for name, nullable, values in named]
            ),
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
    if label.has_rule:
        return _parts(contract, label.column, label)
    return _whole(contract, label.column)


def _whole(contract: Contract, name: str) -> Meaning:
    """All values of a column: each category, or the bins of a number."""
    if name in contract.numbers:
        return _number(contract, name, contract.numbers[name].edges(contract.cuts_of(name)))
    return _listed(contract, name, [(category,) for category in contract.listed[name].categories])


def _parts(contract: Contract, name: str, rule: Rule) -> Meaning:
    """What the parts of a rule stand for."""
    if name in contract.numbers:
        return _number(contract, name, rule.cuts)
    return _listed(contract, name, contract.listed[name].resolve_parts(rule.parts))


def _listed(contract: Contract, name: str, categories: Sequence[tuple[str, ...]]) -> Meaning:
    column = contract.listed[name]
    words = contract.missing_words(name)
    return Meaning(
        name,
        column.value_type,
        column.nullable,
        tuple(categories),
        missing=words,
        groups=tuple(column.groups.items()),
    )


def _number(contract: Contract, name: str, inner: Iterable[float]) -> Meaning:
    column = contract.numbers[name]
    words = contract.missing_words(name)
    edges = (column.bounds[0], *column.at(inner), column.bounds[1])
    digits = column.digits(edges)
    return Meaning(name, column.type, column.nullable, (), edges, digits, words)
