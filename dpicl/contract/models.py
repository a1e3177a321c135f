"""The shape of a table's contract, as frozen types.

All bounds, thresholds, categories and groups are public knowledge: they are written by somebody who
knows the field, never read from the private table. Cross-references between the parts (a template
that names a missing column, groups that do not multiply to k) are checked in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from dpicl.contract.base import Frozen, Name
from dpicl.contract.columns import Column
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.number import NumberColumn
from dpicl.contract.declared import Declared
from dpicl.contract.derive import YES_OR_NO, Target, Wording
from dpicl.contract.parts import Attribute, GroupKey, Label, Prompts
from dpicl.contract.sources import Evaluation, QueryFile, Source, Split
from dpicl.types import LABEL

_MOST_SHOTS = 64


def _as_label(value: Any) -> Any:
    """A column's name alone stands for all its values."""
    return {"column": value} if isinstance(value, str) else value


def _as_group_key(value: Any) -> Any:
    """An error message names both forms of a key."""
    if value == "label" or isinstance(value, dict | GroupKey):
        return value
    raise ValueError(
        f"got {str(value)[:60]!r}; expected `label`, or a mapping with column and cuts or parts"
    )


class Check(Frozen):
    """One check of the table."""

    rule: Literal[
        "in_bounds", "known_categories", "no_missing", "both_labels", "row_count", "unique"
    ]
    """What must hold; for every suitable column if no `column` is given. `row_count`, `both_labels`
    and `unique` are about all rows together, and hold of no table unless they are stated: that one
    fails is a refusal that anybody sees, one exact bit about the table, which no epsilon covers.
    """
    column: Name | None = None
    """The column to check; `unique` without one is about whole rows."""
    at_least: Annotated[int, Field(ge=1)] | None = None
    """Minimum number of rows for `row_count` (2 if left out), or per label for `both_labels` (1 if
    left out).
    """
    severity: Literal["warn", "fail"] = "fail"
    """Whether a failed check stops the run (`fail`) or is only reported (`warn`)."""


