"""Periods: the public part of a release's name that says when it is made anew.

A period is a calendar time in UTC, taken from the public schedule or the clock when a run is
planned, and never from rows: whether rows came or went decides nothing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from dpicl.ground.errors import ParameterError

Every = Literal["once", "day", "week", "month", "quarter", "year"]
ONCE = "once"
MOST_PERIODS = 2048
"""Of a horizon: five years of days."""
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHAPES: dict[str, tuple[str, str]] = {
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}": ("%Y-%m-%d", ""),
    r"[0-9]{4}-W[0-9]{2}": ("%G-W%V-%u", "-1"),
    r"[0-9]{4}-[0-9]{2}": ("%Y-%m", ""),
    r"[0-9]{4}-Q[1-4]": ("%Y-Q%m", ""),
    r"[0-9]{4}": ("%Y", ""),
}
"""By kind, shortest last; digits of other scripts would be another name of the same time."""


def period_at(every: Every, when: datetime) -> str:
    """The period that a time falls into: `once`, `2026-12-31`, `2026-W53`, `2026-12`, `2026-Q4` or
    `2026`.

    Args:
        when: with a time zone; read in UTC.
    """
    utc = when.astimezone(UTC)
    year, week, _ = utc.isocalendar()
    return {
        "once": ONCE,
        "day": f"{utc:%Y-%m-%d}",
        "week": f"{year:04}-W{week:02}",
        "month": f"{utc:%Y-%m}",
        "quarter": f"{utc.year:04}-Q{(utc.month + 2) // 3}",
        "year": f"{utc.year:04}",
    }[every]


def period_before(every: Every, when: datetime) -> str:
    """The last period that is over at a time; `once` of what has none."""
    if every == ONCE:
        return ONCE
    now = period_at(every, when)
    earlier = (period_at(every, when - timedelta(days=days)) for days in range(1, 367))
    return next(name for name in earlier if name != now)


def was_over(period: str, when: datetime) -> bool:
    """Whether a period of a calendar was over at a time."""
    kinds: tuple[Every, ...] = ("day", "week", "month", "quarter", "year")
    every = next(
        kind for kind, shape in zip(kinds, _SHAPES, strict=True) if re.fullmatch(shape, period)
    )
    return period_at(every, when) > period  # names of one kind sort by time


def clock() -> datetime:
    """The time, which decides what period it is and which are over."""
    return datetime.now(UTC)


def read_period(text: str) -> str:
    """A period typed by a user.

    Raises:
        ParameterError: it is none; a typing error would be charged as another period.
    """
    if text == ONCE:
        return text
    for shape, (form, more) in _SHAPES.items():
        if re.fullmatch(shape, text):
            try:
                datetime.strptime(text + more, form).replace(tzinfo=UTC)
            except ValueError:
                break
            return text
    raise ParameterError(
        "period",
        repr(text[:40]),
        "once, or a time in UTC: 2026, 2026-Q4, 2026-12, 2026-W53 or 2026-12-31",
    )


def _later(first: datetime, count: int, unit: str) -> datetime | None:
    """So many days, weeks, months, quarters or years after a day; None beyond the calendar's
    end.
    """
    try:
        if unit in _DAYS:
            return first + timedelta(days=count * _DAYS[unit])
        years, month = divmod(first.month - 1 + count * _MONTHS[unit], 12)
        start = first.replace(year=first.year + years, month=month + 1, day=1)
        return start + timedelta(days=first.day - 1)
    except (OverflowError, ValueError):
        return None


@dataclass(frozen=True)
class Calendar:
    """The periods of one horizon by name, in order: those of a stretch of time (`of`).

    It is public and fixed before the first of them; one in which nothing comes counts as well.
    """

    periods: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.periods or len(set(self.periods)) < len(self.periods):
            raise ParameterError("periods", len(self.periods), "at least one, each of another name")

    @staticmethod
    def of(every: Every, *, first: datetime, count: int) -> Calendar:
        """So many days, weeks, months, quarters or years in a row, from the one on that a time
        falls into. Raises ParameterError: `every` is `once`, there is none, or the last is beyond
        the calendar's end.
        """
        if every == ONCE:
            raise ParameterError("every", every, "day, week, month, quarter or year")
        names = [period_at(every, first)]
        day = first.astimezone(UTC)
        try:
            while len(names) < count:
                day += timedelta(days=1)
                if (name := period_at(every, day)) != names[-1]:
                    names.append(name)
        except OverflowError:
            raise ParameterError(
                "periods", count, f"at most {len(names)}, until the end of the year 9999"
            ) from None
        return Calendar(tuple(names[:count]))

    @staticmethod
    def over(every: Every, *, first: datetime, length: int | str) -> Calendar | None:
        """So many periods in a row, or all that begin within a time such as `2 years`; None where
        these are none, or more than MOST_PERIODS. Raises ParameterError: as `of`.
        """
        if isinstance(length, int):
            if 1 <= length <= MOST_PERIODS:
                return Calendar.of(every, first=first, count=length)
            return None
        written = re.fullmatch(r"([1-9][0-9]{0,3}) (day|week|month|quarter|year)s?", length)
        end = written and _later(first, int(written[1]), written[2])
        if not end or every not in (*_DAYS, *_MONTHS):
            return None
        names, day = [period_at(every, first)], first
        while (day := day + timedelta(days=1)) < end and len(names) <= MOST_PERIODS:
            if (name := period_at(every, day)) != names[-1]:
                names.append(name)
        return Calendar(tuple(names)) if len(names) <= MOST_PERIODS else None

    def is_period(self, text: str) -> bool:
        """Whether this is a period as these are, of this horizon or of another time."""
        if not any(
            re.fullmatch(shape, text) and re.fullmatch(shape, self.periods[0]) for shape in _SHAPES
        ):
            return False
        with suppress(ParameterError):
            return read_period(text) == text
        return False

    def over_by(self, when: datetime, every: Every) -> int:
        """How many of the periods are over at a time: the first so many."""
        now = period_at(every, when)
        if now in self.periods:
            return self.periods.index(now)
        return 0 if now < self.periods[0] else len(self.periods)  # names of one kind sort by time

    def index(self, period: str) -> int:
        """Which period of the horizon this is, counted from 1.
        Raises ParameterError: none of them; a row, or a release, of another time belongs to another
        horizon.
        """
        if period not in self.periods:
            raise ParameterError(
                "period",
                repr(period[:40]),
                f"one of the horizon's {len(self.periods)}, {self.periods[0]} to "
                f"{self.periods[-1]}",
            )
        return self.periods.index(period) + 1
