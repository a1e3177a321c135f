"""A first contract for a table that has none, from what is known of its columns; all else is
derived from these.

What rows say is no public knowledge: where columns were read off rows, their lines are marked
LOOKED and the contract says `draft: true`, by which nothing is released. What is not known yet is
written as `null` and marked FILL IN: such a contract is refused wherever it is read, by the name of
the column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from dpicl.contract.base import NAME
from dpicl.contract.columns import TYPES
from dpicl.contract.columns.category import BOOLEANS, ValueType, value_of
from dpicl.contract.load import parse_contract
from dpicl.contract.models import Contract
from dpicl.contract.parts import asked_about
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.nouns import twelve_digits
from dpicl.ground.yaml_file import parse_yaml

MARK = "# LOOKED: replace by what is publicly known"
FILL_IN = "# FILL IN: what is publicly known"
UNNAMED = "a name that a contract cannot write; give it another by `source: {rename: {...}}`"
GROUPS = "codeGroups"
"""The custom property of ODCS that holds a column's `groups`."""
_BARE = re.compile(r"[^\W\d][\w-]*( [\w-]+)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""What some reader of YAML takes for something else than text."""
_SAMPLED = 100_000
"""From about this many rows on, averages of a tenth of them have little noise."""


def typed_groups(groups: Mapping[str, str], kind: ValueType) -> dict[str, Any]:
    """Groups of codes in the type of the column's values."""
    return {code: value_of(group, kind) for code, group in groups.items()}


@dataclass(frozen=True)
class DraftColumn:
    """One column: numbers or dates between bounds, booleans, or categories; a bound of None and no
    categories have to be filled in.
    """

    name: str
    type: str
    """As a contract has it."""
    bounds: tuple[float | str | None, float | str | None] = (None, None)
    """Numbers; ISO texts of dates."""
    categories: tuple[str, ...] = ()
    value_type: ValueType = "category"
    """In which the categories are written."""
    nullable: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
    """The map by which the categories are groups of codes, if they are."""
    missing: tuple[str, ...] = ()
    """Words that stand for a missing value in it."""
    note: str = ""
    """What its publisher says of it, for the person who fills it in."""
    more: Mapping[str, Any] | None = None
    """Its other keys, if a contract has them; None where none has, so that they are chosen."""

    @property
    def is_listed(self) -> bool:
        """Whether its values are listed, and not between bounds."""
        return TYPES[self.type].stated_in == "categories"

    @property
    def is_open(self) -> bool:
        """Whether something has to be filled in."""
        return not self.categories if self.is_listed else None in self.bounds

    @property
    def line(self) -> str:
        """As it stands under `columns`."""
        low, high = self.bounds
        values = f", bounds: [{self._end(low, math.floor)}, {self._end(high, math.ceil)}]"
        if self.is_listed:
            stated = [value_of(category, self.value_type) for category in self.categories]
            values = f", categories: {_flow(stated or None)}" if self.type == "category" else ""
            if self.groups:
                groups = typed_groups(self.groups, self.value_type)
                follows = stated == list(dict.fromkeys(groups.values()))
                values = f"{'' if follows else values}, groups: {_json(groups)}"
        grid = self._grid if self.more is None else ""
        more = "".join(f", {key}: {_flow(value)}" for key, value in (self.more or {}).items())
        words = f", missing: {_json(list(self.missing))}" if self.missing else ""
        return (
            f"{_key(self.name)}: {{type: "
            f"{self.type}{values}{grid}{', nullable: true' if self.nullable else ''}{words}{more}}}"
        )

    def _end(self, bound: float | str | None, outwards: Callable[[float], int]) -> str:
        """A bound; of whole numbers one between two of them moves outwards."""
        if bound is None or isinstance(bound, str):
            return _json(bound)
        if self.type == "integer":
            return _plain(outwards(bound))
        return _plain(tidy(bound) if self.more is None else bound)

    @property
    def _grid(self) -> str:
        """Decimals and step of real numbers whose bounds are too narrow or too wide for the usual
        ones.
        """
        low, high = self.bounds
        if self.type != "real" or not (
            isinstance(low, int | float) and isinstance(high, int | float) and high - low > 0
        ):
            return ""
        digit = math.floor(math.log10(high - low))
        if digit < 0:
            return f", step: {_plain(10.0 ** (digit - 3))}, decimals: {min(2 - digit, 6)}"
        return f", step: {10 ** (digit - 9)}" if high - low >= 1e12 else ""

    def filled(self) -> DraftColumn:
        """With something in the place of what has to be filled in, to see whether all else
        holds.
        """
        low, high = self.bounds
        if not TYPES[self.type].plain:
            return replace(self, bounds=(low or "1000-01-01", high or "9000-01-01"))
        low = (0 if high is None else float(high) - 1) if low is None else low
        return replace(
            self,
            bounds=(low, float(low) + 1 if high is None else high),
            categories=self.categories or ("one", "another"),
        )


@dataclass(frozen=True)
class Draft:
    """What a first contract says."""

    name: str
    file: str
    """Where the rows are, below the data folder."""
    columns: tuple[DraftColumn, ...]
    label: str | None
    """The column to predict, if one is."""
    positive: tuple[str, ...]
    """Its values that count as Yes; if there are none, each of its values is a class, and a number
    is predicted as a number.
    """
    epsilon: float = 3
    """Cap of all releases; about right for 1,000 rows of five columns."""
    population: int | None = None
    """About how many rows there are, as publicly stated."""
    origin: str = ""
    """What says bounds and categories; the rows themselves if empty."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """{column that is left out: why}."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """{key of `source`: how the file is written}, where that is not the usual way."""
    missing: str | None = None
    """The word that stands for a missing value, beside none at all."""
    person: tuple[str, int] | None = None
    """Where one person may have several rows: the column that names them, and how many rows of each
    enter a release.
    """
    stated: Mapping[str, Any] = field(default_factory=dict)
    """All keys of a contract but its name, place and columns, if a data contract states them: then
    label, epsilon and person are its own.
    """

    @property
    def looked(self) -> bool:
        """Whether bounds and categories were read off rows."""
        return not self.origin

    @property
    def open_count(self) -> int:
        """Columns that have to be filled in."""
        return sum(column.is_open for column in self.columns)

    def contract(self) -> Contract:
        """What it says, once it is filled in.

        Raises:
            DeclarationError: it were no contract.
        """
        outcome = (*self.positive, "none of these") if self.positive else ("one", "another")
        known = [
            replace(column, categories=outcome)
            if column.name == self.label and not column.categories
            else column
            for column in self.columns
        ]
        filled = replace(self, columns=tuple(column.filled() for column in known))
        contract = parse_contract(
            parse_yaml(filled.text.encode(), f"{self.name}.yaml"), f"{self.name}.yaml"
        )
        assert isinstance(contract, Contract)
        return contract

    @property
    def text(self) -> str:
        """The file."""
        if self.stated:
            return self._as_stated
        ignore = f", ignore: {_json(list(self.ignored))}" if self.ignored else ""
        missing = f", missing: {_json(self.missing)}" if self.missing else ""
        written = "".join(f", {key}: {_json(value)}" for key, value in self.written.items())
        left_out = "".join(f"# left out: {line}\n" for line in self.left_out)
        unit = (
            f"unit: person, person: {{id_column: {_key(self.person[0])}, max_rows: "
            f"{self.person[1]}}}, "
            if self.person
            else ""
        )
        person = (
            ""
            if self.person
            else "# A person may have several rows? privacy: {unit: person, person: {id_column: …, "
            "max_rows: …}, …}\n"
        )
        if self.person and self.looked:
            person = (
                f"# {_json(self.person[0])} repeats, as if it named persons: `unit: person` "
                f"protects all rows of one, of whom at most `max_rows` enter,\n"
                "# and a release costs that many times a row's. If it names none, take `unit` and "
                "`person` out, and put it under `ignore`.\n"
            )
        sizes = (
            "  # cap of all releases; 1 is enough for thousands of rows\n# population: about how "
            "many rows, as publicly known, never counted"
        )
        if self.population is not None:
            sizes = (
                f"  # cap of all releases\npopulation: {self.population}  # as publicly known, "
                f"never counted"
            )
        label = (
            "# label: COLUMN  # what to predict; nothing if left out"
            if self.label is None
            else f"label: {_key(self.label)}"
        )
        if self.label is not None and self.positive:
            outcome = " or ".join(self.positive)
            question = _json(f"Is the value of {asked_about(self.label)} {outcome}?")
            label = (
                f"label: {{column: {_key(self.label)}, parts: [rest, {_json(self.positive)}], "
                f"question: {question}}}"
            )
        return f"""\
{_head(self)}
version: 2
name: {self.name}
{"draft: true" + chr(10) if self.looked else ""}source: {{file: {_json(self.file)}{written}{missing}{ignore}}}
{left_out}privacy: {{{unit}sampling_rate: {sampling_rate(self.population)}, budget: {{epsilon: {self.epsilon:g}}}}}{sizes}
columns:
{self._columns}
{label}
{person}# Bins, groups, attributes of local methods and sentences are derived from the columns: `dpicl contract check {self.name}` shows them,
# and `bins`, `groups`, `local` and `prompts` state others. Where a value may be missing, a column says `nullable: true`.
"""  # noqa: E501

    @property
    def _columns(self) -> str:
        marks = [
            f"{FILL_IN}{column.note and f'; {column.note}'}"
            if column.is_open
            else MARK
            if self.looked
            else ""
            for column in self.columns
        ]
        return "\n".join(
            f"  {column.line}  {mark}".rstrip()
            for column, mark in zip(self.columns, marks, strict=True)
        )

    @property
    def _as_stated(self) -> str:
        """The file, of a contract that is stated whole but for its place."""
        source: dict[str, Any] = {"file": self.file, **self.stated.get("source", {})}
        source |= self.written
        if self.ignored:
            source["ignore"] = [*source.get("ignore", []), *self.ignored]
        first = {"version": 2, "name": self.name, **self.stated, "source": source}
        left_out = "".join(f"# left out: {line}\n" for line in self.left_out)
        keys = "\n".join(f"{key}: {_flow(value)}" for key, value in first.items())
        return f"{_head(self)}\n{keys}\n{left_out}columns:\n{self._columns}\n"

    @property
    def left_out(self) -> list[str]:
        """Columns that are, and why, one line each."""
        return [f"{_json(name)}: {why}" for name, why in self.ignored.items()]


def assembled(stated: Draft, where: str) -> Draft:
    """A draft whose label, if it has one, fits its columns, which are of the file `where`.

    Raises:
        ParameterError: there is no such label, or it never or always has these values.
        DataError: no column is left to describe a row by.
    """
    label = stated.label
    positive = list(stated.positive)
    by_name = {column.name: column for column in stated.columns}
    if label is not None and label not in by_name:
        raise ParameterError(
            "label",
            label,
            f"one of the {len(by_name)} columns of {where} that a contract can describe",
        )
    if label is not None and positive:
        outcome = by_name[label]
        if outcome.type == "boolean":
            positive = [BOOLEANS.get(value, value) for value in positive]
        elif outcome.type != "category":
            outcome = by_name[label] = DraftColumn(
                label, "category", nullable=outcome.nullable, note=outcome.note
            )
        if outcome.categories and not set(positive) < set(outcome.categories):
            raise ParameterError(
                "positive",
                ",".join(positive),
                f"some, but not all, of the values of column {label}",
            )
    elif positive:
        raise ParameterError(
            "positive",
            ",".join(positive),
            "values of a column that is predicted: name it as the label",
        )
    if not by_name.keys() - {label}:
        why = "".join(
            f"; {_json(name)} has {reason}" for name, reason in list(stated.ignored.items())[:1]
        )
        beside = " beside the label" if by_name else ""
        raise DataError(
            where,
            f"has no column{beside} that a contract can describe; expected numbers, dates or few "
            f"categories{why}",
        )
    return replace(stated, columns=tuple(by_name.values()), positive=tuple(positive))


def sampling_rate(population: int | None) -> str:
    """No subsampling, which would buy noise, unless there are many rows."""
    return "1/10" if population is not None and population >= _SAMPLED else "1"


def unreplaced(text: str) -> list[tuple[int, str]]:
    """Number and content of every line of a contract file that still has one of the marks."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    return [
        (number, line)
        for number, line in lines
        if not line.startswith("#") and (MARK in line or FILL_IN in line)
    ]


