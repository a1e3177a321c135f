"""Central sums, averages and counts where values are missing, and labels are of many classes or
none: what a row moves, what it costs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.data.central.aggregate import (
    AggregateOptions,
    GroupSums,
    assign,
    exact_sums,
    guarantee,
    partition,
)
from dpicl.data.central.exact_counts import ExactCounts, check_counts, row_bins, row_encoding
from dpicl.data.central.graphical_model import NoisyMarginal, graphical_model
from dpicl.data.central.spanning_tree import measure, pair_scores
from dpicl.ground.errors import ParameterError
from dpicl.ground.types import PrivateCodes, PrivateTable
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.noisy_mean import Grid, noisy_means
from dpicl.mechanisms.noisy_steps import PureBudget
from tests.library.examples import random_table, seeded
from tests.library.kinds import LABELS, every_kind, kind_contract, kind_tree
from tests.library.tabular.test_aggregate import OURS, PAPER, SHARED, both, release

kinds = st.sampled_from(sorted(LABELS))


def sums_of(
    table: PrivateTable, contract: Contract, shots: int, options: AggregateOptions
) -> GroupSums:
    groups, members = partition(contract, shots), assign(table, contract, shots)
    rows = np.arange(table.row_count)
    return exact_sums(table, rows, members, groups, contract, options=options)


@given(kinds, st.integers(1, 40), st.integers(0, 99), st.sampled_from([OURS, PAPER, SHARED]))
def test_a_row_moves_sums_by_their_sensitivity_and_counts_by_one_whether_or_not_a_value_is_missing(
    kind: str, rows: int, seed: int, options: AggregateOptions
) -> None:
    contract = kind_contract(kind)
    whole = random_table(contract, rows, seed, beyond=2.0)
    shots = contract.shots[seed % len(contract.shots)]
    more, less = (
        sums_of(PrivateTable(part), contract, shots, options) for part in (whole, whole.slice(1))
    )
    for name, counts in more.arrays.items():
        assert (
            not name.startswith(("rows", "labels", "count "))
            or np.abs(counts - less.arrays[name]).sum() == 1
        )
    for name in (name.removeprefix("sum ") for name in more.arrays if name.startswith("sum ")):
        column = contract.columns[name]
        bounds = [group.open.get(name, column.bounds) for group in partition(contract, shots)]
        largest = max(
            Grid(low, high, step=column.step, origin=options.sum_origin).sensitivity
            for low, high in bounds
            if low < high
        )
        moved = [
            (
                abs(more.total(name, place) - less.total(name, place)),
                abs(more.valued(name, place) - less.valued(name, place)),
            )
            for place in range(shots)
        ]
        assert sum(of_sum for of_sum, _ in moved) <= largest
        assert sum(of_count for _, of_count in moved) <= 1
        is_missing = column.nullable and whole.column(name)[0].as_py() is None
        assert not is_missing or set(moved) == {(0, 0)}, "a row without a value is in neither"


@every_kind
@both
def test_gaps_change_no_price_and_a_label_that_is_none_is_not_paid_for(
    kind: str, options: AggregateOptions
) -> None:
    contract, tree = kind_contract(kind), kind_tree(kind)
    for column in tree["columns"].values():
        column.pop("nullable", None)
    full = parse_contract(tree, "customers.yaml")
    cost, other = (
        guarantee(partition(one, 1), one, epsilon=2.0, options=options) for one in (contract, full)
    )
    assert cost == other and cost.epsilon == pytest.approx(2.0, rel=1e-12)
    paid = len(contract.features) + (kind != "none") + (options is SHARED)
    assert f"'epsilon': {2.0 / paid}" in str(cost.event.as_json())


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_no_noise_is_drawn_for_a_label_that_is_none(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract, drawn = kind_contract("none"), list[int]()
    plain = noisy_count.noisy_modes

    def spying(histograms: Any, **options: Any) -> list[int]:
        drawn.extend(map(len, histograms))
        return plain(histograms, **options)

    monkeypatch.setattr(noisy_count, "noisy_modes", spying)
    (group,) = release(
        PrivateTable(random_table(contract, 50, 0)), 1, epsilon, contract=contract
    ).groups
    assert group.label == 0 and group.key == ("all",) and sorted(drawn) == [3, 3], (
        "two columns of categories"
    )


@every_kind
def test_without_noise_a_mean_is_over_the_rows_that_have_a_value(kind: str) -> None:
    contract = kind_contract(kind)
    table, shots = PrivateTable(random_table(contract, 400, 3)), contract.shots[1]
    members = assign(table, contract, shots)
    for place, group in enumerate(release(table, shots, math.inf, contract=contract).groups):
        for name in set(contract.features) & {"age", "height"}:
            expected = np.nanmean(table.numbers(name)[members == place])
            assert group.values[name] == pytest.approx(expected, abs=0.002)


def test_over_a_shared_count_missing_values_pull_a_mean_to_the_origin_by_their_share() -> None:
    contract = kind_contract("none")
    table = PrivateTable(random_table(contract, 400, 3))
    ages = table.numbers("age")
    (group,) = release(table, 1, math.inf, SHARED, contract).groups
    assert group.values["age"] == pytest.approx(np.where(np.isnan(ages), 59, ages).mean())
    assert abs(float(group.values["age"]) - 59) < abs(np.nanmean(ages) - 59)


def test_the_mechanism_itself_leaves_missing_values_out() -> None:
    columns = [np.array([1.0, np.nan, 5.0]), np.array([np.nan, np.nan]), np.array([])]
    means = noisy_means(columns, Grid(0, 10, 1, "centre"), epsilon=None, stream=seeded())
    assert means == [3.0, 5.0, 5.0]


@given(st.integers(0, 40), st.integers(0, 999), st.sampled_from([1, 3, 7]))
def test_whatever_the_label_one_row_moves_scores_by_one_and_counts_in_one_cell(
    count: int, seed: int, label: int
) -> None:
    rng, sizes = np.random.default_rng(seed), (2, 3, 4, label)
    rows = np.stack([rng.integers(size, size=count + 1) for size in sizes], axis=1).astype(np.uint8)
    star = [
        NoisyMarginal((column, 3), rng.integers(-9, 30, (sizes[column], label)), 1.0)
        for column in range(3)
    ]
    more, less = (ExactCounts.of(PrivateCodes(part), sizes) for part in (rows, rows[1:]))
    with_row, without = (pair_scores(one, star, PureBudget(Fraction(1))) for one in (more, less))
    assert all(abs(with_row[pair] - without[pair]) <= 1 for pair in with_row)
    assert all(
        np.abs(table - less.tables[columns]).sum() == 1 for columns, table in more.tables.items()
    )


def modelled_rows(
    rows: np.ndarray, sizes: tuple[int, ...], epsilon: float, count: int
) -> np.ndarray:
    """As many rows of a model of noisy counts of these."""
    exact = ExactCounts.of(PrivateCodes(rows), sizes)
    counted = measure(exact, budget=PureBudget.of(epsilon), stream=seeded())
    return graphical_model(sizes, counted).rows(count, np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["classes", "number", "none"])
def test_a_model_of_exact_counts_has_the_shares_of_every_column_with_the_label(kind: str) -> None:
    contract = kind_contract(kind)
    table = PrivateTable(random_table(contract, 3000, 0))
    sizes, rows = row_encoding(contract).sizes, row_bins(table, contract)
    drawn = modelled_rows(rows, sizes, math.inf, 30_000)
    for column in range(len(sizes) - 1):
        cells = [codes[:, column].astype(int) * sizes[-1] + codes[:, -1] for codes in (rows, drawn)]
        true, modelled = (
            np.bincount(some, minlength=sizes[column] * sizes[-1]) / len(some) for some in cells
        )
        assert np.abs(true - modelled).sum() / 2 < 0.03


def test_a_label_of_256_classes_is_counted_and_too_many_counts_are_refused() -> None:
    sizes = (4, 4, 256)
    label = np.random.default_rng(0).integers(256, size=4000)
    rows = np.stack([label % 4, label // 64, label], axis=1).astype(np.uint8)
    check_counts(sizes, "wide")
    drawn = modelled_rows(rows, sizes, 50.0, 4000)
    assert drawn[:, -1].max() == 255 and (drawn[:, 0] == drawn[:, -1] % 4).mean() > 0.95
    with pytest.raises(
        ParameterError, match="at most 16,777,216 counts of pairs of columns; wide has"
    ):
        check_counts((64,) * 10 + (256,), "wide")
