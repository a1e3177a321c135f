"""The shape of a table's contract, as frozen types.

All bounds, thresholds, categories and groups are public knowledge: they are written by somebody who
knows the field, never read from the private table. Cross-references between the parts (a template
that names a missing column, groups that do not multiply to k) are checked in `rules`.

Checks of a contract whose table grows: a horizon of periods that are charged together; each failure
is one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from dpicl.contract.base import Frozen, Name, Positive, Problems
from dpicl.contract.columns import Column
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.number import NumberColumn
from dpicl.contract.declared import Declared, Evaluation, QueryFile, Source, Split
from dpicl.contract.parts import (
    YES_OR_NO,
    Attribute,
    GroupKey,
    Label,
    Prompts,
    Target,
    Wording,
    asked_about,
)
from dpicl.contract.relations import Relation
from dpicl.contract.text import TextContract
from dpicl.ground.errors import ParameterError
from dpicl.ground.files import harmless
from dpicl.ground.types import LABEL

_MOST_SHOTS = 64
_MOST_CHOSEN = 40
"""Columns whose bins are chosen; of more all have equal bins."""


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
    at_least: Positive | None = None
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

    unsaid = (*Declared.unsaid, "split", "queries", "population", "relations")

    source: Source
    """Where the rows are, who published them, and under which licence."""
    population: Positive | None = None
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
    relations: tuple[Relation, ...] = ()
    """What is publicly known of several columns of one row. Every released row keeps it, for no
    epsilon: rows of the model that do not are left out, and the shares of single columns brought
    back, which moves what columns have in common; `quality()` and `caveats` say how far. A private
    row that does not has these values missing, where they may be.
    """
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

    @property
    def bins_are_chosen(self) -> bool:
        """Whether a release that is no series chooses the bins of those that are open."""
        return 0 < len(self.open_numbers) <= _MOST_CHOSEN

    @property
    def open_numbers(self) -> tuple[str, ...]:
        """Features whose bins nobody states."""
        return tuple(
            name
            for name in self.features
            if name in self.numbers and self.numbers[name].is_open(self.cuts_of(name))
        )

    def with_bins(self, bins: Mapping[str, tuple[float, ...]]) -> Contract:
        """The same with these bins of columns."""
        if not bins:
            return self
        binned = {
            name: column.model_copy(update={"bins": bins[name]}) if name in bins else column
            for name, column in self.columns.items()
        }
        return self.model_copy(update={"columns": binned})

    @cached_property
    def target(self) -> Target:
        """What is predicted, as codes and answers."""
        label = self.label
        if label is None:
            return Target("none", ("",))
        question = label.question or f"What is the value of {asked_about(label.column)}?"
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
        renamed = f"{LABEL}_"
        while renamed in self.columns:
            renamed += "_"
        return self.local or tuple(
            self.columns[name].attribute(name, name if name != LABEL else renamed)
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
            count = self.target.count
            keys = ("label",)
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
        if self.is_benchmark or self.queries:
            return "public"
        return "charged" if self.split and self.split.evaluation_epsilon is not None else "none"

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Columns that a source must have: the declared ones, the id of the person, the day on
        which a row arrived, and its sign.
        """
        person = self.person
        more = (self.source.arrived, self.source.sign)
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
        return super().tells_row_count and (self.is_benchmark or not self.drops_marked_rows)

    @property
    def formula_warning(self) -> str:
        """What to know of its rows in CSV, where every value stands as it is; empty where there is
        nothing.
        """
        named = ", ".join(
            name
            for name, column in self.columns.items()
            if any(harmless(text) != text for text in (name, *getattr(column, "categories", ())))
        )
        if not named:
            return ""
        return f"; a spreadsheet would take texts of {named} for formulas: import them as text"

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


OF_ALL_ROWS = ("row_count", "both_labels", "unique")
"""Rules that no row by itself keeps or breaks."""


def _check_without_horizon(contract: Contract | TextContract) -> Problems:
    """What goes with a horizon alone."""
    for key in ("arrived", "sign", "deliveries"):
        if getattr(contract.source, key, None) is not None:
            yield (
                f"source.{key}",
                "has no meaning without a horizon",
                "no such key, or `releases.horizon`",
            )
    if contract.person and contract.person.max_rows_in_horizon is not None:
        yield (
            "privacy.person.max_rows_in_horizon",
            "has no meaning without a horizon",
            "no such key",
        )


