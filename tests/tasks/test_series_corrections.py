"""Rows that take others back: counted as their person's rows, priced as such, and refused where a
method would take them for rows that come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract
from dpicl.data.central.exact_counts import ExactCounts, row_encoding
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.split import Entered
from dpicl.ground.errors import DeclarationError, PrivacyError
from dpicl.ground.types import PrivateTable
from dpicl.home.settings import Settings
from dpicl.mechanisms.continual_counts import ContinualCounts
from dpicl.methods.mst_series import Series
from dpicl.release import Release
from dpicl.release.certificate_issue import unit_in_words
from dpicl.release.horizon import entering_counts, release_planned
from dpicl.release.request import ReleaseRequest
from dpicl.report.quality import series_facts, series_page
from tests.harness import Place
from tests.library.series_contracts import (
    NAME,
    of_rows,
    series_contract,
    series_tree,
    visit,
    visits,
)
from tests.tasks.test_series import counts, declare, night, planned, put

SIGNED = {"file": f"{NAME}.csv", "arrived": "day", "sign": "sign"}
KEY = bytes(range(32))


def signed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"sign": 1, **row} for row in rows]


def back(who: str, day: int, **how: Any) -> dict[str, Any]:
    """A row that takes one with these values back."""
    return {**visit(who, day, **how), "sign": -1}


def tree(
    neighbours: str = "add-or-remove-one", *, rows: int = 3, nightly: int = 2, epsilon: float = 3
) -> dict[str, Any]:
    content = series_tree(source=SIGNED)
    content["privacy"] |= {"neighbours": neighbours, "budget": {"epsilon": epsilon, "delta": 1e-6}}
    content["privacy"]["person"] |= {"max_rows": nightly, "max_rows_in_horizon": rows}
    return content


@pytest.fixture
def place(place: Place) -> Place:
    declare(place, tree())
    return place


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (
            of_rows(source={**SIGNED, "ignore": ["who"]}),
            "source.sign: is given where rows are protected",
        ),
        (series_tree(source=SIGNED), "max_rows: is 1, and a correction is two rows of one period"),
        (series_tree(source={**SIGNED, "sign": "who"}), "source.sign: is also used otherwise"),
        (series_tree(source={**SIGNED, "sign": "day"}), "source.sign: is also used otherwise"),
        (series_tree(source={**SIGNED, "sign": "age"}), "source.sign: is also used otherwise"),
        (
            of_rows(source={"file": "v.csv", "sign": "sign"}, releases={"every": "day"}),
            "source.sign: has no meaning without a horizon",
        ),
    ],
)
def test_a_sign_is_of_a_person_in_a_horizon_and_of_nothing_else(
    content: dict[str, Any], refused: str
) -> None:
    with pytest.raises(DeclarationError, match=refused.replace(".", r"\.")):
        series_contract(content)


def test_methods_that_count_no_horizon_refuse_rows_that_take_others_back(place: Place) -> None:
    """They would count them as rows that come."""
    put(place, signed(visits(3)))
    for method in ("ldp_tabicl", "aim_tabicl", "tab_pe"):
        with pytest.raises(
            PrivacyError, match=r"visits: some of its rows take others back \(`source.sign`\)"
        ):
            release_planned(planned(1, method=method), Settings.current())


def test_a_correction_takes_a_row_out_of_the_sums_and_out_of_windows_of_its_day_alone(
    place: Place,
) -> None:
    """Three hundred persons of eighty come on the first day; on the third day a hundred of them
    turn out to be forty. At little noise.
    """
    declare(place, tree(nightly=2, epsilon=500))
    wrong = signed([visit(f"p{who}", 1, age=80) for who in range(300)])
    right = [
        row
        for who in range(100)
        for row in (back(f"p{who}", 3, age=80), {**visit(f"p{who}", 3, age=40), "sign": 1})
    ]
    put(place, wrong + right)
    for window, expected in ((None, [0, 100, 200]), (2, [0, 100, -100])):
        released = night(4, plan=planned(400), window=window)
        (made,) = [one for one in released.drawn.marginals if one.columns == (0, 3)]
        # though some counts of the window are below zero
        assert Release(released).arrow(9).num_rows == 9
        assert np.abs(made.counts.sum(axis=1) - expected).max() < 10 * made.scale < 50


def test_a_correction_takes_a_place_of_its_person_and_what_is_beyond_enters_nowhere(
    place: Place,
) -> None:
    put(
        place,
        [
            *signed([visit("p1", 1), visit("p1", 2)]),
            back("p1", 3),
            back("p1", 4),
            *signed([visit("p2", 1), visit("p1", 5)]),
        ],
    )
    night(5)
    assert counts(5) == [2, 1, -1, 0, 0]


def test_certificate_statement_and_page_say_so(place: Place) -> None:
    put(place, signed(visits()))
    night(4)
    contract = series_contract(tree())
    assert "3 in all 12 periods, corrections included" in unit_in_words("person", contract)
    page = series_page(
        series_facts(ReleaseRequest(dataset=NAME, epsilon=2), Settings.current(), window=2)
    )
    assert "charged once, corrections included" in page
    assert "Rows that entered, less those that took others back" in page


def of(contract: Contract) -> Series:
    return Series.of(contract, row_encoding(contract).sizes, epsilon=2, delta=1e-6, structure=None)


def test_corrections_cost_what_rows_do_and_twice_that_where_persons_are_replaced() -> None:
    """In sigma^2: what comes by the one person may go by the other."""
    plain = series_tree()
    plain["privacy"]["person"] |= {"max_rows": 2}
    for neighbours, times in (("add-or-remove-one", 1), ("replace-one", 2)):
        plain["privacy"] |= {"neighbours": neighbours}
        kept, taken = of(series_contract(plain)), of(series_contract(tree(neighbours)))
        for one, other in ((kept.counters, taken.counters), (kept.pairs(2), taken.pairs(2))):
            assert other.squared_sensitivity == times * one.squared_sensitivity
            assert (other.variance or 0) > (one.variance or 0) * times * 0.99
        assert kept.guarantee.epsilon == taken.guarantee.epsilon


DAYS = st.integers(1, 12)
ROWS = st.lists(
    st.tuples(
        DAYS,
        st.integers(18, 90),
        st.sampled_from("ab"),
        st.sampled_from(["no", "yes"]),
        st.sampled_from([-1, 1]),
    ),
    max_size=9,
)


def counts_of(contract: Contract, rows: list[tuple[int, int, str, str, int]]) -> list[ExactCounts]:
    """By period: of this person's rows, and of four of others."""
    own = [
        {**visit("me", day, age=age, city=city, buys=buys), "sign": sign}
        for day, age, city, buys, sign in rows
    ]
    others = signed([visit(f"p{who}", 1 + who) for who in range(4)])
    counted, entered = [], Entered.nobody()
    for period in range(12):
        day = visit("", period + 1)["day"]
        here = [row for row in [*others, *own] if row["day"] == day]
        columns = {
            name: pa.array([str(row[name]) for row in here], pa.string())
            for name in (*visit("", 1), "sign")
        }
        table = PrivateTable(typed_table(pa.table(columns), contract, "rows"))
        counts, new = entering_counts(of(contract), table, contract, entered, key=KEY)
        entered = Entered.together([entered, new])
        counted.append(counts)
    return counted


