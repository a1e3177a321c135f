"""Conditions on released rows, such as {"city": "north", "age": (18, 30)}: how likely a row of each
code meets one, and what its values then are.

    one value, a list    any of these values; None is a missing one
    a tuple of two       from the first to the second, both included; None is as far as it goes

A number lies somewhere in its bin (`inside`), so that of a bin which a condition cuts a part of the
rows meets it: those whose number, drawn as it always is, does. A sum that the contract states is
what its parts add up to (`related_rows`), wherever in its bin that lies: a bin which a condition
cuts is let through whole, and the sum is compared once it is there.

Guarantee   none spent: public, and post-processing of released rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import group_of
from dpicl.data.central.conditional import Weights
from dpicl.data.reading.encode import UNKNOWN
from dpicl.data.values import Meaning, RowForm
from dpicl.ground.errors import DataError, ParameterError, one_of
from dpicl.ground.warned import warn

Where = Mapping[str, Any]
"""By column what is asked of it; see the module."""
_HALVINGS = 64


@dataclass(frozen=True)
class Asked:
    """What is asked of one column, in one way however it was written.

    Attributes:
        categories: those that meet it; None of a number.
        ranges: those of numbers that meet it, rising and apart, within the bounds.
        missing: whether a missing number does.
    """

    categories: frozenset[str] | None = None
    ranges: tuple[tuple[float, float], ...] = ()
    missing: bool = False

    def meets(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers do: shape (rows,); NaN is missing."""
        met = np.isnan(numbers) & self.missing
        for low, high in self.ranges:
            met |= (numbers >= low) & (numbers <= high)
        return met


@dataclass(frozen=True)
class Condition:
    """What codes stand for among rows that meet a condition, how likely each code meets it, and
    what is asked by column.
    """

    form: RowForm
    weights: Weights
    asked: Mapping[str, Asked]

    @property
    def name(self) -> str:
        """The same for the same condition, in whatever order and form it was written."""
        return json.dumps(
            {
                column: [*sorted(asked.categories or ()), *asked.ranges, *[None] * asked.missing]
                for column, asked in self.asked.items()
            },
            sort_keys=True,
        )

    @property
    def words(self) -> str:
        """The same as people read it: `age is 18 to 30, city is east or north`."""
        numbers = {
            meaning.column: meaning.number
            for meaning in self.form.meanings
            if not meaning.categories
        }

        def words(column: str, asked: Asked) -> str:
            named = sorted("missing" if one == MISSING else one for one in asked.categories or ())
            for ends in asked.ranges:
                number = numbers[column]
                low, high = (f"{end:.12g}" if number.plain else number.text(end) for end in ends)
                named.append(low if low == high else f"{low} to {high}")
            return " or ".join([*named, *["missing"] * asked.missing])

        by_column = sorted(self.asked.items())
        return ", ".join(f"{column} is {words(column, asked)}" for column, asked in by_column)


def conditional_form(form: RowForm, where: Where, sums: Collection[str] = ()) -> Condition:
    """A condition on rows that are coded so.

    Args:
        sums: columns whose numbers are the sums of others.

    Raises:
        ParameterError: names a column that is not released, a value that it cannot have, or a range
            of what has no order.
    """
    meanings = list(form.meanings)
    places = {meaning.column: place for place, meaning in enumerate(meanings)}
    weights, by_column = {}, {}
    for name, value in sorted(where.items()):
        if name not in places:
            raise ParameterError("where", name, one_of(name, places, " (columns of the release)"))
        place = places[name]
        asked = by_column[name] = _asked(meanings[place], value)
        meaning, weight = _given(meanings[place], asked)
        if name in sums:
            weights[place] = (weight > 0).astype(float)
        else:
            meanings[place], weights[place] = meaning, weight
    label = meanings.pop() if form.label else None
    return Condition(replace(form, features=tuple(meanings), label=label), weights, by_column)


def warn_of_whole_groups(form: RowForm, where: Where) -> None:
    """Say of codes in a condition that rows of their whole groups meet it: released rows have
    groups, and no codes.
    """
    for meaning in form.meanings:
        if meaning.column not in where:
            continue
        asked = where[meaning.column]
        values = list(asked) if isinstance(asked, list | set | frozenset) else [asked]
        for value in values if meaning.groups else ():
            group = None if value is None else group_of(str(value), dict(meaning.groups))
            if group not in (None, value):
                warn(
                    f"where {meaning.column}={value!r}: is met by all rows of the group {group!r}; "
                    "rows are released by group, not by code"
                )


