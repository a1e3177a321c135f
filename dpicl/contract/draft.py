"""A first contract for a table that has none, from what is known of its columns.

What rows say is no public knowledge: where columns were read off rows, their lines are marked LOOKED and
the contract says `draft: true`, by which nothing is released. What is not known yet is written as
`null` and marked FILL IN: such a contract is refused wherever it is read, by the name of the column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpicl.contract.base import Name
from dpicl.contract.load import parse_contract
from dpicl.errors import DataError, ParameterError
from dpicl.yaml_file import parse_yaml

MOST_CATEGORIES = 64
"""Of a column that is read off rows, and no more than half as many as rows: more is free text, or names."""
MARK = "# LOOKED: replace by what is publicly known"
FILL_IN = "# FILL IN: what is publicly known"
_NAMES = re.compile(Name.__metadata__[0].pattern)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class DraftColumn:
    """One column: numbers between bounds, or categories; a bound of None and no categories have to be filled in."""

    name: str
    type: Literal["integer", "real", "category"]
    bounds: tuple[float | None, float | None] = (None, None)
    categories: tuple[str, ...] = ()
    note: str = ""
    """What its publisher says of it, for the person who fills it in."""

    @property
    def is_open(self) -> bool:
        """Whether something has to be filled in."""
        return not self.categories if self.type == "category" else None in self.bounds

    @property
    def line(self) -> str:
        """As it stands under `columns`."""
        values = f"categories: {_json(self.categories or None)}" if self.type == "category" else f"bounds: {_json(self._shown)}"
        return f"{self.name}: {{type: {self.type}, {values}}}"

    @property
    def attribute(self) -> str:
        """As it stands under `local`: a number is split in the middle, every category is a part of its own."""
        low, high = self._shown
        if self.type == "category":
            rule = f"parts: {_json([[one] for one in self.categories] or None)}, texts: {_json(self.categories or None)}"
        elif low is None or high is None:
            rule = "cuts: [null], texts: null"
        else:
            cut = tidy((low + high) / 2)
            rule = f"cuts: [{cut}], texts: {_json([f'less than {cut}', f'{cut} or more'])}"
        return f"{{name: {self.name}, column: {self.name}, {rule}}}"

    @property
    def _shown(self) -> tuple[float | None, float | None]:
        """Whole numbers as such; a bound between two of them moves outwards."""
        low, high = self.bounds
        if self.type == "integer":
            return None if low is None else math.floor(low), None if high is None else math.ceil(high)
        return None if low is None else tidy(low), None if high is None else tidy(high)

    def filled(self) -> DraftColumn:
        """With something in the place of what has to be filled in, to see whether all else holds."""
        low, high = self.bounds
        low = (0 if high is None else high - 1) if low is None else low
        return replace(self, bounds=(low, low + 1 if high is None else high), categories=self.categories or ("one", "another"))


@dataclass(frozen=True)
class Draft:
    """What a first contract says. `positive` are the label's values that count as Yes; `ignored` columns are left out."""

    name: str
    file: str
    """Where the rows are, below the data folder."""
    features: tuple[DraftColumn, ...]
    label: DraftColumn
    positive: tuple[str, ...]
    epsilon: float
    origin: str = ""
    """What says bounds and categories; the rows themselves if empty."""
    ignored: tuple[str, ...] = ()
    person: tuple[str, int] | None = None
    """Where one person may have several rows: the column that names them, and how many rows of each enter a release."""
    sentence: str = ""
    """How a prompt puts a row; one sentence for each column if empty."""

    @property
    def columns(self) -> tuple[DraftColumn, ...]:
        """The features, and the label."""
        return (*self.features, self.label)

    @property
    def looked(self) -> bool:
        """Whether bounds and categories were read off rows."""
        return not self.origin

    @property
    def open_count(self) -> int:
        """Columns that have to be filled in."""
        return sum(column.is_open for column in self.columns)

    def check(self) -> None:
        """Raises a DeclarationError if it were no contract once it is filled in."""
        label = replace(self.label, categories=self.label.categories or (*self.positive, "none of these"))
        filled = replace(self, features=tuple(column.filled() for column in self.features), label=label)
        parse_contract(parse_yaml(filled.text.encode(), f"{self.name}.yaml"), f"{self.name}.yaml")

    @property
    def text(self) -> str:
        """The file."""
        unit = "unit: row  # or person, with `person: {id_column: …, max_rows: …}`, where a person may have several rows"
        if self.person is not None:
            unit = f"unit: person\n  person: {{id_column: {self.person[0]}, max_rows: {self.person[1]}}}"
        leave_out = f"\n  ignore: {_json(self.ignored)}" if self.ignored else ""
        columns = "\n".join(_marked(f"  {column.line}", column, self) for column in self.columns)
        attributes = "\n".join(_marked(f"  - {column.attribute}", column, self) for column in self.features)
        sentence = _json(self.sentence or sentences(self.features))
        return f"""\
{_head(self)}
version: 1
name: {self.name}
{"draft: true" + chr(10) if self.looked else ""}description: Records of {self.name}.

source:
  title: {self.name}
  licence: not published
  citation: none
  file: {_json(self.file)}{leave_out}

privacy:
  {unit}
  neighbours: add-or-remove-one
  sampling_rate: 1/10
  budget: {{epsilon: {self.epsilon:g}}}

# Every row is protected. To measure answers, name a file of public rows with these columns: `queries: {{file: …}}`.

columns:
{columns}

label:
  column: {self.label.name}
  parts: [rest, {_json(self.positive)}]
  question: {_json(f"Is the {self.label.name} {' or '.join(self.positive)}?")}

groups:
  2: [label]

local:
{attributes}

prompts:
  local:
    text: {sentence}
  central:
    text: {sentence}
"""