def moved(
    counters: ContinualCounts,
    one: list[ExactCounts],
    other: list[ExactCounts],
    scopes: list[tuple[int, ...]],
) -> int:
    """Squared, exact: how far all sums of these scopes in all periods move."""
    deliveries = np.array(
        [
            np.concatenate([(mine - its).tables[scope].ravel() for scope in scopes])
            for mine, its in zip(one, other, strict=True)
        ]
    )
    exact = replace(counters, variance=None)
    return sum(
        int(cell) ** 2
        for period in range(1, counters.periods + 1)
        for cell in exact.release(deliveries[:period], period=period, stream=None)  # type: ignore[arg-type]
    )


def holds(one: Any, other: Any, most: int, nightly: int) -> None:
    """From rows with signs to sums of all nights: against nobody, and against another person's in
    their place.
    """
    rows, nightly = max(most, nightly), min(most, nightly)
    scopes: list[tuple[int, ...]] = [(0, 3), (1, 3), (2, 3)]
    added = series_contract(tree(rows=rows, nightly=nightly))
    mine, its, nobody = (counts_of(added, of_person) for of_person in (one, other, []))
    assert moved(of(added).counters, mine, nobody, scopes) <= of(added).counters.squared_sensitivity
    replaced = of(series_contract(tree("replace-one", rows=rows, nightly=nightly))).counters
    assert replaced.neighbours is Neighbours.REPLACE_ONE
    assert moved(replaced, mine, its, scopes) <= replaced.squared_sensitivity


@given(ROWS, ROWS, st.integers(2, 4), st.integers(2, 3))
@settings(max_examples=4, deadline=None)
def test_no_rows_and_corrections_of_a_person_move_all_sums_by_more_than_is_priced(
    one: Any, other: Any, most: int, nightly: int
) -> None:
    holds(one, other, most, nightly)


def test_what_comes_by_one_person_and_goes_by_another_moves_sums_by_all_that_is_priced_and_more_than_without_corrections() -> (  # noqa: E501
    None
):
    """Rows of the same values in the first nights, as many as may come: what a price without
    corrections would not cover.
    """
    contract = series_contract(tree("replace-one"))
    rows = [(day, 40, "a", "no", 1) for day in (1, 1, 2)]
    one, other = counts_of(contract, rows), counts_of(contract, [(*row[:4], -1) for row in rows])
    priced = of(contract).counters
    reached = moved(priced, one, other, [(0, 3), (1, 3), (2, 3)])
    unpriced = replace(
        priced, contribution=replace(priced.contribution, signed=0)
    ).squared_sensitivity
    assert unpriced * 1.9 < reached <= priced.squared_sensitivity
