"""Periods: the public part of a release's name that says when it is made anew.

A period is a calendar time in UTC, taken from the public schedule or the clock when a run is planned, and never
from rows: whether rows came or went decides nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from dpicl.errors import ParameterError

Every = Literal["once", "day", "week", "month", "quarter", "year"]
ONCE = "once"
_SHAPES: dict[str, tuple[str, str]] = {
    r"\d{4}-\d{2}-\d{2}": ("%Y-%m-%d", ""),
    r"\d{4}-W\d{2}": ("%G-W%V-%u", "-1"),
    r"\d{4}-\d{2}": ("%Y-%m", ""),
    r"\d{4}-Q[1-4]": ("%Y-Q%m", ""),
    r"\d{4}": ("%Y", ""),
}


def period_at(every: Every, when: datetime) -> str:
    """The period that a time falls into: `once`, `2026-12-31`, `2026-W53`, `2026-12`, `2026-Q4` or `2026`.

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
    raise ParameterError("period", repr(text[:40]), "once, or a time in UTC: 2026, 2026-Q4, 2026-12, 2026-W53 or 2026-12-31")


@dataclass(frozen=True)
class Calendar:
    """The periods of one horizon by name, in order: those of a stretch of time (`of`), or deliveries that were declared beforehand.

    It is public and fixed before the first of them; one in which nothing comes counts as well.
    """

    periods: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.periods or len(set(self.periods)) < len(self.periods):
            raise ParameterError("periods", len(self.periods), "at least one, each of another name")

    @staticmethod
    def of(every: Every, *, first: datetime, count: int) -> Calendar:
        """So many days, weeks, months, quarters or years in a row, from the one on that a time falls into.
        Raises ParameterError: `every` is `once`, or there is none.
        """
        if every == ONCE:
            raise ParameterError("every", every, "day, week, month, quarter or year")
        names, day = [period_at(every, first)], first.astimezone(UTC)
        while len(names) < count:
            day += timedelta(days=1)
            if (name := period_at(every, day)) != names[-1]:
                names.append(name)
        return Calendar(tuple(names[:count]))

    def index(self, period: str) -> int:
        """Which period of the horizon this is, counted from 1.
        Raises ParameterError: none of them; a row, or a release, of another time belongs to another horizon.
        """
        if period not in self.periods:
            raise ParameterError(
                "period", repr(period[:40]), f"one of the horizon's {len(self.periods)}, {self.periods[0]} to {self.periods[-1]}"
            )
        return self.periods.index(period) + 1
