"""What a contract predicts, and what it does not state, from its columns: bins, answers, local
attributes, templates and groups.

Guarantee   none spent: columns are public, and no row is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Literal

from dpicl.contract.columns import Column
from dpicl.contract.parts import Attribute, GroupKey, Label, Prompts, Template, Word
from dpicl.types import LABEL

VERSION = 1
"""Raised when other bins, answers, attributes or groups are derived from the same columns: in
version 2 of contracts they are part of what a release is, and of its name.
"""
YES_OR_NO = "Yes or No? Answer:"
"""Cue of a binary label."""
_MOST_SHOTS = 64


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
    return Target(column.target, column.answers, question, "Answer:")


def attributes_of(features: Mapping[str, Column]) -> tuple[Attribute, ...]:
    """One attribute of every column."""
    return tuple(
        column.attribute(name, name if name != LABEL else f"{name}_")
        for name, column in features.items()
    )


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
        key = column.halves(name)
        if key is not None and 2 * count <= _MOST_SHOTS:
            keys, count = (*keys, key), 2 * count
            groups[count] = keys
    return groups
