"""Rules that part a column's values, and what is made of parts: attributes, the label, groups and
words of prompts.

All thresholds are public knowledge: they are written by somebody who knows the field, never read
from the private table.

What a contract predicts, and the templates of its rows, as they are stated or derived from its
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from string import Formatter
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints, model_validator

from dpicl.contract.base import Frozen, Name, Part, Text


class Rule(Frozen):
    """Parts of one column's values: cut points of a number, or sets of categories.

    `cuts: [a, b]` makes three parts: value < a, a <= value < b, value >= b.
    `parts: [[x], rest]` makes one part per set; `rest` takes what no other part names.
    """

    unsaid: ClassVar[tuple[str, ...]] = ("missing",)

    cuts: tuple[float, ...] = ()
    """For numbers: rising cut points, in the column's unit; n of them make n + 1 parts."""
    missing: bool = False
    """For nullable numbers, and required there: one part more, the last, holds the missing
    values.
    """
    parts: tuple[tuple[Part, ...] | Literal["rest"], ...] = ()
    """For categories: the categories of each part; together all of them."""

    @model_validator(mode="after")
    def _one_of(self) -> Rule:
        if bool(self.cuts) == bool(self.parts):
            raise ValueError("the rule is unclear; expected either `cuts` or `parts`")
        return self

    @model_validator(mode="after")
    def _rising(self) -> Rule:
        if any(later <= earlier for earlier, later in pairwise(self.cuts)):
            raise ValueError(f"cuts {list(self.cuts)} do not rise; expected rising cut points")
        return self

    @property
    def part_count(self) -> int:
        """How many parts the rule makes."""
        return len(self.cuts) + 1 + self.missing if self.cuts else len(self.parts)


class Attribute(Rule):
    """One attribute that clients report: the parts of a column, and a text for each."""

    name: Name
    """The attribute's name in the local template."""
    column: Name
    """The column it is made from."""
    texts: tuple[Text, ...]
    """Wording of each part in prompts, in order."""

    @model_validator(mode="after")
    def _text_each(self) -> Attribute:
        if len(self.texts) != self.part_count:
            raise ValueError(
                f"{len(self.texts)} texts for {self.part_count} parts; expected one text per part"
            )
        return self


class Label(Rule):
    """What is predicted: two parts of a column (No and Yes), its categories or parts as classes, or
    a number.

    With two parts and no `answers`, part 1 of the rule is the positive class. Without a rule, every
    category is a class, and a number is predicted as a number: by the middles of its `bins`, or of
    eight equal ones of its bounds, since no epsilon chooses those of a label.
    """

    unsaid = (*Rule.unsaid, "answers")

    column: Name
    """The column to predict."""
    question: Text | None = None
    """The question that follows a row in a prompt; derived where none is given."""
    answers: tuple[Text, ...] = ()
    """One answer per part of the rule, or per category; No and Yes where there are two parts and
    none is given.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Label:
        if self.cuts and self.parts:
            raise ValueError(
                "the rule is unclear; expected `cuts` or `parts`, or none of them for all "
                "categories or a number"
            )
        if not (self.cuts or self.parts):
            return self
        if self.answers and len(self.answers) != self.part_count:
            raise ValueError(
                f"{len(self.answers)} answers for {self.part_count} parts; expected one answer "
                f"per part"
            )
        if self.part_count < 2 or (self.part_count > 2 and not self.answers):
            raise ValueError(
                f"the rule makes {self.part_count} parts; expected two, negative first, or "
                f"`answers` with one for each part"
            )
        if not self.answers and self.question is None:
            raise ValueError(
                "the question is missing; expected `question`, to which No and Yes are the answers"
            )
        return self

    @property
    def has_rule(self) -> bool:
        """Whether parts of the column are told apart, and not all its values."""
        return bool(self.cuts or self.parts)


class GroupKey(Rule):
    """One key of GROUP BY: the parts of a column."""

    column: Name
    """The column to group by."""


class Word(Frozen):
    """A word or sentence that depends on a field: one text per part of the field's rule.

    In a local template the field is an attribute and its parts are the attribute's; in a
    central template it is a column and `cuts` or `parts` are given here.
    """

    unsaid = ("missing",)

    field: Name
    """The attribute (local) or column (central) it depends on."""
    texts: tuple[Annotated[str, StringConstraints(max_length=2000)], ...]
    """The text for each part, in order; may be empty, and may contain `{field}` placeholders."""
    cuts: tuple[float, ...] = ()
    """For numbers in a central template: rising cut points."""
    missing: bool = False
    """For nullable numbers in a central template, and required there: the last text is for missing
    values.
    """
    parts: tuple[tuple[Part, ...] | Literal["rest"], ...] = ()
    """For categories in a central template: the categories of each part."""


class Template(Frozen):
    """Text with `{field}` placeholders; a field is a column, an attribute or one of `words`."""

    text: Text
    """The text of a row, with placeholders `{name}` for its fields and words."""
    words: dict[Name, Word] = {}
    """Words by name that depend on a field."""


class Prompts(Frozen):
    """The template of locally randomised rows, and that of group averages and plain rows."""

    local: Template
    """Over attributes, for LDP-TabICL."""
    central: Template
    """Over columns, for GDP-TabICL, MST-TabICL and queries."""


VERSION = 1
"""Raised when other bins, answers, attributes or groups are derived from the same columns: in
version 2 of contracts they are part of what a release is, and of its name.
"""
YES_OR_NO = "Yes or No? Answer:"
"""Cue of a binary label."""


def asked_about(column: str) -> str:
    """A column's name within a question: of any language, and perhaps a question itself."""
    return column.replace("_", " ").rstrip("?!. ") or column


@dataclass(frozen=True)
class Target:
    """The label of a table: codes 0, 1, ... of every row, and how each reads as an answer.

    Attributes:
        kind: `binary`, No or Yes; `classes`; `number`, whose codes are bins; `none`, where nothing
            is predicted.
        answers: one for each code; of `none` a single empty one.
        question, cue: what follows a row in a prompt before the answer; empty of `none`.
    """

    kind: Literal["binary", "classes", "number", "none"]
    answers: tuple[str, ...]
    question: str = ""
    cue: str = ""

    @property
    def count(self) -> int:
        """Number of codes; 1 where nothing is predicted."""
        return len(self.answers)


@dataclass(frozen=True)
class Wording:
    """A template as it is filled: pairs of literal text and the field or word that follows it, None
    where none does.
    """

    pieces: tuple[tuple[str, str | None], ...]
    words: Mapping[str, Word] = field(default_factory=dict)

    @staticmethod
    def stated(template: Template) -> Wording:
        """Of a contract's own template, whose places `rules` has checked."""
        return Wording(places_of(template.text), template.words)

    @staticmethod
    def derived(columns: Mapping[str, str]) -> Wording:
        """One sentence for each column, by {field: column}: of any number, and of whatever
        letters.
        """
        pieces = [
            (f"{'.' if number else ''} The {name.replace('_', ' ')} is ", of)
            for number, (of, name) in enumerate(columns.items())
        ]
        return Wording(((pieces[0][0].lstrip(), pieces[0][1]), *pieces[1:], (".", None)))

    @property
    def text(self) -> str:
        """The template, as a contract would state it."""
        return "".join(
            literal if name is None else f"{literal}{{{name}}}" for literal, name in self.pieces
        )


@cache
def places_of(text: str) -> tuple[tuple[str, str | None], ...]:
    """The pieces of a stated text; `format_map` would read the dot in a column's name as an
    attribute.
    """
    return tuple((literal, name) for literal, name, _, _ in Formatter().parse(text))
