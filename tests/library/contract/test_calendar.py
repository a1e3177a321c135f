"""The periods of a horizon: named in order, each once, and no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dpicl.contract.periods import Calendar, period_at, read_period
from dpicl.ground.errors import ParameterError

WHEN = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "count", "last"),
    [
        ("day", 365, "2027-11-29"),
        ("week", 60, "2028-W03"),
        ("month", 4, "2027-02"),
        ("quarter", 6, "2028-Q1"),
        ("year", 3, "2028"),
    ],
)
def test_periods_follow_each_other_without_a_gap(every: str, count: int, last: str) -> None:
    calendar = Calendar.of(every, first=WHEN, count=count)  # type: ignore[arg-type]
    names = calendar.periods
    assert (names[0], names[-1]) == (period_at(every, WHEN), last)  # type: ignore[arg-type]
    assert [calendar.index(read_period(name)) for name in names] == [*range(1, count + 1)]


def test_a_time_belongs_to_its_period_in_utc() -> None:
    calendar = Calendar.of("day", first=WHEN, count=2)
    east = WHEN.astimezone(timezone(timedelta(hours=9)))
    assert calendar == Calendar.of("day", first=east, count=2)
    assert calendar.index(period_at("day", WHEN + timedelta(minutes=30))) == 2


def test_deliveries_that_were_declared_are_a_calendar() -> None:
    assert Calendar(("spring", "autumn", "recount")).index("recount") == 3


def test_what_is_no_calendar_and_what_is_outside_is_refused() -> None:
    for periods in ((), ("a", "b", "a")):
        with pytest.raises(ParameterError, match="periods="):
            Calendar(periods)
    with pytest.raises(ParameterError, match="every=once"):
        Calendar.of("once", first=WHEN, count=3)
    with pytest.raises(ParameterError, match="periods="):
        Calendar.of("day", first=WHEN, count=0)
    with pytest.raises(ParameterError, match="one of the horizon's 3, 2026-11-30 to 2026-12-02"):
        Calendar.of("day", first=WHEN, count=3).index("2026-12-03")


def test_a_horizon_beyond_the_end_of_the_calendar_is_refused_with_a_sentence() -> None:
    late = datetime(9999, 12, 28, tzinfo=UTC)
    assert Calendar.of("day", first=late, count=4).periods[-1] == "9999-12-31"
    with pytest.raises(
        ParameterError, match="periods=10: expected at most 4, until the end of the year 9999"
    ):
        Calendar.of("day", first=late, count=10)
