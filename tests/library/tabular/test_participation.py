"""Which rows enter which period: a person's own rows decide, now and later, and nobody else's."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.source import arrival_periods
from dpicl.data.reading.split import Entered, entering_rows
from dpicl.ground.types import PrivateTable
from tests.library.series_contracts import of_rows, series_contract, series_tree, table, visit

KEY = bytes(32)
DAYS = 4
Row = dict[str, Any]
Histories = list[list[Row]]
"""What the table holds when each period is frozen: rows may come late, go, or change."""


def bounded(per_period: int, in_horizon: int) -> Contract:
    privacy = {
        "unit": "person",
        "person": {"id_column": "who", "max_rows": per_period, "max_rows_in_horizon": in_horizon},
        "budget": {"epsilon": 3, "delta": 1e-6},
    }
    return series_contract(series_tree(privacy=privacy))


def entries(history: Histories, contract: Contract) -> list[list[Row]]:
    """The rows that enter each period, as the nights of a horizon take them from the table of that
    night.
    """
    entered, taken = [Entered.nobody()], []
    for period, rows in enumerate(history, 1):
        if not rows:
            taken.append([])
            continue
        typed = PrivateTable(typed_table(table(rows), contract, "visits"))
        own = np.flatnonzero(arrival_periods(typed, contract) == period)
        places, new = entering_rows(
            PrivateTable(typed.data.take(own)), contract, Entered.together(entered), key=KEY
        )
        entered.append(new)
        taken.append([rows[place] for place in own[places]])
    return taken


def rows_of(who: str) -> st.SearchStrategy[list[Row]]:
    """Any rows of a person, some of them equal, of days before, in and after the horizon."""
    of_row = {"age": st.sampled_from([20, 40]), "city": st.sampled_from("ab")}
    row = st.builds(visit, st.just(who), st.integers(-1, DAYS + 12), buys=st.just("no"), **of_row)
    return st.lists(row, max_size=5)


def histories_of(who: str) -> st.SearchStrategy[Histories]:
    """What the table holds of a person each night."""
    return st.lists(rows_of(who), min_size=DAYS, max_size=DAYS)


BOUNDS = st.tuples(st.integers(1, 3), st.integers(1, 4)).map(lambda both: (min(both), max(both)))


@given(
    histories_of("others"),
    histories_of("more"),
    histories_of("one"),
    histories_of("one"),
    BOUNDS,
    st.randoms(use_true_random=False),
)
def test_one_persons_rows_change_nobody_elses_entry(
    others: Histories,
    more: Histories,
    before: Histories,
    after: Histories,
    bounds: tuple[int, int],
    order: Any,
) -> None:
    """In any of the nights, in any order of the table: rows that come, go, change, or come late."""
    contract = bounded(*bounds)

    def entered(changing: Histories) -> list[list[Row]]:
        nights = [
            [*some, *further, *own]
            for some, further, own in zip(others, more, changing, strict=True)
        ]
        for rows in nights:
            order.shuffle(rows)
        return [
            sorted((row for row in rows if row["who"] != "one"), key=str)
            for rows in entries(nights, contract)
        ]

    assert entered(before) == entered(after)


@given(histories_of("one"), histories_of("other"), BOUNDS)
def test_nobody_enters_with_more_rows_than_are_charged(
    one: Histories, other: Histories, bounds: tuple[int, int]
) -> None:
    taken = entries(
        [mine + theirs for mine, theirs in zip(one, other, strict=True)], bounded(*bounds)
    )
    for who in ("one", "other"):
        counts = [sum(row["who"] == who for row in rows) for rows in taken]
        assert max(counts) <= bounds[0] and sum(counts) <= bounds[1]


def test_as_many_enter_as_may() -> None:
    """Three rows a day of one person, two of which may enter, and five in all."""
    rows = [visit("one", day, age=20 + number) for day in (1, 2, 3, 4) for number in range(3)]
    assert [len(some) for some in entries([rows] * DAYS, bounded(2, 5))] == [2, 2, 1, 0]


def test_late_rows_enter_nowhere_and_rows_of_before_enter_the_first_period() -> None:
    early, late = visit("a", -30), visit("b", 1)
    taken = entries([[early], [early, late], [early, late]], bounded(1, 1))
    assert [[row["who"] for row in rows] for rows in taken] == [["a"], [], []]


def test_a_row_of_the_first_period_cannot_take_anothers_place_where_rows_are_protected() -> None:
    """All rows enter, each once."""
    source = {"file": "v.csv", "arrived": "day", "ignore": ["who"]}
    contract, rows = series_contract(of_rows(source=source)), [visit("x", 2)] * 3
    assert [len(some) for some in entries([rows, rows], contract)] == [0, 3]


def test_periods_follow_days_in_utc() -> None:
    releases = {"every": "month", "horizon": 3, "first": "2026-03-15"}
    contract = series_contract(series_tree(releases=releases))
    days = "2025-01-01", "2026-03-02", "2026-04-30", "2026-05-31", "2026-06-01"
    rows = [{**visit("a", 1), "day": day} for day in days]
    typed = PrivateTable(typed_table(table(rows), contract, "visits"))
    assert arrival_periods(typed, contract).tolist() == [1, 1, 2, 3, 0]
