"""Aggregates: every public key is released in the same order, within bounds, for no more than
epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn
from dpicl.contract.pipeline import Unit
from dpicl.data.central.aggregate import AggregateOptions, assign, guarantee, partition
from dpicl.data.reading.encode import label_codes
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable, ReleasedGroups
from dpicl.methods import Options, grid, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from lab.in_memory import averages
from tests.library.examples import every_contract, random_table, small_contract

CONTRACT = small_contract()
PAPER, OURS, SHARED = (
    AggregateOptions("all-columns", "lower"),
    AggregateOptions(),
    AggregateOptions("shared-count"),
)
both = pytest.mark.parametrize(
    "options", [OURS, PAPER, SHARED], ids=["paid-columns", "all-columns", "shared-count"]
)


def _release(
    table: PrivateTable,
    shots: int,
    epsilon: float,
    options: AggregateOptions = OURS,
    contract: Contract = CONTRACT,
    seed: int = 0,
) -> ReleasedGroups:
    groups = partition(contract, shots)
    members = assign(table, contract, shots)
    return averages(
        table,
        members,
        groups,
        contract,
        epsilon=epsilon,
        options=options,
        stream=stream(seed, "test", "", ""),
    )


def _table(row_count: int, seed: int = 0, beyond: float = 0.0) -> PrivateTable:
    return PrivateTable(random_table(CONTRACT, row_count, seed, beyond=beyond))


def _spent(event: Mapping[str, Any]) -> float:
    """The sum of what the leaves of a group's event cost."""
    if event["kind"] == "repeated":
        return float(event["count"]) * _spent(event["parts"][0])
    return (
        math.fsum(map(_spent, event["parts"]))
        if "parts" in event
        else float(event.get("epsilon", 0))
    )


@given(
    st.integers(0, 30),
    st.integers(0, 99),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0.01, 1.0, math.inf]),
)
def test_every_public_key_is_released_in_the_same_order_whatever_the_rows(
    rows: int, seed: int, shots: int, epsilon: float
) -> None:
    released = _release(_table(rows, seed), shots, epsilon)
    assert [group.key for group in released.groups] == [
        group.key for group in partition(CONTRACT, shots)
    ]
    assert all(tuple(group.values) == CONTRACT.features for group in released.groups)


@given(
    st.integers(0, 30),
    st.integers(0, 99),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0.01, 5.0, math.inf]),
)
def test_released_values_stay_within_what_the_contract_and_the_key_say(
    rows: int, seed: int, shots: int, epsilon: float
) -> None:
    released = _release(_table(rows, seed, beyond=1.0), shots, epsilon)
    for group, public in zip(released.groups, partition(CONTRACT, shots), strict=True):
        assert group.label in (0, 1) and public.label in (None, group.label)
        for name, value in group.values.items():
            column = CONTRACT.columns[name]
            if isinstance(column, CategoryColumn):
                assert value in public.open.get(name, column.categories)
            else:
                low, high = public.open.get(name, column.bounds)
                assert low <= float(value) <= high


@both
@pytest.mark.parametrize("shots", [1, 2, 4, 8])
def test_without_noise_groups_are_the_exact_averages(options: AggregateOptions, shots: int) -> None:
    table = _table(400)
    numbers, labels = assign(table, CONTRACT, shots), label_codes(table, CONTRACT)
    for number, group in enumerate(_release(table, shots, math.inf, options).groups):
        rows = table.data.filter(numbers == number)
        assert group.values["age"] == pytest.approx(np.mean(rows.column("age").to_numpy()))
        assert group.values["spent"] == pytest.approx(
            np.mean(rows.column("spent").to_numpy()), abs=0.05
        )
        counts = Counter(rows.column("colour").to_pylist())
        assert counts[str(group.values["colour"])] == max(counts.values())
        assert group.label == round(labels[numbers == number].mean())


@both
@pytest.mark.parametrize("shots", [1, 2, 4, 8])
@pytest.mark.parametrize("epsilon", [1e-3, 1 / 3, 1.0, 50.0])
def test_columns_of_a_group_never_cost_more_than_epsilon_together(
    options: AggregateOptions, shots: int, epsilon: float
) -> None:
    whole = guarantee(partition(CONTRACT, shots), CONTRACT, epsilon=epsilon, options=options)
    assert whole.epsilon <= epsilon * (1 + 1e-12)
    for part in whole.event.as_json()["parts"]:
        group = part["parts"][0] if part["kind"] == "repeated" else part
        assert group["kind"] == "sequential" and 0 < _spent(group) <= epsilon * (1 + 1e-12)


@every_contract
@pytest.mark.parametrize("shots", [1, 2, 4, 8])
def test_paying_for_open_columns_alone_spends_epsilon_and_the_paper_s_split_wastes_some(
    contract: Contract, shots: int
) -> None:
    groups = partition(contract, shots)
    assert guarantee(groups, contract, epsilon=2.0, options=OURS).epsilon == pytest.approx(
        2.0, rel=1e-12
    )
    columns = len(contract.features) + 1
    closed = [
        sum(len(extent) == 1 for extent in group.open.values()) + (group.label is not None)
        for group in groups
    ]
    papers = guarantee(groups, contract, epsilon=2.0, options=PAPER).epsilon
    assert papers == pytest.approx(2.0 * max(columns - known for known in closed) / columns)


