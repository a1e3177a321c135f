"""The shape of a table's contract, as frozen types.

All bounds, thresholds, categories and groups are public knowledge: they are written by somebody who
knows the field, never read from the private table. Cross-references between the parts (a template
that names a missing column, groups that do not multiply to k) are checked in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Category, Frozen, Name, Text
from dpicl.contract.declared import Declared
from dpicl.contract.sources import Evaluation, QueryFile, Source, Split

Bins = Annotated[tuple[float, ...] | None, Field(min_length=1, max_length=255)]
"""Rising edges between the bins of a number, from public knowledge."""


class NumberColumn(Frozen):
    """What all numeric columns have in common."""

    later: ClassVar[tuple[str, ...]] = ("bins",)
    earlier: ClassVar[dict[str, str]] = {"bins": "levels"}

    bins: Bins = None
    """Rising edges of the bins that MST-TabICL counts in, without the bounds, in the column's unit.

    If left out: one bin per whole number where there are at most 16, else the cuts of `local` and `prompts`, else eight equal bins.
    """

    @field_validator("bounds", check_fields=False)
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1] or max(map(abs, value)) > 2**53:
            raise ValueError(f"got {list(value)}; expected [low, high] with low < high, both exact as doubles")
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
            raise ValueError(f"a step of {self.step} does not fit the bounds; expected 1 to 2^53 steps between them")
        return self


class CategoryColumn(Frozen):
    """Categories from a public list; `texts` gives their wording in prompts."""

    type: Literal["category"]
    """Categories."""
    categories: Annotated[tuple[Category, ...], Field(min_length=1, max_length=256)]
    """All possible values, at most 256, from public knowledge: including those that no row has."""
    texts: dict[Category, Text] = {}
    """{category: its wording in prompts}; the category itself where none is given."""

    @model_validator(mode="after")
    def _consistent(self) -> CategoryColumn:
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category is repeated; expected distinct categories")
        unknown = sorted(set(self.texts) - set(self.categories))
        if unknown:
            raise ValueError(f"texts names {unknown[0]!r}; expected only listed categories")
        return self


Column = Annotated[IntegerColumn | RealColumn | CategoryColumn, Field(discriminator="type")]


class Rule(Frozen):
    """Parts of one column's values: cut points of a number, or sets of categories.

    `cuts: [a, b]` makes three parts: value < a, a <= value < b, value >= b.
    `parts: [[x], rest]` makes one part per set; `rest` takes what no other part names.
    """

    cuts: tuple[float, ...] = ()
    """For numbers: rising cut points, in the column's unit; n of them make n + 1 parts."""
    parts: tuple[tuple[Category, ...] | Literal["rest"], ...] = ()
    """For categories: the categories of each part; together all of them."""

    @model_validator(mode="after")
    def _one_of(self) -> Rule:
        if bool(self.cuts) == bool(self.parts):
            raise ValueError("the rule is unclear; expected either `cuts` or `parts`")
        if any(later <= earlier for earlier, later in zip(self.cuts, self.cuts[1:], strict=False)):
            raise ValueError(f"cuts {list(self.cuts)} do not rise; expected rising cut points")
        return self

    @property
    def part_count(self) -> int:
        """How many parts the rule makes."""
        return len(self.cuts) + 1 if self.cuts else len(self.parts)


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
            raise ValueError(f"{len(self.texts)} texts for {self.part_count} parts; expected one text per part")
        return self


class Label(Rule):
    """The binary label: part 1 of the rule is the positive class."""

    column: Name
    """The column to predict."""
    question: Text
    """The question that follows a row in a prompt; the answer is Yes or No."""

    @model_validator(mode="after")
    def _binary(self) -> Label:
        if self.part_count != 2:
            raise ValueError(f"the rule makes {self.part_count} parts; expected two, negative first")
        return self


class GroupKey(Rule):
    """One key of GROUP BY: the parts of a column."""

    column: Name
    """The column to group by."""


def _as_group_key(value: Any) -> Any:
    """An error message names both forms of a key."""
    if value == "label" or isinstance(value, dict | GroupKey):
        return value
    raise ValueError(f"got {str(value)[:60]!r}; expected `label`, or a mapping with column and cuts or parts")


class Word(Frozen):
    """A word or sentence that depends on a field: one text per part of the field's rule.

    In a local template the field is an attribute and its parts are the attribute's; in a
    central template it is a column and `cuts` or `parts` are given here.
    """

    field: Name
    """The attribute (local) or column (central) it depends on."""
    texts: tuple[Annotated[str, StringConstraints(max_length=2000)], ...]
    """The text for each part, in order; may be empty, and may contain `{field}` placeholders."""
    cuts: tuple[float, ...] = ()
    """For numbers in a central template: rising cut points."""
    parts: tuple[tuple[Category, ...] | Literal["rest"], ...] = ()
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


class Check(Frozen):
    """One check of the table."""

    rule: Literal["in_bounds", "known_categories", "no_missing", "both_labels", "row_count", "unique"]
    """What must hold; for every suitable column if no `column` is given."""
    column: Name | None = None
    """The column to check; `unique` without one is about whole rows."""
    at_least: Annotated[int, Field(ge=1)] | None = None
    """Minimum number of rows for `row_count` (2 if left out), or per label for `both_labels` (1 if left out)."""
    severity: Literal["warn", "fail"] = "fail"
    """Whether a failed check stops the run (`fail`) or is only reported (`warn`)."""


class Contract(Declared):
    """Everything that is publicly known about one table."""

    later: ClassVar[tuple[str, ...]] = (*Declared.later, "split", "queries")

    source: Source
    """Where the rows are, who published them, and under which licence."""
    split: Split | None = None
    """Which rows are held out; a private table usually holds out none."""
    queries: QueryFile | None = None
    """For a private table: public rows that serve as queries and for evaluation, in place of held-out ones."""
    columns: Annotated[dict[Name, Column], Field(min_length=1)]
    """Every column to read, by name."""
    label: Label
    """What to predict for a row, and which values mean Yes."""
    groups: dict[Annotated[int, Field(ge=2)], tuple[Annotated[GroupKey | Literal["label"], BeforeValidator(_as_group_key)], ...]]
    """{number of demonstrations: keys of GROUP BY}; the keys' numbers of parts multiply to that number. One demonstration needs no entry."""
    local: Annotated[tuple[Attribute, ...], Field(min_length=1)]
    """The attributes that clients report in LDP-TabICL."""
    prompts: Prompts
    """How rows are written as text."""
    checks: tuple[Check, ...] = ()
    """Checks beside the default ones, or another severity for one of these."""

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that a central prompt may show: all except those of the label and the split."""
        return tuple(name for name in self.columns if name not in (self.label.column, self.split_column))

    @property
    def split_column(self) -> str | None:
        """The column of a published split."""
        return self.split.column if self.split else None

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        if self.privacy.budget.benchmark or self.queries:
            return "public"
        return "charged" if self.split and self.split.evaluation_epsilon is not None else "none"

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Columns that a source must have: the declared ones, and the id of the person."""
        person = self.privacy.person
        return (*self.columns, *([person.id_column] if person else []))

    @property
    def shots(self) -> tuple[int, ...]:
        """Numbers of demonstrations that the contract can make centrally."""
        return (1, *sorted(self.groups))
