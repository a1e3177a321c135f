"""Whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpicl.contract.columns.base import Refuse
from dpicl.contract.columns.number import NumberColumn
from dpicl.ground.types import NO_NUMBER

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = r"^-?\d+(\.0+)?$"
_MOST = 16
"""Values of a column that has a bin for each."""
NOT_WHOLE = "is not a whole number; expected one such as 12, or `type: real`"
BEYOND = "is beyond 64 bits; expected a smaller number, or `type: category`"


class IntegerColumn(NumberColumn):
    """Whole numbers with public bounds, both included."""

    grain = 1.0

    type: Literal["integer"]
    """Whole numbers."""
    bounds: tuple[int, int]
    """[lowest, highest] possible value, from public knowledge; values outside are clipped."""
    decimals: Literal[0] = 0
    """Whole numbers have none."""
    step: Literal[1] = 1
    """Whole numbers are summed exactly."""

    def quick(self, values: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray | None:
        """Values that come in a type of their own; None where only text can tell."""
        import pyarrow as pa

        if not pa.types.is_signed_integer(values.type):
            return None
        return self._whole(values.cast(pa.int64()), refuse)

    def _whole(self, numbers: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        """Without the word of a missing number where rows are told apart."""
        import pyarrow.compute as pc

        if self.nullable:
            refuse(pc.equal(numbers, NO_NUMBER), BEYOND)
        return numbers

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        refuse(pc.invert(pc.match_substring_regex(text, _WHOLE)), NOT_WHOLE)
        self._refuse_zeros(text, refuse)
        digits = pc.replace_substring_regex(text, r"\.0+$", "")
        long = pc.fill_null(pc.greater(pc.binary_length(digits), 18), False)
        if pc.any(long).as_py():
            beyond = {
                text: not -(2**63) <= Decimal(text) < 2**63
                for text in digits.filter(long).unique().to_pylist()
            }
            refuse(pa.array([beyond.get(text, False) for text in digits.to_pylist()]), BEYOND)
        return self._whole(digits.cast(pa.int64()), refuse)

    def compact(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """In as few bytes as the bounds need; as they are where one leaves the type of its
        bounds, since mechanisms clip it.
        """
        low, high = self.bounds
        sizes = (
            bits for bits in (8, 16, 32) if -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)
        )
        try:
            return values.cast(f"int{next(sizes, 64)}")
        except ValueError:
            return values

    def restored(self, numbers: np.ndarray) -> np.ndarray:
        """As int64."""
        return numbers.astype(np.int64)

    def at(self, cuts: Iterable[float]) -> list[float]:
        """Whole numbers."""
        return list(map(ceil, cuts))

    @property
    def _few(self) -> bool:
        return self.bounds[1] - self.bounds[0] < _MOST

    def edges(self, stated: Sequence[float] = ()) -> np.ndarray:
        """A bin for every whole number where these are few."""
        low, high = self.bounds
        if self.bins is None and self._few:
            return np.arange(low + 1, high + 1, dtype=float)
        return super().edges(stated)

    def is_open(self, stated: Sequence[float] = ()) -> bool:
        """Not where whole numbers are few."""
        return not self._few and super().is_open(stated)

    def _between(self, edges: np.ndarray) -> np.ndarray:
        # a bin of whole numbers ends before the next one's first
        last = np.append(edges[1:-1] - 1, edges[-1])
        return np.floor((edges[:-1] + last) / 2)
