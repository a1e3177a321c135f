"""What columns of numbers and of categories have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpicl.contract.base import CategoryName, Frozen

Bins = Annotated[
    tuple[float, ...] | None,
    Field(min_length=1, max_length=255, serialization_alias="levels"),
]
"""Rising edges between the bins of a number, from public knowledge."""


class AnyColumn(Frozen):
    """A column of any type."""

    unsaid: ClassVar[tuple[str, ...]] = ("invalid", "missing")

    invalid: Literal["refuse", "leave-out", "missing"] | None = None
    """What becomes of a row whose value is none of this column's (no such number or category, or
    missing where none may be): `refuse` refuses all rows, which tells that there is one;
    `leave-out` leaves that row out; `missing` (of a nullable column) makes its value missing. If
    left out: as `source.invalid` says.
    """
    missing: Annotated[tuple[CategoryName, ...], Field(max_length=100)] | None = None
    """Words that stand for a missing value in this column, beside an empty cell, such as ["NA",
    -9], which -9.0 is too; if left out: `source.missing`.
    """