class Contract(Declared):
    """Everything that is publicly known about one table: its columns, and as much else as is
    stated.

    Groups, local attributes and templates that are not stated are derived from the columns
    (`derive`), whenever they are needed: they are no part of the stored form. In version 1 of
    contracts they are always stated, and groups that are not are none.
    """

    unsaid: ClassVar[tuple[str, ...]] = (*Declared.unsaid, "split", "queries", "population")

    source: Source
    """Where the rows are, who published them, and under which licence."""
    population: Annotated[int, Field(ge=1)] | None = None
    """About how many rows there are, as publicly stated, and never as counted: for plans and
    warnings; and from 524,289 on a folder or query is read in batches.
    """
    split: Split | None = None
    """Which rows are held out; a private table usually holds out none."""
    queries: QueryFile | None = None
    """For a private table: public rows that serve as queries and for evaluation, in place of
    held-out ones.
    """
    columns: Annotated[dict[Name, Column], Field(min_length=1)]
    """Every column to read, by name."""
    label: Annotated[
        Label | None, BeforeValidator(_as_label, json_schema_input_type=str | Label | None)
    ] = None
    """What to predict for a row: a column's name, or a rule for its values; nothing if left out."""
    groups: dict[
        Annotated[int, Field(ge=2)],
        tuple[Annotated[GroupKey | Literal["label"], BeforeValidator(_as_group_key)], ...],
    ] = {}
    """{number of demonstrations: keys of GROUP BY}; the keys' numbers of parts multiply to that
    number. One demonstration needs no entry.
    """
    local: tuple[Attribute, ...] = ()
    """The attributes that clients report in LDP-TabICL."""
    prompts: Prompts | None = None
    """How rows are written as text."""
    checks: tuple[Check, ...] = ()
    """Checks beside the default ones, which are all about single values, or another severity for
    one of these.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that a central prompt may show: all except those of the label and the split."""
        return tuple(
            name for name in self.columns if name not in (self.label_column, self.split_column)
        )

    @property
    def label_column(self) -> str | None:
        """The column that is predicted."""
        return self.label.column if self.label else None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, from which everything is derived anew."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("numbers", "listed", "target", "attributes", "wording", "group_keys"):
            vars(copied).pop(name, None)
        return copied

    @cached_property
    def numbers(self) -> dict[str, NumberColumn]:
        """Columns of numbers, which are averaged."""
        return {
            name: column
            for name, column in self.columns.items()
            if isinstance(column, NumberColumn)
        }

    @cached_property
    def listed(self) -> dict[str, CategoryColumn]:
        """Columns of categories, which are counted."""
        columns = self.columns.items()
        return {name: column for name, column in columns if isinstance(column, CategoryColumn)}

    def cuts_of(self, column: str) -> list[float]:
        """Where stated attributes and sentences cut a column."""
        words = self.prompts.central.words.values() if self.prompts else ()
        rules = [
            *(rule.cuts for rule in self.local if rule.column == column),
            *(word.cuts for word in words if word.field == column),
        ]
        return [cut for cuts in rules for cut in cuts]

    @cached_property
    def target(self) -> Target:
        """What is predicted, as codes and answers."""
        label = self.label
        if label is None:
            return Target("none", ("",))
        question = label.question or f"What is the {label.column.replace('_', ' ')}?"
        if label.has_rule and not label.answers:
            return Target("binary", ("No", "Yes"), question, YES_OR_NO)
        if label.column not in self.columns:  # which is about to be refused
            return Target("none", ("",))
        column = self.columns[label.column]
        if label.answers:
            return Target("classes", label.answers, question, "Answer:")
        return Target(column.target, column.answers, question, "Answer:")

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that clients report: as stated, else derived."""
        return self.local or tuple(
            self.columns[name].attribute(name, name if name != LABEL else f"{name}_")
            for name in self.features
        )

    @cached_property
    def wording(self) -> tuple[Wording, Wording]:
        """How rows are written as text, for the local and the central method: as stated, else
        derived.
        """
        if self.prompts is not None:
            return Wording.stated(self.prompts.local), Wording.stated(self.prompts.central)
        return Wording.derived(
            {attribute.name: attribute.column for attribute in self.attributes}
        ), Wording.derived({name: name for name in self.features})

    @cached_property
    def group_keys(self) -> dict[int, tuple[GroupKey | Literal["label"], ...]]:
        """{number of demonstrations: keys of GROUP BY}: as stated, else by the label, then by
        halves of one column after another, up to 64.
        """
        if self.groups or self.version == 1:
            return self.groups
        keys: tuple[GroupKey | Literal["label"], ...] = ()
        groups: dict[int, tuple[GroupKey | Literal["label"], ...]] = {}
        count = 1
        if 1 < self.target.count <= _MOST_SHOTS:
            count, keys = self.target.count, ("label",)
            groups[count] = keys
        for name in self.features:
            key = self.columns[name].halves(name)
            if key is not None and 2 * count <= _MOST_SHOTS:
                keys, count = (*keys, key), 2 * count
                groups[count] = keys
        return groups

    @property
    def split_column(self) -> str | None:
        """The column of a published split."""
        return self.split.column if self.split else None

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        if self.label is None:
            return "none"
        if self.privacy.budget.benchmark or self.queries:
            return "public"
        return "charged" if self.split and self.split.evaluation_epsilon is not None else "none"

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Columns that a source must have: the declared ones, the id of the person, the day on
        which a row arrived, and its sign.
        """
        person, more = self.privacy.person, (self.source.arrived, self.source.sign)
        return (*self.columns, *([person.id_column] if person else []), *filter(None, more))

    def missing_words(self, column: str) -> tuple[str, ...]:
        """What stands for a missing value in a column of the source, beside an empty cell."""
        declared = self.columns.get(column)
        if declared is not None and declared.missing is not None:
            return declared.missing
        return () if self.source.missing is None else (self.source.missing,)

    @property
    def tells_row_count(self) -> bool:
        """See `Declared`: not where a word for a missing value leaves rows out."""
        return super().tells_row_count and (
            self.privacy.budget.benchmark or not self.drops_marked_rows
        )

    @property
    def drops_marked_rows(self) -> bool:
        """Whether a word for a missing value leaves rows out: one of a column that is not
        nullable.
        """
        gaps = {name for name, column in self.columns.items() if column.nullable}
        return any(self.missing_words(name) for name in self.read_columns if name not in gaps)

    def fate_of(self, column: str) -> Literal["refuse", "leave-out", "missing", "stand-in"]:
        """What becomes of a row whose value of this column is none: by that row alone. Where rows
        are only ever exchanged their number is public, and the column's first category or lower
        bound stands in for a value that cannot be missing, as it does for a client's.
        """
        declared = self.columns.get(column)
        if declared is None:  # whose row it is, and when it came
            return "leave-out" if self.leaves_out and not self.exchanges else "refuse"
        stated = declared.invalid or (
            ("missing" if declared.nullable else "leave-out") if self.leaves_out else "refuse"
        )
        if stated == "leave-out" and self.exchanges:
            return "missing" if declared.nullable else "stand-in"
        return stated

    def refusing(self) -> Contract:
        """The same for public rows, of which none is left out or mended."""
        return self._reading("invalid", "refuse")

    def without_missing_words(self) -> Contract:
        """The same for rows in which an empty cell alone is a missing value."""
        return self._reading("missing", None)

    def _reading(self, key: str, of_source: str | None) -> Contract:
        columns = {
            name: column.model_copy(update={key: None}) for name, column in self.columns.items()
        }
        source = self.source.model_copy(update={key: of_source})
        return self.model_copy(update={"columns": columns, "source": source})

    @property
    def takes_back(self) -> bool:
        """See `Declared`."""
        return self.source.sign is not None

    @property
    def is_delivered(self) -> bool:
        """See `Declared`."""
        return self.source.deliveries is not None

    @property
    def shots(self) -> tuple[int, ...]:
        """Numbers of demonstrations that the contract can make centrally."""
        return (1, *sorted(self.group_keys))
