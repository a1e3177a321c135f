"""What all columns of numbers have in common: bounds, bins between them, and averages.

A value is a whole or a real number, whatever it is written as. Methods that whole numbers differ in
are here as real numbers need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil, isnan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from dpicl.contract.base import Problems
from dpicl.contract.columns.base import MISSING, AnyColumn, Extent, Refuse
from dpicl.contract.columns.category import NUMBER, is_number_word
from dpicl.contract.parts import Attribute, GroupKey, Rule, Word

if TYPE_CHECKING:
    import pyarrow as pa

_LEADING_ZERO = r"^-?0\d"
_ZEROS = (
    "has leading zeros, which a number would lose; expected `type: category` for codes such as "
    "00501, or numbers without them"
)
Bins = Annotated[
    tuple[float, ...] | None,
    Field(min_length=1, max_length=255, serialization_alias="levels"),
]
"""Rising edges between the bins of a number, from public knowledge."""
_EQUAL, _PARTS, _MOST_DIGITS, _NEAR_ZERO = 8, 4, 12, 10
_OCTAVES = (3, 7, 14, 21)
"""From a bound to the nearest edge, the whole width being 2^octaves times as far."""
_FEW_EDGES = 16
"""So many comparisons of a whole column take less time than a search for each of its numbers."""
_ROWS_PER_BLOCK = 1 << 14


class NumberColumn(AnyColumn):
    """What all numeric columns have in common."""

    unsaid = (*AnyColumn.unsaid, "bins", "nullable")
    takes: ClassVar[str] = "numbers"
    """Which types of Arrow, as `check_taken` names them."""
    rule: ClassVar[str] = "in_bounds"
    """The check that is made of every such column."""
    grain: ClassVar[float] = 0.0
    """How far a value is from the next one, where that is always the same."""
    stated_in: ClassVar[str] = "bounds"
    """The key that says which values there are."""
    target: ClassVar[Literal["number"]] = "number"
    """The kind of a label of all its values."""

    nullable: bool = False
    """Whether a value may be missing: such rows have a bin of their own, the last one."""
    bins: Bins = None
    """Rising edges of the bins that MST-TabICL counts in, without the bounds, in the column's unit.

    If left out: one bin per whole number where there are at most 16, else the cuts of `local` and
    `prompts`, else those of public grids that a part of epsilon chooses; where nothing is chosen,
    as in a series, eight equal bins. Clients report one of four parts if left out, which get wider
    from a bound at or near zero on.
    """

    if TYPE_CHECKING:  # each type has them where digests of contracts have always had them
        type: str
        bounds: tuple[float, float]
        decimals: int
        step: float

    @field_validator("bounds", check_fields=False)
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1] or max(map(abs, value)) > 2**53:
            raise ValueError(
                f"got {list(value)}; expected [low, high] with low < high, both from -2^53 to 2^53"
            )
        return value

    # cells

    def number(self, text: str) -> float | None:
        """What a text stands for; None if it is none of these numbers."""
        return float(text) if NUMBER.fullmatch(text) else None

    def holds(self, word: str) -> bool:
        """Whether a word is a value."""
        value = self.number(word)
        return value is not None and self.bounds[0] <= value <= self.bounds[1]

    def marked(
        self, text: pa.ChunkedArray, words: Sequence[str], read: Callable[[], pa.ChunkedArray]
    ) -> pa.ChunkedArray:
        """Which texts are one of the words for a missing value, in any way of writing it: -9.0 for
        -9. `read` reads the texts, null where one is no value.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        is_marked = pc.is_in(text, value_set=pa.array(words))
        meant = [number for word in words if (number := self.number(word)) is not None]
        if not meant:
            return pc.or_(is_marked, is_number_word(text, words))
        numbers = read().cast(pa.float64(), safe=False)
        return pc.or_(is_marked, pc.is_in(numbers, value_set=pa.array(meant, pa.float64())))

    def mended(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values with the lower bound in the place of null; null where a value may be missing."""
        return values if self.nullable else values.fill_null(self.bounds[0])

    def _refuse_zeros(self, text: pa.ChunkedArray, refuse: Refuse) -> None:
        import pyarrow.compute as pc

        refuse(pc.match_substring_regex(text, _LEADING_ZERO), _ZEROS)

    @property
    def any_value(self) -> str:
        """The lower bound, as text."""
        low = self.bounds[0]
        return str(low) if self.plain else self.text(low)

    def restored(self, numbers: np.ndarray) -> np.ndarray:
        """Float64 as values that leave: shape (rows,), of a type that Arrow has an equal of."""
        return numbers

    # codes

    def at(self, cuts: Iterable[float]) -> list[float]:
        """The first value of what begins at each cut."""
        return list(cuts)

    def edges(self, stated: Sequence[float] = ()) -> np.ndarray:
        """Rising edges between the bins, without the bounds.

        Its `bins`; else every whole number where there are at most 16; else what is `stated`
        elsewhere; else eight equal bins.
        """
        if self.bins is not None:
            return np.array(self.bins, dtype=float)
        if not stated:
            return np.linspace(*self.bounds, _EQUAL + 1)[1:-1]
        return np.array(sorted(set(self.at(stated))), dtype=float)

    def is_open(self, stated: Sequence[float] = ()) -> bool:
        """Whether nobody says what its bins are."""
        return self.bins is None and not stated

    def grids(self) -> list[tuple[float, ...]]:
        """Edges like those of `bins`, of about eight bins, that a release may choose from; none
        twice, the usual ones first: equal bins; bins that get wider from one bound on, evenly,
        which are usual from a bound at or near zero; bins that get narrower towards a bound, or
        towards zero between the bounds, by several times each; and equal bins of a part of the
        bounds, a 4th or 16th of them.
        """
        low, high = self.bounds
        width = high - low
        steps = np.arange(1, _EQUAL)
        found = self._usual(_EQUAL)
        for octaves in _OCTAVES:
            narrowing = width * 2.0 ** (-octaves * steps / (_EQUAL - 1))
            found += [low + narrowing, high - narrowing]
        if low < 0 < high:
            for octaves in _OCTAVES:
                half = np.arange(1, 1 + _EQUAL // 2)
                narrowing = max(-low, high) * 2.0 ** (-octaves * half / len(half))
                found.append(np.concatenate([-narrowing, narrowing]))
        for parts in (4, 16):
            begins = low + width * np.arange(2 * parts - 1) / (2 * parts)
            inside = width / parts * np.arange(_EQUAL + 1) / _EQUAL
            found += [begin + inside for begin in begins]
        edges = (
            tuple(sorted({edge for edge in self.at(grid.tolist()) if low < edge < high}))
            for grid in found
        )
        return list(dict.fromkeys(filter(None, edges)))

    def _usual(self, count: int) -> list[np.ndarray]:
        """Edges of so many bins that are equal, or get wider from one bound on, the usual first."""
        low, high = self.bounds
        shares = np.arange(1, count) / count
        equal, up, down = (
            low + (high - low) * shares,
            low + (high - low) * shares**2,
            high - (high - low) * shares**2,
        )
        if 0 <= low <= high / _NEAR_ZERO:
            return [up, equal, down]
        if 0 >= high >= low / _NEAR_ZERO:
            return [down, equal, up]
        return [equal, up, down]

    def codes(self, numbers: np.ndarray, stated: Sequence[float] = ()) -> np.ndarray:
        """The bin of every number: shape (rows,), whole numbers."""
        return bin_codes(numbers, self.edges(stated), nullable=self.nullable)

    def count(self, stated: Sequence[float] = ()) -> int:
        """How many bins there are."""
        return len(self.edges(stated)) + 1 + self.nullable

    def part_codes(self, numbers: np.ndarray, rule: Rule | Word) -> np.ndarray:
        """The part of a rule that every number falls into: shape (rows,), whole numbers."""
        return bin_codes(numbers, np.asarray(rule.cuts), nullable=self.nullable)

    def middles(self) -> list[float | str]:
        """What each bin reads as; one that ends at a bound may be very wide, and reads as if it
        were no wider than the one beside it.
        """
        edges = np.array([self.bounds[0], *self.at(self.edges()), self.bounds[1]], dtype=float)
        edges[[0, -1]] = (
            max(edges[0], 2 * edges[1] - edges[2]),
            min(edges[-1], 2 * edges[-2] - edges[-3]),
        )
        return [*self._between(edges).tolist(), *([MISSING] if self.nullable else [])]

    def _between(self, edges: np.ndarray) -> np.ndarray:
        return (edges[:-1] + edges[1:]) / 2

    def digits(self, edges: Sequence[float]) -> int:
        """Decimal places of numbers that are drawn from bins between these edges."""
        return 0

    # groups and averages

    @property
    def extent(self) -> Extent:
        """All values."""
        return self.bounds

    def part(self, rule: Rule, place: int, name: str) -> tuple[Extent, str]:
        """The values of one part of a rule, and the predicate in words."""
        cuts = self.at(rule.cuts)  # whole numbers below 17.5 reach up to 17
        edges = (self.bounds[0], *cuts, self.bounds[1] + self.step)
        low, end = edges[place : place + 2]
        upper = f" in [{low:g}, {end:g})" if place < len(cuts) else f" >= {low:g}"
        return (low, end - self.step), name + upper

    def only(self, extent: Extent) -> float | str | None:
        """The one value that an extent allows; None where it allows several."""
        low, high = extent
        return low if high - low < self.step else None

    def coded(self, values: Sequence[float | str]) -> np.ndarray:
        """Released values as a table has them."""
        return np.array(values, dtype=float)

    def distance(self, numbers: np.ndarray, others: np.ndarray) -> np.ndarray:
        """How far apart they are, in widths of the bounds: at most 1, as where one is missing."""
        apart = np.abs(numbers - others) / (self.bounds[1] - self.bounds[0])
        return np.nan_to_num(np.minimum(apart, 1), nan=1.0)

    def design(
        self, numbers: np.ndarray, *, one_hot: bool
    ) -> tuple[np.ndarray, list[float], list[float]]:
        """Features of a linear model, shape (rows, features), and their bounds."""
        low, high = self.bounds
        known = np.where(np.isnan(numbers), (low + high) / 2, numbers)
        return known[:, np.newaxis], [low], [high]

    # words

    def text(self, value: float) -> str:
        """A number as a prompt has it."""
        return format_number(value, self.decimals)

    def worded(self, value: float | str) -> str:
        """A value as a prompt has it; a missing one as `unknown`."""
        return "unknown" if value == MISSING else self.text(float(value))

    def values(self, numbers: np.ndarray) -> list[float | str]:
        """Of rows that are put to a model."""
        return [MISSING if isnan(number) else number for number in numbers.tolist()]

    def shown(self, value: float | str) -> float | str:
        """A released value as tables for people have it, with the decimals that prompts show."""
        if not self.plain:
            return self.worded(value)
        return value if isinstance(value, str) else float(self.text(value))

    @property
    def answers(self) -> tuple[str, ...]:
        """Of a label: the middles of the bins."""
        return tuple(map(self.worded, self.middles()))

    @property
    def described(self) -> str:
        """Its bounds, for people."""
        low, high = (f"{end:g}" if self.plain else self.text(end) for end in self.bounds)
        return f"{low} to {high}"

    def attribute(self, column: str, name: str) -> Attribute:
        """What clients report where nothing is stated: its `bins`, or four parts, which get wider
        from a bound at or near zero on, or are equal, as a few whole numbers' always are.
        """
        low, high = self.bounds
        equal = np.linspace(low, high, _PARTS + 1)[1:-1]
        usual = self._usual(_PARTS)[0] if self.plain and self.is_open() else equal
        inner = self.bins or usual.tolist()
        cuts = sorted({cut for cut in self.at(inner) if low < cut <= high})
        edges = list(map(self.worded, cuts))
        texts = (
            f"less than {edges[0]}",
            *(f"{low} to less than {other}" for low, other in pairwise(edges)),
            f"{edges[-1]} or more",
            *(("unknown",) if self.nullable else ()),
        )
        return Attribute(
            name=name, column=column, cuts=tuple(cuts), missing=self.nullable, texts=texts
        )

    def halves(self, column: str) -> GroupKey | None:
        """The lower and the upper half of its values; not of numbers that may be missing."""
        low, high = self.bounds
        (middle,) = self.at([(low + high) / 2])
        if self.nullable or not low < middle <= high:
            return None
        return GroupKey(column=column, cuts=(middle,))

    # checks

    @property
    def rule_text(self) -> str:
        """What its own check says of it."""
        low, high = self.bounds
        return f"lies between {low:g} and {high:g}; values outside are clipped"

    @property
    def expectation(self) -> tuple[str, dict[str, Any]]:
        """The same for Great Expectations."""
        low, high = self.bounds
        return "expect_column_values_to_be_between", {"min_value": low, "max_value": high}

    def check_rule(self, rule: Rule | Word, key: str) -> Problems:
        """A rule parts these numbers."""
        if rule.missing != self.nullable:
            expected = (
                "`missing: true`, and a part more, the last"
                if self.nullable
                else "no `missing`: the column is not nullable"
            )
            yield f"{key}.missing", "does not fit the column", expected
        if rule.parts:
            yield f"{key}.parts", "lists categories of a numeric column", "`cuts` with numbers"
        yield from self._check_cuts(rule.cuts, f"{key}.cuts")

    def check_bins(self, key: str) -> Problems:
        """Its bins part them."""
        yield from self._check_cuts(self.bins or (), key)

    def _check_cuts(self, stated: tuple[float, ...], key: str) -> Problems:
        low, high = self.bounds
        cuts = self.at(stated)
        if not all(low < cut <= high for cut in cuts) or any(
            later <= earlier for earlier, later in pairwise(cuts)
        ):
            yield (
                key,
                f"{list(stated)} leaves a part empty",
                f"rising cuts above {low} and up to {high}",
            )


def bin_codes(numbers: np.ndarray, edges: np.ndarray, *, nullable: bool) -> np.ndarray:
    """The bin of every number between rising inner edges; where they may be missing, a bin of their
    own, the last.

    Returns:
        Shape (rows,), whole numbers.
    """
    missing = np.isnan(numbers) if nullable and numbers.dtype.kind == "f" else None
    if len(edges) > _FEW_EDGES:
        codes = np.searchsorted(edges, numbers, side="right")
        return codes if missing is None else codes + missing
    codes = np.zeros(len(numbers), dtype=np.uint8)
    bounds = [edge if numbers.dtype.kind == "f" else ceil(edge) for edge in edges.tolist()]
    # which stay in the cache from edge to edge
    for start in range(0, len(numbers), _ROWS_PER_BLOCK):
        block = numbers[start : start + _ROWS_PER_BLOCK]
        counts = codes[start : start + _ROWS_PER_BLOCK]
        for bound in bounds:
            np.add(counts, (block >= bound).view(np.uint8), out=counts)
    if missing is not None:
        codes[missing] = len(edges) + 1
    return codes


def placed(edges: Sequence[float], digits: int, bins: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The number at this share, in [0, 1), of what each bin holds: float64 of shape (rows,).

    The multiples of 1 / 10^digits in a bin are all as likely; of a bin without any, a number of any
    size in it.
    """
    scale = 10.0**digits
    first, last = _multiples(edges, scale)
    numbers = (first[bins] + np.floor(share * (last - first + 1)[bins])) / scale
    low = np.array(edges[:-1])[bins]
    high = np.array(edges[1:])[bins]
    return np.where((last < first)[bins], low + share * (high - low), numbers)


def digits_for(edges: Sequence[float], digits: int, least: int) -> int:
    """The first number of decimal places, from `digits` on, at which every bin holds at least so
    many numbers.
    """
    while digits < _MOST_DIGITS:
        first, last = _multiples(edges, 10.0**digits)
        if (last - first + 1).min() >= least:
            break
        digits += 1
    return digits


def _multiples(edges: Sequence[float], scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last multiple of 1 / scale in every bin, times scale."""
    scaled = np.round(np.array(edges) * scale, 6)
    first = np.ceil(scaled[:-1])
    last = np.ceil(scaled[1:]) - 1
    last[-1] = np.floor(scaled[-1])
    return first, last


def format_number(value: float, decimals: int) -> str:
    """A number as a prompt prints it: rounded, without trailing zeros or a negative zero."""
    text = f"{value + 0.0:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if decimals else text
    return "0" if text in ("-0", "") else text
