"""What a contract predicts, and what it does not state, from its columns: bins, answers, local
attributes, templates and groups.

Guarantee   none spent: columns are public, and no row is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from string import Formatter
from typing import Literal

import numpy as np

from dpicl.contract.columns import (
    MISSING,
    Attribute,
    CategoryColumn,
    Column,
    DateColumn,
    GroupKey,
    IntegerColumn,
    Label,
    Prompts,
    RealColumn,
    Template,
    Word,
)
from dpicl.types import LABEL

Number = IntegerColumn | RealColumn
VERSION = 1
"""Raised when other bins, answers, attributes or groups are derived from the same columns: in
version 2 of contracts they are part of what a release is, and of its name.
"""
YES_OR_NO = "Yes or No? Answer:"
"""Cue of a binary label."""
_WHOLE, _EQUAL, _PARTS, _MOST_SHOTS = 16, 8, 4, 64


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


def inner_edges(column: Number, stated: Sequence[float] = ()) -> np.ndarray:
    """Rising edges between the bins of a number, without the bounds.

    Its `bins`; else every whole number where there are at most 16; else what is `stated` elsewhere;
    else eight equal bins.
    """
    low, high = column.bounds
    if column.bins is not None:
        return np.array(column.bins, dtype=float)
    if isinstance(column, IntegerColumn) and high - low < _WHOLE:
        return np.arange(low + 1, high + 1, dtype=float)
    if not stated:
        return np.linspace(low, high, _EQUAL + 1)[1:-1]
    return np.array(
        sorted(set(np.ceil(stated).tolist() if isinstance(column, IntegerColumn) else stated))
    )


def bin_middles(column: Number, inner: np.ndarray) -> list[float | str]:
    """What each bin reads as; one that ends at a bound may be very wide, and reads as if it were no
    wider than the one beside it.
    """
    whole = isinstance(column, IntegerColumn)
    inner = np.ceil(inner) if whole else inner
    edges = np.array([column.bounds[0], *inner, column.bounds[1]])
    edges[[0, -1]] = (
        max(edges[0], 2 * edges[1] - edges[2]),
        min(edges[-1], 2 * edges[-2] - edges[-3]),
    )
    # a bin of whole numbers ends before the next one's first
    ends = np.array([*(inner - 1), edges[-1]]) if whole else edges[1:]
    middles = (edges[:-1] + ends) / 2
    return [
        *(np.floor(middles) if whole else middles).tolist(),
        *([MISSING] if column.nullable else []),
    ]


def as_text(value: float | str, column: Column) -> str:
    """A value as a prompt puts it; a missing one as `unknown`."""
    if isinstance(column, CategoryColumn):
        return column.texts.get(str(value), str(value))
    if value == MISSING:
        return "unknown"
    return (
        column.text(float(value))
        if isinstance(column, DateColumn)
        else format_number(float(value), column.decimals)
    )


def format_number(value: float, decimals: int) -> str:
    """A number as a prompt prints it: rounded, without trailing zeros or a negative zero."""
    text = f"{value + 0.0:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if decimals else text
    return "0" if text in ("-0", "") else text


def target_of(columns: Mapping[str, Column], label: Label | None) -> Target:
    """What is predicted, as codes and answers; of a column that is not there, nothing yet."""
    if label is None:
        return Target("none", ("",))
    question = label.question or f"What is the {label.column.replace('_', ' ')}?"
    if label.has_rule and not label.answers:
        return Target("binary", ("No", "Yes"), question, YES_OR_NO)
    if label.column not in columns:
        return Target("none", ("",))
    column = columns[label.column]
    if label.answers:
        return Target("classes", label.answers, question, "Answer:")
    if isinstance(column, CategoryColumn):
        return Target(
            "classes", tuple(as_text(one, column) for one in column.categories), question, "Answer:"
        )
    answers = tuple(as_text(one, column) for one in bin_middles(column, inner_edges(column)))
    return Target("number", answers, question, "Answer:")


def attributes_of(features: Mapping[str, Column]) -> tuple[Attribute, ...]:
    """One attribute of every column: categories as they are, numbers in their `bins`, or four equal
    parts.
    """
    made = []
    for name, column in features.items():
        own = name if name != LABEL else f"{name}_"
        if isinstance(column, CategoryColumn):
            texts = tuple(as_text(one, column) for one in column.categories)
            made.append(
                Attribute(
                    name=own,
                    column=name,
                    parts=tuple((one,) for one in column.categories),
                    texts=texts,
                )
            )
            continue
        low, high = column.bounds
        inner = (
            np.array(column.bins, dtype=float)
            if column.bins is not None
            else np.linspace(low, high, _PARTS + 1)[1:-1]
        )
        inner = np.ceil(inner) if isinstance(column, IntegerColumn) else inner
        cuts = sorted({one for one in inner.tolist() if low < one <= high})
        edges = [as_text(one, column) for one in cuts]
        between = [f"{one} to less than {other}" for one, other in pairwise(edges)]
        worded = (
            f"less than {edges[0]}",
            *between,
            f"{edges[-1]} or more",
            *(("unknown",) if column.nullable else ()),
        )
        made.append(
            Attribute(
                name=own, column=name, cuts=tuple(cuts), missing=column.nullable, texts=worded
            )
        )
    return tuple(made)


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


def wording_of(
    features: Iterable[str], attributes: Sequence[Attribute], prompts: Prompts | None
) -> tuple[Wording, Wording]:
    """The local and the central template: as stated, else a sentence for each column."""
    if prompts is not None:
        return Wording.stated(prompts.local), Wording.stated(prompts.central)
    return Wording.derived({one.name: one.column for one in attributes}), Wording.derived(
        {name: name for name in features}
    )


def groups_of(
    features: Mapping[str, Column], target: Target
) -> dict[int, tuple[GroupKey | Literal["label"], ...]]:
    """Groups by the label, then by halves of one column after another, up to 64."""
    keys: tuple[GroupKey | Literal["label"], ...] = (
        ("label",) if 1 < target.count <= _MOST_SHOTS else ()
    )
    count = target.count if keys else 1
    groups = {count: keys} if keys else {}
    for name, column in features.items():
        # the lower and the upper half of its values; not of a single value, nor of numbers that may
        # be missing
        key = None
        if isinstance(column, CategoryColumn):
            half = len(column.categories) // 2
            key = GroupKey(column=name, parts=(column.categories[:half], "rest")) if half else None
        elif not column.nullable:
            low, high = column.bounds
            middle = (
                np.ceil((low + high) / 2) if isinstance(column, IntegerColumn) else (low + high) / 2
            )
            key = GroupKey(column=name, cuts=(float(middle),)) if low < middle <= high else None
        if key is not None and 2 * count <= _MOST_SHOTS:
            keys, count = (*keys, key), 2 * count
            groups[count] = keys
    return groups
