"""A horizon in a contract: how it is written, what it needs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract.load import contract_digest, parse_contract
from dpicl.ground.errors import DeclarationError
from tests.library.examples import REMOVED, changed
from tests.library.series_contracts import after, of_rows, series_contract, series_tree
from tests.library.text_contracts import text_tree


@pytest.mark.parametrize(
    ("releases", "count", "last"),
    [
        ({"every": "day", "horizon": 12, "first": "2026-03-01"}, 12, "2026-03-12"),
        ({"every": "day", "horizon": "2 years", "first": "2027-01-01"}, 731, "2028-12-31"),
        ({"every": "week", "horizon": "2 years", "first": "2027-01-01"}, 105, "2028-W52"),
        ({"every": "month", "horizon": "8 quarters", "first": "2027-01-15"}, 25, "2029-01"),
        ({"every": "year", "horizon": "3", "first": "2027-05-01"}, 3, "2029"),
    ],
)
def test_a_horizon_is_a_number_of_periods_or_a_time(
    releases: dict[str, Any], count: int, last: str
) -> None:
    calendar = series_contract(series_tree(releases=releases)).releases.calendar
    assert (len(calendar.periods), calendar.periods[-1]) == (count, last)


def test_a_period_is_over_when_the_next_one_has_begun_in_utc() -> None:
    releases = series_contract().releases
    assert [releases.calendar.over_by(after(day), "day") for day in (-9, 0, 1, 5, 12, 900)] == [
        0,
        0,
        1,
        5,
        12,
        12,
    ]


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("source.arrived", REMOVED, "source.arrived: is missing"),
        ("source.arrived", "who", "source.arrived: is also used otherwise"),
        ("source.arrived", "age", "source.arrived: is also used otherwise"),
        ("privacy.budget.delta", REMOVED, "privacy.budget.delta: is missing"),
        ("privacy.person.max_rows_in_horizon", REMOVED, "max_rows_in_horizon: is missing"),
        ("privacy.person.max_rows", 4, "is 3, fewer than max_rows; expected 4 or more"),
        ("privacy.budget", {"benchmark": True}, "releases.horizon: has no meaning for a benchmark"),
        ("split", {"test_fraction": 0.2}, "split: is given beside a horizon"),
        ("releases.first", REMOVED, "horizon and first go together"),
        ("releases.horizon", REMOVED, "horizon and first go together"),
        ("releases.every", "once", "a horizon needs periods"),
        ("releases.horizon", "a while", "expected 1 to 2048 periods"),
        ("releases.horizon", 0, "expected 1 to 2048 periods"),
        ("releases.horizon", "9 years", "expected 1 to 2048 periods"),
        ("releases.first", "2026-02-31", "expected a day such as 2027-01-01"),
        ("releases", {"every": "day"}, "source.arrived: has no meaning without a horizon"),
    ],
)
def test_what_a_guarantee_would_hang_in_the_air_without_is_refused(
    key: str, value: Any, refused: str
) -> None:
    with pytest.raises(DeclarationError, match=refused.replace(".", r"\.")):
        series_contract(changed(series_tree(), {key: value}))


def test_how_many_rows_there_are_is_not_public_where_a_replaced_row_may_come_on_another_day() -> (
    None
):
    privacy = {"neighbours": "replace-one", "budget": {"epsilon": 3, "delta": 1e-6}}
    assert not series_contract(series_tree(privacy=privacy)).tells_row_count
    assert series_contract(
        series_tree(privacy=privacy, releases={"every": "day"}, source={"file": "visits.csv"})
    ).tells_row_count


def test_bounds_of_a_horizon_mean_nothing_without_one() -> None:
    tree = series_tree(releases={"every": "day"}, source={"file": "visits.csv"})
    with pytest.raises(
        DeclarationError, match="max_rows_in_horizon: has no meaning without a horizon"
    ):
        series_contract(tree)
    texts = {**text_tree(), "releases": {"every": "day", "horizon": 3, "first": "2026-03-01"}}
    with pytest.raises(DeclarationError, match="source.deliveries: is missing"):
        parse_contract(texts, "letters.yaml")


def test_what_rows_enter_names_a_release_and_when_they_are_released_is_in_the_horizons_name() -> (
    None
):
    """A contract's digest says what is counted; its calendar stands in the parameters of a
    horizon's release.
    """
    one = contract_digest(series_contract())
    assert one == contract_digest(
        series_contract(
            series_tree(releases={"every": "week", "horizon": 9, "first": "2026-03-01"})
        )
    )
    assert one != contract_digest(series_contract(of_rows()))
    assert one != contract_digest(
        series_contract(changed(series_tree(), {"source.arrived": "came"}))
    )


def test_a_horizon_beyond_the_end_of_the_calendar_is_refused_by_the_contract() -> None:
    with pytest.raises(
        DeclarationError, match="horizon has too many periods: periods=10: expected at most 4"
    ):
        series_contract(
            series_tree(releases={"every": "day", "horizon": 10, "first": "9999-12-28"})
        )