def assemble(columns: Sequence[DraftColumn], label: str, positive: Sequence[str], where: str, **others: Any) -> Draft:
    """A draft of columns of which one is the label; the others are what a `Draft` takes.

    Raises:
        ParameterError: there is no such label, or it never or always has these values.
        DataError: no column is left to describe a row by.
    """
    features = {column.name: column for column in columns}
    if label not in features:
        raise ParameterError("label", label, f"one of the {len(columns)} columns of {where} that a contract can describe")
    outcome = features.pop(label)
    if outcome.type != "category":
        outcome = DraftColumn(label, "category", note=outcome.note)
    if not positive or (outcome.categories and not set(positive) < set(outcome.categories)):
        raise ParameterError("positive", ",".join(positive), f"some, but not all, of the values of column {label}")
    if not features:
        raise DataError(
            where, "has no column that a contract can describe; expected numbers or few categories, named by letters and digits"
        )
    return Draft(features=tuple(features.values()), label=outcome, positive=tuple(positive), **others)


def can_be_named(name: str) -> bool:
    """Whether a contract can name this column."""
    return _NAMES.match(name) is not None


def tidy(value: float) -> float:
    """Without what binary numbers leave behind the twelfth digit."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def sentences(features: Sequence[DraftColumn]) -> str:
    """How a prompt puts a row by default."""
    return " ".join(f"The {column.name} is {{{column.name}}}." for column in features)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _marked(line: str, column: DraftColumn, draft: Draft) -> str:
    """A line on a column, with what has to be done about it."""
    if draft.looked:
        return f"{line}  {MARK}"
    note = f"; {column.note}" if column.note else ""
    return f"{line}  {FILL_IN}{note}" if column.is_open else line


def _head(draft: Draft) -> str:
    """Where it comes from, and what is to be done."""
    if draft.looked:
        return f"""\
# A draft: lines marked LOOKED hold what the rows of {draft.file} say. Write what is publicly known in their place
# (a code book, a law, a device's range), then take out `draft: true`; until then nothing is released."""
    made = f"# Made from {draft.origin}; no row of {draft.file} was looked at."
    if not draft.open_count:
        return made
    return f"""\
{made} Write what is publicly known in every line marked FILL IN
# (a code book, a law, a device's range), and never what rows say; until then the contract is refused."""
