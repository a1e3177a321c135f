"""What columns of all types have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpicl.contract.base import CategoryName, Frozen

if TYPE_CHECKING:  # a tenth of a second, which a command that reads no table need not wait
    import pyarrow as pa

MISSING = "(missing)"
"""A missing value of a released or public row; the last category of a nullable column of them."""
EMPTY = "is empty; expected a value in every row, or `nullable: true`"
"""What is wrong with a missing value where none may be."""
Extent = tuple[Any, ...]
"""The values that a predicate allows: a number's least and greatest, or categories."""
Refuse = Callable[[Any, str], None]
"""Takes which values break a rule, bool of shape (rows,), and what is wrong with them."""


def is_text(kind: pa.DataType) -> bool:
    """Text in any of Arrow's layouts: pandas, polars and Parquet prefer one each."""
    return str(kind) in ("string", "large_string", "string_view")


class AnyColumn(Frozen):
    """A column of any type."""

    unsaid: ClassVar[tuple[str, ...]] = ("invalid", "missing")
    gap: ClassVar[str | None] = None
    """What a missing value is read as."""
    plain: ClassVar[bool] = True
    """Whether a cell and a bound hold the value itself, so that 0 is none of it."""

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

    if TYPE_CHECKING:  # each type has them where digests of contracts have always had them
        nullable: bool

    def read(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        """Texts of cells, empty where there is no value, as values: int64, float64 or
        dictionary<int16, string>, of shape (rows,).
        """
        import pyarrow.compute as pc

        if self.nullable:
            text = pc.if_else(pc.equal(text, ""), self.gap, text)
        refuse(pc.equal(text, ""), EMPTY)
        return self._from_text(text, refuse)

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        raise NotImplementedError

    def compact(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Equal values in as few bytes as the contract allows."""
        return values
