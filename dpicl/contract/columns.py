"""Columns of a contract, and rules that part a column's values.

All bounds, thresholds and categories are public knowledge: they are written by somebody who
knows the field, never read from the private table.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator, model_validator

from dpicl.contract.base import Frozen, Name, Part, Text
from dpicl.contract.categories import MISSING as MISSING  # noqa: PLC0414 - part of what this module offers
from dpicl.contract.categories import NUMBER
from dpicl.contract.categories import BooleanColumn as BooleanColumn  # noqa: PLC0414
from dpicl.contract.categories import CategoryColumn as CategoryColumn  # noqa: PLC0414
from dpicl.contract.column_base import AnyColumn, Bins


class NumberColumn(AnyColumn):
    """What all numeric columns have in common."""

    unsaid: ClassVar[tuple[str, ...]] = (*AnyColumn.unsaid, "bins", "nullable")

    nullable: bool = False
    """Whether a value may be missing: such rows have a bin of their own, the last one."""
    bins: Bins = None
    """Rising edges of the bins that MST-TabICL counts in, without the bounds, in the column's unit.

    If left out: one bin per whole number where there are at most 16, else the cuts of `local` and
    `prompts`, else eight equal bins.
    """

    @field_validator("bounds", check_fields=False)
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1] or max(map(abs, value)) > 2**53:
            raise ValueError(
                f"got {list(value)}; expected [low, high] with low < high, both from -2^53 to 2^53"
            )
        return value


class IntegerColumn(NumberColumn):
    """Whole numbers with public bounds, both included."""

    type: Literal["integer"]
    """Whole numbers."""
    bounds: tuple[int, int]
    """[lowest, highest] possible value, from public knowledge; values outside are clipped."""
    decimals: Literal[0] = 0
    """Whole numbers have none."""
    step: Literal[1] = 1
    """Whole numbers are summed exactly."""


def _dates(least: int, most: int) -> WithJsonSchema:
    """How a file has them: texts of ISO 8601."""
    return WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "minItems": least,
            "maxItems": most,
        }
    )


class DateColumn(IntegerColumn):
    """Days, or seconds, with public bounds, both included; counted from 1970-01-01 in UTC."""

    type: Literal["date", "datetime"]  # type: ignore[assignment]  # so that dates are whole numbers to everything that counts them
    """`date`: days, as 2026-11-25. `datetime`: seconds in UTC, as 2026-11-25T12:30:00."""
    bounds: Annotated[tuple[int, int], _dates(2, 2)]
    """[earliest, latest] possible value, such as [2015-01-01, 2026-12-31], from public knowledge;
    values outside are clipped.
    """
    bins: Annotated[Bins, _dates(1, 255)] = None
    """Rising edges of the bins that rows are counted in, such as [2018-01-01, 2022-01-01]; eight
    equal bins if left out.
    """

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        kind = content.get("type")
        counted = {
            key: [moment(one, kind) if isinstance(one, str) else one for one in content[key]]
            for key in ("bounds", "bins")
            if isinstance(content.get(key), list | tuple)
        }
        return {**content, **counted}

    @model_validator(mode="after")
    def _of_calendar(self) -> DateColumn:
        try:
            _ = [self.text(end) for end in self.bounds]
        except (OverflowError, ValueError):
            raise ValueError(
                f"got {list(self.bounds)}; expected bounds in the years 1 to 9999, such as "
                f"2015-01-01"
            ) from None
        return self

    def text(self, value: float) -> str:
        """A number of days or seconds as people write it."""
        if self.type == "date":
            return (date(1970, 1, 1) + timedelta(days=round(value))).isoformat()
        return (datetime(1970, 1, 1) + timedelta(seconds=round(value))).isoformat()


def moment(text: str, kind: object) -> int:
    """Days, or for `datetime` seconds, since 1970 in UTC; of a day the time does not matter, of a
    second its fraction.

    Raises:
        ValueError: it is no date or time in the notation of ISO 8601.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"got {text[:40]!r}; expected a date such as 2026-11-25") from None
    if at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    since = at - datetime(1970, 1, 1)
    return since.days * 86400 + since.seconds if kind == "datetime" else since.days


def number_meant(text: str, kind: str) -> float | None:
    """The number, or days or seconds of a date, that a text stands for in a column of this type;
    None if it is none.
    """
    if kind not in ("date", "datetime"):
        return float(text) if NUMBER.fullmatch(text) else None
    try:
        return float(moment(text, kind))
    except (ValueError, OverflowError):
        return None


class RealColumn(NumberColumn):
    """Real numbers with public bounds; sums are taken exactly on a grid of `step`."""

    type: Literal["real"]
    """Real numbers."""
    bounds: tuple[float, float]
    """[lowest, highest] possible value, from public knowledge; values outside are clipped."""
    decimals: Annotated[int, Field(ge=0, le=6)] = 2
    """Maximum number of decimal places in prompts."""
    step: Annotated[float, Field(gt=0)] = 0.001
    """Grid on which values are rounded before they are summed, in the column's unit."""

    @model_validator(mode="after")
    def _step_fits(self) -> RealColumn:
        width = self.bounds[1] - self.bounds[0]
        if not self.step <= width <= self.step * 2**53:
            raise ValueError(
                f"a step of {self.step} does not fit the bounds; expected 1 to 2^53 steps between "
                f"them"
            )
        return self


Column = Annotated[
    IntegerColumn | RealColumn | DateColumn | CategoryColumn | BooleanColumn,
    Field(discriminator="type"),
]


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
