"""The shape of a table's contract, as frozen types.

A bound, threshold, category or group in here is public knowledge: it is written down by
someone who knows the field, never read from the private table. Cross-references between
the parts (a template that names a missing column, groups that do not multiply to k) are
checked in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Category, Frozen, Grown, Name, Text
from dpicl.contract.declared import Declared
from dpicl.contract.sources import Evaluation, QueryFile, Source, Split

Levels = Annotated[tuple[float, ...] | None, Field(min_length=1, max_length=255)]
"""Rising cut points between the levels of a number that released rows tell apart, from public knowledge."""


class NumberColumn(Grown):
    """What all columns of numbers share."""

    later: ClassVar[tuple[str, ...]] = ("levels",)

    levels: Levels = None
    """Rising cut points between the values that MST-TabICL tells apart, in the column's unit.

    Left out: every whole number where there are at most 16, else the cuts of `local` and `prompts`, else eight equal parts.
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
    """A whole number."""
    bounds: tuple[int, int]
    """[low, high], both possible, from public knowledge; values outside are clipped."""
    decimals: Literal[0] = 0
    """None are shown."""
    step: Literal[1] = 1
    """Sums are exact."""


class RealColumn(NumberColumn):
    """Real numbers with public bounds; sums are taken exactly on a grid of `step`."""

    type: Literal["real"]
    """A number with a fraction."""
    bounds: tuple[float, float]
    """[low, high], both possible, from public knowledge; values outside are clipped."""
    decimals: Annotated[int, Field(ge=0, le=6)] = 2
    """Most digits after the point in prompts."""
    step: Annotated[float, Field(gt=0)] = 0.001
    """Values are rounded to whole numbers of it before they are summed; in the column's unit."""

    @model_validator(mode="after")
    def _step_fits(self) -> RealColumn:
        width = self.bounds[1] - self.bounds[0]
        if not self.step <= width <= self.step * 2**53:
            raise ValueError(f"a step of {self.step} does not fit the bounds; expected 1 to 2^53 steps between them")
        return self


class CategoryColumn(Frozen):
    """One of a public list of categories; `texts` says how a prompt puts each."""

    type: Literal["category"]
    """One of a list."""
    categories: Annotated[tuple[Category, ...], Field(min_length=1, max_length=256)]
    """All values that there may be, 256 at most, from public knowledge: those too that no row has."""
    texts: dict[Category, Text] = {}
    """{category: how a prompt puts it}; others stand for themselves."""

    @model_validator(mode="after")
    def _consistent(self) -> CategoryColumn:
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category stands twice; expected distinct categories")
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
    """Of a number: rising cut points, a part below each and one above; in the column's unit."""
    parts: tuple[tuple[Category, ...] | Literal["rest"], ...] = ()
    """Of categories: the set of each part, all of them together every category."""

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
    """One randomised answer of a client: a rule on a column and a text per part."""

    name: Name
    """Of the answer, as the local template calls it."""
    column: Name
    """The feature that is asked about."""
    texts: tuple[Text, ...]
    """How a prompt puts each part, in their order."""

    @model_validator(mode="after")
    def _text_each(self) -> Attribute:
        if len(self.texts) != self.part_count:
            raise ValueError(f"{len(self.texts)} texts for {self.part_count} parts; expected one text per part")
        return self


class Label(Rule):
    """The binary label: part 1 of the rule is the positive class."""

    column: Name
    """The column that is to be told."""
    question: Text
    """What a prompt asks after the row; the answer is Yes or No."""

    @model_validator(mode="after")
    def _binary(self) -> Label:
        if self.part_count != 2:
            raise ValueError(f"the rule makes {self.part_count} parts; expected two, negative first")
        return self


class GroupKey(Rule):
    """One GROUP BY key: a rule on a column."""

    column: Name
    """The column whose parts make groups."""


def _as_group_key(value: Any) -> Any:
    """A slip is answered in terms of both forms that a key may have."""
    if value == "label" or isinstance(value, dict | GroupKey):
        return value
    raise ValueError(f"got {str(value)[:60]!r}; expected `label`, or a mapping with column and cuts or parts")


class Word(Frozen):
    """A word or sentence that depends on a field: one text per part of the field's rule.

    In a local template the field is an attribute and its parts are the attribute's; in a
    central template it is a column and `cuts` or `parts` are given here.
    """

    field: Name
    """The attribute (local) or column (central) that it depends on."""
    texts: tuple[Annotated[str, StringConstraints(max_length=2000)], ...]
    """What is written for each part, in their order; may be empty, and may hold `{field}` places."""
    cuts: tuple[float, ...] = ()
    """Of a number in a central template: as those of a rule."""
    parts: tuple[tuple[Category, ...] | Literal["rest"], ...] = ()
    """Of categories in a central template: as those of a rule."""


class Template(Frozen):
    """Text with `{field}` places; a field is a column, an attribute or one of `words`."""

    text: Text
    """What a row becomes, with places `{name}` of its fields and words."""
    words: dict[Name, Word] = {}
    """Words by name whose choice depends on a field."""


class Prompts(Frozen):
    """One template for locally randomised rows, one for group averages and plain rows."""

    local: Template
    """Of attributes, for LDP-TabICL."""
    central: Template
    """Of columns, for GDP-TabICL, MST-TabICL and rows that are asked about."""


class Check(Frozen):
    """Severity of one rule on the table; `fail` stops the run, `warn` is reported."""

    rule: Literal["in_bounds", "known_categories", "no_missing", "both_labels", "row_count", "unique"]
    """What must hold; without a `column`, of every column that it suits."""
    column: Name | None = None
    """Of one column only; `unique` without one is about whole rows."""
    at_least: Annotated[int, Field(ge=1)] | None = None
    """Fewest rows of `row_count` (2 if left out), or of each label of `both_labels` (1 if left out)."""
    severity: Literal["warn", "fail"] = "fail"
    """Whether a broken rule stops the run or is only reported."""


class Contract(Declared):
    """All public knowledge on one data set."""

    later: ClassVar[tuple[str, ...]] = (*Declared.later, "split", "queries")

    source: Source
    """Where the rows are, who published them, and on what terms."""
    split: Split | None = None
    """Which rows are held out; left out where none are, as of a table with something at stake."""
    queries: QueryFile | None = None
    """Of a table that is no benchmark: public rows to ask and to measure on, in place of held-out ones."""
    columns: Annotated[dict[Name, Column], Field(min_length=1)]
    """Every column that is read, by name."""
    label: Label
    """What is asked of a row, and which values mean Yes."""
    groups: dict[Annotated[int, Field(ge=2)], tuple[Annotated[GroupKey | Literal["label"], BeforeValidator(_as_group_key)], ...]]
    """{number of demonstrations: by what they differ}; the parts of the keys multiply to the number. One demonstration needs none."""
    local: Annotated[tuple[Attribute, ...], Field(min_length=1)]
    """What a client would be asked by LDP-TabICL."""
    prompts: Prompts
    """How rows are put in words."""
    checks: tuple[Check, ...] = ()
    """Rules beside those that every table must keep, or another severity of one of these."""

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that a central prompt may show: all but the label's and the split's."""
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
