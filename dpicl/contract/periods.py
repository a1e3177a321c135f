"""Periods: the public part of a release's name that says when it is made anew.

A period is a calendar time in UTC, taken from the public schedule or the clock when a run is planned, and never
from rows: whether rows came or went decides nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
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
