"""Real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from dpicl.contract.columns.base import Refuse
from dpicl.contract.columns.number import NumberColumn, digits_for

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
NOT_FINITE = (
    "is not a finite number; expected one such as 1234.5, without marks between thousands (1234,5 "
    'by `source: {decimal: ","}`); or `invalid: missing`'
)
_NUMBERS_IN_A_BIN = 10


class RealColumn(NumberColumn):
    """Real numbers with public bounds; sums are taken exactly on a grid of `step`."""

    type: Literal["real"]
    """Real numbers."""
    bounds: tuple[float, float]
    """[lowest, highest] possible value, from public knowledge; values outside are clipped."""
    decimals: Annotated[int, Field(ge=0, le=6)] = 2
    """Maximum number of decimal places in prompts."""
    step: Annotated[float, Field(gt=0)] = 0.001
    """Grid on which values are rounded before they are summed, in the column's unit."""

    @model_validator(mode="after")
    def _step_fits(self) -> RealColumn:
        width = self.bounds[1] - self.bounds[0]
        if not self.step <= width <= self.step * 2**53:
            raise ValueError(
                f"a step of {self.step} does not fit the bounds; expected 1 to 2^53 steps between "
                f"them"
            )
        return self

    def quick(self, values: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray | None:
        """Values that come in a type of their own; None where only text can tell."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_signed_integer(values.type):
            return values.cast(pa.int64()).cast(pa.float64(), safe=False)
        if pa.types.is_float64(values.type) and pc.all(pc.is_finite(values)).as_py() is not False:
            return pc.add(values, 0.0)  # turns -0.0 into 0.0
        return None

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        refuse(pc.invert(pc.match_substring_regex(text, _NUMBER)), NOT_FINITE)
        self._refuse_zeros(text, refuse)
        numbers = text.cast(pa.float64())
        refuse(pc.invert(pc.is_finite(numbers)), NOT_FINITE)
        return pc.add(numbers, 0.0)

    def digits(self, edges: Sequence[float]) -> int:
        """As many as the contract states, by `decimals` or `step`; where it states none as many
        more as the narrowest bin needs to hold ten numbers.
        """
        stated = self.model_fields_set & {"decimals", "step"}
        digits = (
            self.decimals
            if "decimals" in stated or not stated
            else max(0, -int(Decimal(str(self.step)).as_tuple().exponent))
        )
        return digits_for(edges, digits, 1 if stated else _NUMBERS_IN_A_BIN)
