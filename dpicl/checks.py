"""A rule that a data set must fulfil, and how often it is broken: what checks of tables and of
texts have in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_TableRule = Literal[
    "no_missing", "known_categories", "in_bounds", "row_count", "both_labels", "unique"
]
_TextRule = Literal["no_empty", "known_labels", "text_length"]
RuleName = _TableRule | _TextRule
Severity = Literal["warn", "fail"]


@dataclass(frozen=True)
class Rule:
    """One rule on a column, or on the whole table where `column` is empty."""

    rule: RuleName
    column: str | None
    severity: Severity
    at_least: int | None
    description: str


@dataclass(frozen=True)
class Violation:
    """A rule that is broken, and by how many values, rows or labels."""

    rule: Rule
    count: int