def _asked(meaning: Meaning, asked: Any) -> Asked:
    if isinstance(asked, tuple):
        if meaning.categories or len(asked) != 2:
            raise _unfit(meaning, asked, _EXPECTED[bool(meaning.categories)])
        first, last = (_number(meaning, end, asked) for end in asked)
        low, high = -np.inf if first is None else first, np.inf if last is None else last
        if low > high:
            raise _unfit(meaning, asked, "the least first, then the largest")
        if high < meaning.edges[0] or low > meaning.edges[-1]:
            raise _outside(meaning, asked)
        return Asked(ranges=_apart(meaning, [(low, high)]))
    values = list(asked) if isinstance(asked, list | set | frozenset) else [asked]
    if not values:
        raise _unfit(meaning, asked, _EXPECTED[bool(meaning.categories)])
    if meaning.categories:
        return Asked(frozenset(_category(meaning, value) for value in values))
    numbers = [_number(meaning, value, asked) for value in values]
    points = [number for number in numbers if number is not None]
    if None in numbers and not meaning.nullable:
        raise _unfit(meaning, asked, "values, as the contract has it not nullable")
    ranges = _apart(meaning, [(point, point) for point in points])
    if None not in numbers and not ranges:
        raise _outside(meaning, asked)
    return Asked(ranges=ranges, missing=None in numbers)


def _apart(meaning: Meaning, ranges: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Ranges within the bounds, those that touch as one: 40, 41 is 40 to 41 of whole numbers."""
    least, most = meaning.edges[0], meaning.edges[-1]
    found: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if high < least or low > most:
            continue
        low, high = max(low, least), min(high, most)
        if found and low <= found[-1][1] + meaning.number.grain:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def _given(meaning: Meaning, asked: Asked) -> tuple[Meaning, np.ndarray]:
    """What codes stand for among rows that meet it, and how likely each of them does."""
    if asked.categories is None:
        return _between(meaning, asked.ranges, asked.missing)
    kept = tuple(
        tuple(category for category in some if category in asked.categories)
        for some in meaning.categories
    )
    weights = [len(some) / len(all_) for some, all_ in zip(kept, meaning.categories, strict=True)]
    return replace(meaning, categories=kept), np.array(weights)


def _outside(meaning: Meaning, asked: Any) -> ParameterError:
    least, most = meaning.word(meaning.edges[0]), meaning.word(meaning.edges[-1])
    return _unfit(meaning, asked, f"some of its bounds, {least} to {most}")


_EXPECTED = {
    True: "a category, or a list of some",
    False: "a value, a list of some, or a tuple of the least and the largest",
}


def _unfit(meaning: Meaning, asked: Any, expected: str) -> ParameterError:
    return ParameterError(f"where {meaning.column}", repr(asked)[:60], expected)


def _number(meaning: Meaning, value: Any, asked: Any) -> float | None:
    if value is None:
        return None
    try:
        (number,) = meaning.numbers(pa.chunked_array([pa.array([value])])).tolist()
    except (DataError, pa.ArrowException):
        raise _unfit(meaning, asked, f"values of type {meaning.type}") from None
    return float(number)


def _category(meaning: Meaning, value: Any) -> str:
    """The category that a value stands for."""
    listed = [category for some in meaning.categories for category in some]
    try:
        (place,) = meaning.places(pa.chunked_array([pa.array([value])])).tolist()
    except (DataError, pa.ArrowException):
        place = UNKNOWN
    if place == UNKNOWN:
        shown = ", ".join(category for category in listed[:20] if category != MISSING)
        raise _unfit(meaning, value, f"one of its categories: {shown}")
    return listed[place]


def _between(
    meaning: Meaning, ranges: Sequence[tuple[float, float]], missing: bool
) -> tuple[Meaning, np.ndarray]:
    """Of numbers: of each bin the parts of its rows that lie in one of these ranges, which do not
    overlap.
    """
    bins = np.arange(len(meaning.edges) - 1)
    parts: list[list[tuple[float, float]]] = [[] for _ in bins]
    for low, high in ranges:
        begins = _below(meaning, bins, partial(np.less_equal, low))
        ends = _below(meaning, bins, partial(np.less, high))
        for bin_, begin, end in zip(bins.tolist(), begins.tolist(), ends.tolist(), strict=True):
            if end > begin:
                parts[bin_].append((begin, end))
    weights = [sum(end - begin for begin, end in some) for some in parts]
    if meaning.nullable:
        weights.append(float(missing))
    return replace(meaning, within=tuple(map(tuple, parts))), np.array(weights)


def _below(
    meaning: Meaning, bins: np.ndarray, beyond: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The share of each bin below the first number that is beyond a bound, as numbers rise with
    their share.
    """
    low, high = np.zeros(len(bins)), np.ones(len(bins))

    def is_beyond(share: np.ndarray) -> np.ndarray:
        return beyond(meaning.placed(bins, share, meaning.digits))

    low = np.where(is_beyond(low), -1.0, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = is_beyond(np.clip(middle, 0, np.nextafter(1, 0)))
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return np.where(low < 0, 0.0, high)