def can_be_named(name: str) -> bool:
    """Whether a contract can name this column."""
    return NAME.search(name) is not None


def tidy(value: float) -> float:
    """Without what binary numbers leave behind the twelfth digit."""
    rounded = twelve_digits(value)
    return int(rounded) if rounded.is_integer() else rounded


def _plain(value: float) -> str:
    """A number without exponent, which some readers of YAML take for text."""
    return f"{Decimal(repr(value)):f}"


def _key(name: str) -> str:
    """A name as YAML has it, in quotes where it might be taken for something else."""
    if _BARE.fullmatch(name) and name.isprintable() and name.lower() not in _WORDS:
        return name
    return _json(name)


def _flow(value: Any) -> str:
    """A value of any kind in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(str(key))}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _plain(value) if isinstance(value, float) else _json(value)


def _json(value: Any) -> str:
    """As YAML has it, in a file whose letters can all be seen."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


def _head(draft: Draft) -> str:
    if draft.looked:
        return f"""\
# A draft: lines marked LOOKED hold what the rows of {draft.file} say. Write what is publicly known in their place
# (a code book, a law, a device's range), then take out `draft: true`; until then nothing is released. Why a column
# is left out is what rows say, too: take such comments out before anybody else sees this file."""  # noqa: E501
    made = f"# Made from {draft.origin}; no row of {draft.file} was looked at."
    if not draft.open_count:
        return made
    return f"""\
{made} Write what is publicly known in every line marked FILL IN
# (a code book, a law, a device's range), and never what rows say; until then the contract is refused."""  # noqa: E501
