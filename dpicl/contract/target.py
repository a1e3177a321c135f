"""What a contract predicts: codes 0, 1, ... of every row, and how each reads as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

YES_OR_NO = "Yes or No? Answer:"
"""Cue of a binary label."""


@dataclass(frozen=True)
class Target:
    """The label of a table.

    Attributes:
        kind: `binary`, No or Yes; `classes`; `number`, whose codes are bins; `none`, where nothing is predicted.
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
