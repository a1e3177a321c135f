"""Times of a day: whole minutes since midnight, written as 07:30."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from dpicl.contract.columns.base import Refuse
from dpicl.contract.columns.integer import IntegerColumn

if TYPE_CHECKING:
    import pyarrow as pa

_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def _minutes(text: str) -> int | None:
    time = _TIME.fullmatch(text)
    return 60 * int(time[1]) + int(time[2]) if time else None


def _counted(stated: Any) -> Any:
    if not isinstance(stated, list | tuple):
        return stated
    return [_minutes(one) if isinstance(one, str) else one for one in stated]


class ClockColumn(IntegerColumn):
    """Times of a day with public bounds, both included."""

    plain: ClassVar[bool] = False

    type: Literal["clock"]
    """Times of a day, as 07:30."""
    bounds: Annotated[tuple[int, int], BeforeValidator(_counted)]
    """[earliest, latest] possible time."""

    def text(self, value: float) -> str:
        """Minutes as people write them."""
        hours, minutes = divmod(round(value), 60)
        return f"{hours:02}:{minutes:02}"

    def number(self, text: str) -> float | None:
        """Minutes since midnight."""
        return _minutes(text)

    def quick(self, values: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray | None:
        """Only text is a time."""
        return None

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        import pyarrow as pa

        coded = text.combine_chunks().dictionary_encode()
        minutes = pa.array(map(self.number, coded.dictionary.to_pylist()), pa.int64())
        refuse(minutes.is_null().take(coded.indices), "is no time such as 07:30")
        return pa.chunked_array([minutes.take(coded.indices)])

    def restored(self, numbers: np.ndarray) -> np.ndarray:
        """As texts."""
        return np.array(list(map(self.text, numbers)), dtype=object)
