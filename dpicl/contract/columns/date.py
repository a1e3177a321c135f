"""Dates and times: whole numbers of days or seconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import WithJsonSchema, model_validator

from dpicl.contract.columns.base import Refuse
from dpicl.contract.columns.integer import IntegerColumn
from dpicl.contract.columns.number import Bins

if TYPE_CHECKING:
    import pyarrow as pa


IN_FILES = (
    "; of files `source: {dates: %d.%m.%Y}` states another form, of a data frame "
    "`pandas.to_datetime(frame[COLUMN], dayfirst=True)` makes dates of text"
)


def _dates(least: int, most: int) -> WithJsonSchema:
    """How a file has them: texts of ISO 8601."""
    return WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "minItems": least,
            "maxItems": most,
        }
    )


class DateColumn(IntegerColumn):
    """Days, or seconds, with public bounds, both included; counted from 1970-01-01 in UTC."""

    takes = "dates"
    plain = False

    type: Literal["date", "datetime"]  # type: ignore[assignment]  # so that dates are whole numbers to everything that counts them
    """`date`: days, as 2026-11-25. `datetime`: seconds in UTC, as 2026-11-25T12:30:00."""
    bounds: Annotated[tuple[int, int], _dates(2, 2)]
    """[earliest, latest] possible value, such as [2015-01-01, 2026-12-31], from public knowledge;
    values outside are clipped.
    """
    bins: Annotated[Bins, _dates(1, 255)] = None
    """Rising edges of the bins that rows are counted in, such as [2018-01-01, 2022-01-01]; eight
    equal bins if left out.
    """

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        kind = content.get("type")
        counted = {
            key: [
                moment(value, kind) if isinstance(value, str) else value for value in content[key]
            ]
            for key in ("bounds", "bins")
            if isinstance(content.get(key), list | tuple)
        }
        return {**content, **counted}

    @model_validator(mode="after")
    def _of_calendar(self) -> DateColumn:
        try:
            _ = [self.text(end) for end in self.bounds]
        except (OverflowError, ValueError):
            raise ValueError(
                f"got {list(self.bounds)}; expected bounds in the years 1 to 9999, such as "
                f"2015-01-01"
            ) from None
        return self

    def text(self, value: float) -> str:
        """A number of days or seconds as people write it."""
        if self.type == "date":
            return (date(1970, 1, 1) + timedelta(days=round(value))).isoformat()
        return (datetime(1970, 1, 1) + timedelta(seconds=round(value))).isoformat()

    def number(self, text: str) -> float | None:
        """Days or seconds."""
        try:
            return moment(text, self.type)
        except (ValueError, OverflowError):
            return None

    def quick(self, values: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray | None:
        """Days or seconds of dates and timestamps; what is finer is cut off."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = values.type
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return None
        if kind == pa.date64():  # of which not every one is a whole day
            kind = pa.timestamp("ms")
            values = values.cast(pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind):  # as UTC, and downwards also before 1970
            unit = "day" if self.type == "date" else "second"
            plain = pa.timestamp(kind.unit)
            # what is so early that it cannot be cut off is clipped in any case
            least = pa.scalar(_EARLIEST + _TICKS_A_DAY[kind.unit], pa.int64()).cast(plain)
            values = pc.max_element_wise(values.cast(plain), least, skip_nulls=False)
            values = pc.floor_temporal(values, unit=unit)
        if self.type == "date":
            values = values.cast(pa.date32()).cast(pa.int32())
        else:
            values = values.cast(pa.timestamp("s"))
        return self._whole(values.cast(pa.int64()), refuse)

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        """Every distinct text is read once."""
        import pyarrow as pa

        coded = text.combine_chunks().dictionary_encode()
        counted = pa.array(map(self.number, coded.dictionary.to_pylist()), pa.int64())
        expected = "2026-11-25" if self.type == "date" else "2026-11-25T12:30:00"
        refuse(
            counted.is_null().take(coded.indices),
            f"is no {self.type} such as {expected}{IN_FILES}",
        )
        return self._whole(pa.chunked_array([counted.take(coded.indices)]), refuse)

    def restored(self, numbers: np.ndarray) -> np.ndarray:
        """As numpy's days or seconds."""
        return numbers.astype(np.int64).astype(f"datetime64[{'D' if self.type == 'date' else 's'}]")


_EARLIEST = -(2**63)
_TICKS_A_DAY = {
    unit: 86_400 * each for unit, each in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
}


def moment(text: str, kind: object) -> int:
    """Days, or for `datetime` seconds, since 1970 in UTC; of a day the time does not matter, of a
    second its fraction.

    Raises:
        ValueError: it is no date or time in the notation of ISO 8601.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"got {text[:40]!r}; expected a date such as 2026-11-25") from None
    if at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    since = at - datetime(1970, 1, 1)
    return since.days * 86400 + since.seconds if kind == "datetime" else since.days
