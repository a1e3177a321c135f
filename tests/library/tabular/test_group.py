"""Public groups: the same for any rows, and every row is in the one group whose predicate it
meets.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn, IntegerColumn
from dpicl.data.central.aggregate import Group, assign, partition
from dpicl.data.reading.encode import label_codes
from dpicl.ground.errors import DeclarationError, ParameterError
from dpicl.ground.types import PrivateTable
from tests.library.examples import every_contract, random_table, small_contract

CONTRACT = small_contract()


def _holds(group: Group, row: dict[str, Any], label: int, contract: Contract) -> bool:
    """The predicate read aloud; a real part ends just below its cut, one step above its last grid
    point.
    """
    if group.label not in (None, label):
        return False
    for name, extent in group.open.items():
        column = contract.columns[name]
        if isinstance(column, CategoryColumn):
            holds = row[name] in extent
        else:
            slack = 0 if isinstance(column, IntegerColumn) else column.step
            holds = extent[0] <= row[name] <= extent[1] + slack
        if not holds:
            return False
    return True


def _check_agreement(contract: Contract, shots: int, seed: int) -> None:
    table = PrivateTable(random_table(contract, 120, seed))
    groups, numbers = partition(contract, shots), assign(table, contract, shots)
    labels = label_codes(table, contract)
    assert len(groups) == shots and numbers.min() >= 0
    for row, number, label in zip(table.data.to_pylist(), numbers, labels, strict=True):
        assert _holds(groups[number], row, label, contract)
        others = [
            other
            for position, other in enumerate(groups)
            if position != number and _holds(other, row, label, contract)
        ]
        # Two parts of a real column touch in one step, which holds next to nothing of a random
        # table.
        assert not others or all(other.open.keys() & contract.numbers.keys() for other in others)


@every_contract
@pytest.mark.parametrize("shots", [1, 2, 4, 8])
def test_rows_are_in_the_group_whose_predicate_they_meet(contract: Contract, shots: int) -> None:
    _check_agreement(contract, shots, seed=0)


@st.composite
def _keys(draw: st.DrawFn) -> list[Any]:
    """Some GROUP BY keys of the small contract, with any rules that a contract may state."""

    def cuts(one: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
        return st.lists(one, min_size=1, max_size=3, unique=True).map(sorted)

    ages = cuts(st.integers(1, 120) | st.floats(0.5, 119.5))
    amounts = cuts(st.integers(-49, 990).map(lambda tenths: tenths / 10))
    colours = st.sampled_from(
        [
            [["red"], "rest"],
            ["rest", ["blue"]],
            [["blue", "red"], ["green"]],
            [["green"], ["red"], ["blue"]],
        ]
    )
    possible = [
        st.just("label"),
        ages.map(lambda cuts: {"column": "age", "cuts": cuts}),
        amounts.map(lambda cuts: {"column": "spent", "cuts": cuts}),
        colours.map(lambda parts: {"column": "colour", "parts": parts}),
        st.just({"column": "member", "parts": [["yes"], ["no"]]}),
    ]
    return [
        draw(key)
        for key in draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4, unique_by=id))
    ]


def _part_count(key: Any) -> int:
    return 2 if key == "label" else len(key["cuts"]) + 1 if "cuts" in key else len(key["parts"])


@given(_keys(), st.integers(0, 99))
def test_any_groups_that_a_contract_may_state_agree_with_their_rows(
    keys: list[Any], seed: int
) -> None:
    shots = prod(map(_part_count, keys))
    try:
        contract = small_contract(lambda content: content["groups"].update({shots: keys}))
    except DeclarationError as error:
        assert "leaves a part empty" in str(error)  # two cuts between the same whole numbers
        return
    _check_agreement(contract, shots, seed)


def test_whole_numbers_below_a_cut_between_them_reach_up_to_the_last() -> None:
    contract = small_contract(
        lambda content: content["groups"].update({2: [{"column": "age", "cuts": [17.5]}]})
    )
    assert [group.open["age"] for group in partition(contract, 2)] == [(0, 17), (18, 120)]


def test_groups_stand_in_the_paper_s_order_positive_first() -> None:
    keys = [group.key for group in partition(CONTRACT, 4)]
    assert keys == [
        ("label=Yes", "colour in {red}"),
        ("label=Yes", "colour in {green, blue}"),
        ("label=No", "colour in {red}"),
        ("label=No", "colour in {green, blue}"),
    ]


def test_one_shot_is_one_open_group() -> None:
    (group,) = partition(CONTRACT, 1)
    assert (group.label, group.open) == (None, {})
    assert assign(PrivateTable(random_table(CONTRACT, 9, 0)), CONTRACT, 1).tolist() == [0] * 9


def test_rows_beyond_their_bounds_fall_into_the_outer_groups() -> None:
    table = PrivateTable(random_table(CONTRACT, 300, 0, beyond=2.0))
    lows = np.array([group.open["age"][0] for group in partition(CONTRACT, 8)])
    young = lows[assign(table, CONTRACT, 8)] == 0
    assert (young == (table.numbers("age") < 40)).all()


@pytest.mark.parametrize("shots", [0, 3, 16, -1])
def test_shots_without_groups_are_refused(shots: int) -> None:
    with pytest.raises(ParameterError, match="expected one of 1, 2, 4, 8 for shop"):
        partition(CONTRACT, shots)