def test_what_the_key_says_is_never_noised() -> None:
    """Its noise would be paid for and could only make a public constant wrong."""
    for seed in range(30):
        for group, public in zip(
            _release(_table(5), 8, 0.01, seed=seed).groups, partition(CONTRACT, 8), strict=True
        ):
            assert group.label == public.label
            assert group.values["member"] == public.open["member"][0]


def test_what_the_key_leaves_open_is_always_noised() -> None:
    """One row only, the same in every release: whatever occurs in it must not be released as it
    is.
    """
    table = PrivateTable(_table(1).data)
    released = [_release(table, 1, 0.1, seed=seed).groups[0] for seed in range(60)]
    for name in CONTRACT.features:
        assert len({group.values[name] for group in released}) > 1, name
    assert {group.label for group in released} == {0, 1}


def test_empty_groups_are_noised_like_the_others() -> None:
    released = [_release(_table(0), 2, 1.0, seed=seed).groups for seed in range(40)]
    for number in range(2):
        assert len({groups[number].values["age"] for groups in released}) > 10
        assert {groups[number].values["colour"] for groups in released} == {"red", "green", "blue"}


def test_a_group_key_that_leaves_one_number_is_a_public_constant() -> None:
    """For example no earlier contact against some: cuts [1] on a count."""
    contract = small_contract(
        lambda content: content["groups"].update({2: [{"column": "age", "cuts": [1]}]})
    )
    released = _release(PrivateTable(random_table(contract, 50, 0)), 2, 1.0, contract=contract)
    assert released.groups[0].values["age"] == 0
    assert guarantee(
        partition(contract, 2), contract, epsilon=1.0, options=OURS
    ).epsilon == pytest.approx(1.0)


@both
def test_groups_that_leave_nothing_open_cost_nothing(options: AggregateOptions) -> None:
    def only_member(content: dict[str, Any]) -> None:
        content["columns"] = {name: content["columns"][name] for name in ("member", "bought")}
        content["groups"] = {4: ["label", {"column": "member", "parts": [["no"], ["yes"]]}]}
        content["local"] = [
            {
                "name": "card",
                "column": "member",
                "parts": [["no"], ["yes"]],
                "texts": ["none", "one"],
            }
        ]
        content["prompts"] = {"local": {"text": "{card}"}, "central": {"text": "{member}"}}
        content["checks"] = []

    contract = small_contract(only_member)
    assert guarantee(partition(contract, 4), contract, epsilon=1.0, options=options).epsilon == 0
    released = _release(PrivateTable(random_table(contract, 20, 0)), 4, 1.0, options, contract)
    assert [(group.label, group.values["member"]) for group in released.groups] == [
        (1, "no"),
        (1, "yes"),
        (0, "no"),
        (0, "yes"),
    ]


def test_rows_left_out_of_the_sample_are_in_no_group() -> None:
    table, members = _table(50), np.full(50, -1)
    members[7] = 0
    groups = partition(CONTRACT, 1)
    released = averages(
        table,
        members,
        groups,
        CONTRACT,
        epsilon=math.inf,
        options=OURS,
        stream=stream(0, "test", "", ""),
    )
    assert released.groups[0].values["age"] == table.numbers("age")[7]


def _unit(**changes: Any) -> Unit:
    known: dict[str, Any] = {
        "shots": (1, 4),
        "epsilons": (1.0, math.inf),
        "sampling_rates": (),
        **changes,
    }
    return unit_of("gdp_tabicl", "shop", 0, baselines=False, options=Options(), **known)


def test_a_cell_states_its_cost_before_and_after_amplification() -> None:
    for cell, cost in grid.costs(GdpTabicl(), CONTRACT, _unit()).items():
        assert cell.epsilon is not None and cost.amplified is not None
        assert cost.nominal.epsilon == pytest.approx(cell.epsilon)
        half = math.log1p(math.expm1(cell.epsilon) / 2) if cell.epsilon < math.inf else math.inf
        assert cost.amplified.epsilon == pytest.approx(half)
        assert {cost.nominal.neighbours, cost.amplified.neighbours} == {
            Neighbours.ADD_OR_REMOVE_ONE
        }


def test_a_cell_s_own_rate_replaces_the_contract_s() -> None:
    (cost,) = grid.costs(
        GdpTabicl(),
        CONTRACT,
        _unit(shots=(1,), epsilons=(1.0,), sampling_rates=(Fraction(1, 100),)),
    ).values()
    assert cost.amplified is not None and cost.amplified.epsilon == pytest.approx(
        math.log1p(math.expm1(1) / 100)
    )


def test_replace_one_is_charged_twice() -> None:
    replace = small_contract(lambda content: content["privacy"].update(neighbours="replace-one"))
    for cell, cost in grid.costs(GdpTabicl(), replace, _unit()).items():
        plain = grid.costs(GdpTabicl(), CONTRACT, _unit())[cell]
        assert (
            cost.nominal.neighbours is Neighbours.REPLACE_ONE
            and cost.amplified is not None
            and plain.amplified is not None
        )
        assert cost.nominal.epsilon == 2 * plain.nominal.epsilon
        assert cost.amplified.epsilon == 2 * plain.amplified.epsilon