def check_text_series(contract: TextContract) -> Problems:
    """Texts with a horizon come in deliveries, each of which is used in its period alone: so all
    periods cost what one does (`few_shot_plan`).
    """
    source = contract.source
    privacy = contract.privacy
    if source.deliveries is None and "undelivered" in source.model_fields_set:
        yield "source.undelivered", "has no meaning without `deliveries`", "no such key"
    if contract.releases.horizon is None:
        yield from _check_without_horizon(contract)
        return
    if source.deliveries is None:
        expected = "a folder with a file for each period: it says when a text arrived"
        yield "source.deliveries", "is missing", expected
    if contract.generation is None or contract.ensemble is not None:
        expected = "`generation` alone: ensembles answer queries, and have no periods"
        yield "releases.horizon", "is of demonstrations", expected
    if contract.is_benchmark:
        yield (
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its texts stay as they are",
        )
    # a text may go in one period, and another come in another one
    if privacy.neighbours != "add-or-remove-one":
        expected = "add-or-remove-one: a text that is replaced may come in another period"
        yield "privacy.neighbours", f"is {privacy.neighbours} of a horizon of texts", expected


def check_series(contract: Contract) -> Problems:
    """A horizon comes with all that its guarantee goes by, and none of it comes alone."""
    privacy = contract.privacy
    person = contract.person
    if contract.source.deliveries is None and "undelivered" in contract.source.model_fields_set:
        yield "source.undelivered", "has no meaning without `deliveries`", "no such key"
    if contract.releases.horizon is None:
        yield from _check_without_horizon(contract)
        return
    yield from _check_arrival(contract)
    yield from _check_columns(contract)
    if contract.is_benchmark:
        yield (
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its rows stay as they are",
        )
    if not privacy.budget.delta:
        yield (
            "privacy.budget.delta",
            "is missing",
            "a delta, which the Gaussian noise of a horizon needs",
        )
    if contract.split is not None:
        expected = (
            "no such key: a series holds no rows out; `queries` names public rows to measure on"
        )
        yield "split", "is given beside a horizon", expected
    if person is not None:
        yield from _check_person(person.max_rows, person.max_rows_in_horizon)


def _check_columns(contract: Contract) -> Problems:
    """What says when a row arrived, and whether it takes another one back, is used for nothing
    else.
    """
    person = contract.person
    used = (*contract.columns, *contract.source.ignore, *([person.id_column] if person else []))
    for key, column, others in (
        ("arrived", contract.source.arrived, used),
        ("sign", contract.source.sign, (*used, contract.source.arrived)),
    ):
        if column is not None and column in others:
            yield (
                f"source.{key}",
                "is also used otherwise",
                "a column of the source that is used nowhere else",
            )
    # a row and its correction would be two units, each protected by itself
    if contract.source.sign is not None and person is None:
        yield (
            "source.sign",
            "is given where rows are protected",
            "`unit: person`, whose rows and corrections count together",
        )
    # of both rows of a correction one would enter
    if contract.source.sign is not None and person is not None and person.max_rows < 2:
        yield (
            "privacy.person.max_rows",
            "is 1, and a correction is two rows of one period",
            "2 or more",
        )


def _check_arrival(contract: Contract) -> Problems:
    """A row's period is said, and once. No rule is about how many rows a delivery has: that it was
    refused would tell.
    """
    source = contract.source
    if source.deliveries is None:
        if source.arrived is None:
            expected = (
                "the column with the day on which a row arrived, or `source.deliveries`, a folder "
                "with a file for each period"
            )
            yield "source.arrived", "is missing", expected
        return
    if source.arrived is not None:
        yield (
            "source.arrived",
            "is given beside `deliveries`",
            "one of them: either says when a row arrived",
        )
    for number, check in enumerate(contract.checks):
        if check.rule in OF_ALL_ROWS:
            expected = (
                f"none of {', '.join(OF_ALL_ROWS)}: a delivery is read alone, and may have any "
                f"number of rows"
            )
            yield f"checks.{number}.rule", f"is {check.rule} of deliveries", expected


def _check_person(per_period: int, in_horizon: int | None) -> Problems:
    key = "privacy.person.max_rows_in_horizon"
    if in_horizon is None:
        yield key, "is missing", "how many rows of a person enter in all periods together"
    elif in_horizon < per_period:
        yield key, f"is {in_horizon}, fewer than max_rows", f"{per_period} or more"


def window_places(
    contract: Declared, *, until: str | None, window: int | None, now: datetime
) -> tuple[int, int]:
    """The first and last period that rows are made of, counted from 1: so many up to `until`, all
    and the last one that is over if left out. Raises ParameterError: that one is not over, or
    belongs to no period of the horizon; or a window of none.
    """
    calendar = contract.releases.calendar
    over = calendar.over_by(now, contract.releases.every)
    last = over if until is None else calendar.index(until)
    if not 1 <= last <= over:
        named = calendar.periods[0] if until is None else until
        raise ParameterError(
            "period",
            named,
            f"a period of {contract.name} that is over in UTC; its rows are counted then",
        )
    if window is not None and window < 1:
        raise ParameterError("window", window, "a number of periods, 1 or more")
    return max(1, last - (window or last) + 1), last
