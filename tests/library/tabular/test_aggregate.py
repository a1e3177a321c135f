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

from dpicl.contract import Contract
from dpicl.contract.columns import CategoryColumn
from dpicl.data.central.aggregate import AggregateOptions, assign, guarantee, partition
from dpicl.data.reading.encode import label_codes
from dpicl.ground.types import PrivateTable, ReleasedGroups
from dpicl.methods import Options, grid, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from lab.in_memory import averages
from tests.library.examples import every_contract, random_table, seeded, small_contract

CONTRACT = small_contract()
PAPER, OURS, SHARED = (
    AggregateOptions("all-columns", "lower"),
    AggregateOptions(),
    AggregateOptions("shared-count"),
)
both = pytest.mark.parametrize(
    "options", [OURS, PAPER, SHARED], ids=["paid-columns", "all-columns", "shared-count"]
)


def release(
    table: PrivateTable,
    shots: int,
    epsilon: float,
    options: AggregateOptions = OURS,
    contract: Contract = CONTRACT,
    seed: int = 0,
    members: np.ndarray | None = None,
) -> ReleasedGroups:
    return averages(
        table,
        assign(table, contract, shots) if members is None else members,
        partition(contract, shots),
        contract,
        epsilon=epsilon,
        options=options,
        stream=seeded(seed),
    )


def _table(row_count: int, seed: int = 0, beyond: float = 0.0) -> PrivateTable:
    return PrivateTable(random_table(CONTRACT, row_count, seed, beyond=beyond))


def _spent(event: Mapping[str, Any]) -> float:
    """The sum of what the leaves of a group's event cost."""
    if event["kind"] == "repeated":
        return float(event["count"]) * _spent(event["parts"][0])
    return math.fsum(map(_spent, event["parts"])) if "parts" in event else event.get("epsilon", 0)


@given(
    st.integers(0, 30),
    st.integers(0, 99),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0.01, 1.0, math.inf]),
)
def test_every_public_key_is_released_in_order_with_values_that_it_and_the_contract_allow(
    rows: int, seed: int, shots: int, epsilon: float
) -> None:
    """What the key says is a public constant: its noise would be paid for."""
    released = release(_table(rows, seed, beyond=1.0), shots, epsilon)
    for group, public in zip(released.groups, partition(CONTRACT, shots), strict=True):
        assert group.key == public.key and tuple(group.values) == CONTRACT.features
        assert group.label in (0, 1) and public.label in (None, group.label)
        for name, value in group.values.items():
            column = CONTRACT.columns[name]
            if isinstance(column, CategoryColumn):
                assert value in public.open.get(name, column.categories)
            else:
                low, high = public.open.get(name, column.bounds)
                assert low <= float(value) <= high


@pytest.mark.parametrize("rows", [0, 1])
def test_what_the_key_leaves_open_is_always_noised(rows: int) -> None:
    """The same table in every release, one without a row too: whatever occurs in it must not be
    released as it is.
    """
    released = [release(_table(rows), 1, 0.1, seed=seed).groups[0] for seed in range(60)]
    for name in CONTRACT.features:
        assert len({group.values[name] for group in released}) > 1, name
    assert {group.label for group in released} == {0, 1}


@both
@pytest.mark.parametrize("shots", [1, 2, 4, 8])
def test_without_noise_groups_are_the_exact_averages(options: AggregateOptions, shots: int) -> None:
    table = _table(400)
    numbers, labels = assign(table, CONTRACT, shots), label_codes(table, CONTRACT)
    for number, group in enumerate(release(table, shots, math.inf, options).groups):
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


def test_a_group_key_that_leaves_one_number_is_a_public_constant() -> None:
    """For example no earlier contact against some: cuts [1] on a count."""
    contract = small_contract(
        lambda content: content["groups"].update({2: [{"column": "age", "cuts": [1]}]})
    )
    released = release(PrivateTable(random_table(contract, 50, 0)), 2, 1.0, contract=contract)
    assert released.groups[0].values["age"] == 0
    assert guarantee(
        partition(contract, 2), contract, epsilon=1.0, options=OURS
    ).epsilon == pytest.approx(1.0)


@both
def test_groups_that_leave_nothing_open_cost_nothing(options: AggregateOptions) -> None:
    parts = [["no"], ["yes"]]

    def only_member(content: dict[str, Any]) -> None:
        card = {"name": "card", "column": "member", "parts": parts, "texts": ["none", "one"]}
        content |= {
            "columns": {name: content["columns"][name] for name in ("member", "bought")},
            "groups": {4: ["label", {"column": "member", "parts": parts}]},
            "local": [card],
            "prompts": {"local": {"text": "{card}"}, "central": {"text": "{member}"}},
            "checks": [],
        }

    contract = small_contract(only_member)
    assert guarantee(partition(contract, 4), contract, epsilon=1.0, options=options).epsilon == 0
    released = release(PrivateTable(random_table(contract, 20, 0)), 4, 1.0, options, contract)
    found = [(group.label, group.values["member"]) for group in released.groups]
    assert found == [(1, "no"), (1, "yes"), (0, "no"), (0, "yes")]


def test_rows_left_out_of_the_sample_are_in_no_group() -> None:
    table, members = _table(50), np.full(50, -1)
    members[7] = 0
    (group,) = release(table, 1, math.inf, members=members).groups
    assert group.values["age"] == table.numbers("age")[7]


@pytest.mark.parametrize(("neighbours", "times"), [("add-or-remove-one", 1), ("replace-one", 2)])
@pytest.mark.parametrize(("rates", "rate"), [((), 1 / 2), ((Fraction(1, 100),), 1 / 100)])
def test_a_cell_states_its_cost_before_and_after_amplification_by_its_own_rate_or_the_contract_s(
    neighbours: str, times: int, rates: tuple[Fraction, ...], rate: float
) -> None:
    contract = small_contract(lambda content: content["privacy"].update(neighbours=neighbours))
    nominal = Options.model_validate({"gdp_tabicl": {"epsilon_is": "nominal"}})
    unit = unit_of(
        "gdp_tabicl", "shop", 0, (1.0, math.inf), (1, 4), rates, baselines=False, options=nominal
    )
    for cell, cost in grid.costs(GdpTabicl(), contract, unit).items():
        amplified = math.log1p(math.expm1(cell.epsilon / times) * rate)
        for stated, expected in ((cost.nominal, cell.epsilon), (cost.amplified, times * amplified)):
            assert stated.epsilon == pytest.approx(expected)
            assert stated.neighbours == neighbours
