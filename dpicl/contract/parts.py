"""Rules that part a column's values, and what is made of parts: attributes, the label, groups and
words of prompts.

All thresholds are public knowledge: they are written by somebody who knows the field, never read
from the private table.
"""

from __future__ import annotations

from itertools import pairwise
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
    category is a class, and a number is predicted as a number.
    """

    unsaid: ClassVar[tuple[str, ...]] = (*Rule.unsaid, "answers")

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

    unsaid: ClassVar[tuple[str, ...]] = ("missing",)

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
