"""What a contract predicts, and the templates of its rows, as they are stated or derived from its
columns.

Guarantee   none spent: columns are public, and no row is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Literal

from dpicl.contract.parts import Template, Word

VERSION = 1
"""Raised when other bins, answers, attributes or groups are derived from the same columns: in
version 2 of contracts they are part of what a release is, and of its name.
"""
YES_OR_NO = "Yes or No? Answer:"
"""Cue of a binary label."""


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
