"""AIM-TabICL: what one row moves, what every path costs, and structure that trees cannot have."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.data.central import adaptive
from dpicl.data.central.adaptive import (
    column_score,
    column_spread,
    few_columns,
    measure,
    scope_score,
)
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import (
    ModelMarginals,
    NoisyMarginal,
    added,
    graphical_model,
    graphical_models,
)
from dpicl.data.central.junction_tree import JunctionTree, fits, largest_clique, together
from dpicl.data.central.spanning_tree import Caution, cautious_rows, says_little
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import GaussianBudget, PureBudget, StepBudget
from tests.library.examples import seeded
from tests.library.methods.spending import spending

SIZES = (2, 3, 2, 4, 2)


def counts(rows: np.ndarray, sizes: tuple[int, ...] = SIZES) -> ExactCounts:
    return ExactCounts.of(PrivateCodes(rows.astype(np.uint8)), sizes, triples=True)


def measured(
    rows: np.ndarray, budget: StepBudget, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> list[NoisyMarginal]:
    return measure(counts(rows, sizes), budget=budget, stream=seeded(seed, "measure"))


@pytest.mark.parametrize(("rows", "are_counted"), [(400, False), (5000, True), (40_000, True)])
def test_what_numbers_have_in_common_is_counted_where_it_is_not_mostly_noise(
    rows: int, are_counted: bool
) -> None:
    """Of six numbers three are nearly the same. A pair for each column was counted, or none."""
    rng = np.random.default_rng(0)
    alike = rng.integers(0, 8, (rows, 1))
    noise = rng.integers(0, 8, (rows, 3))
    table = np.column_stack([alike, alike, alike, noise, rng.integers(0, 2, rows)])
    for seed in range(5):
        found = measured(table, PureBudget.of(0.86), (8,) * 6 + (2,), seed)
        pairs = {count.columns[:-1] for count in found if len(count.columns) == 3}
        assert len(pairs & {(0, 1), (0, 2), (1, 2)}) >= 2 if are_counted else not pairs
        assert {column for count in found for column in count.columns} == {*range(7)}


def moved(more: ExactCounts, less: ExactCounts, of_label: list[int]) -> int:
    """How far apart one row moves the scores of two columns."""
    scores = [
        column_score(more.over((column,)), of_label) - column_score(less.over((column,)), of_label)
        for column in range(len(more.sizes) - 1)
    ]
    return max(scores) - min(scores)


def drawn(count: int, seed: int, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=count) for size in sizes], axis=1)


@given(
    st.integers(0, 40), st.integers(0, 999), st.lists(st.integers(1, 60), min_size=2, max_size=2)
)
def test_one_row_moves_no_difference_of_sums_further_than_the_spread_and_no_other_score_by_more_than_one(  # noqa: E501
    count: int, seed: int, of_label: list[int]
) -> None:
    rows = drawn(count + 1, seed)
    more, less = counts(rows), counts(rows[1:])
    assert moved(more, less, of_label) <= column_spread(of_label)
    modelled = np.random.default_rng(seed)
    for scope in more.scopes:
        model = modelled.random(more.over(scope).shape) * 9
        assert abs(scope_score(more.over(scope), model) - scope_score(less.over(scope), model)) <= 1


def test_the_spread_is_reached() -> None:
    """By two columns, of which a row makes one more like the label's shares and the other less."""
    less, of_label = np.array([[0, 1, 0]] * 5), [5, 1]
    more, before = (counts(rows, (2, 2, 2)) for rows in (np.vstack([less, [[1, 1, 1]]]), less))
    assert moved(more, before, of_label) == column_spread(of_label) == 20


@given(st.integers(0, 300), st.integers(0, 999), st.sampled_from([0.05, 1.0, 7.5, 300.0]))
@settings(max_examples=12)
def test_whatever_is_chosen_the_steps_spend_exactly_epsilon_and_choose_by_a_spread_that_holds(
    count: int, seed: int, epsilon: float
) -> None:
    sizes = (*SIZES[:-1], *SIZES[:-1], 2)
    with spending() as (spent, spreads):
        measured(drawn(count, seed, sizes), PureBudget.of(epsilon), sizes, seed)
    assert all(spread == 2 or spread % 4 == 0 for spread in spreads)
    assert sum(spent) == Fraction(epsilon)


def test_three_columns_of_which_no_two_say_anything_of_the_label_are_found() -> None:
    sizes = (2,) * 11
    rows = drawn(20_000, 0, sizes)
    rows[:, -1] = rows[:, 1] ^ rows[:, 4] ^ rows[:, 7]
    found = measured(rows, PureBudget.of(1.0), sizes)
    assert (1, 4, 7, 10) in [one.columns for one in found]
    shares = graphical_model(sizes, found).counted[1, 4, 7, 10]
    said = shares[..., 1] / shares.sum(axis=-1)
    odd = np.indices((2, 2, 2)).sum(axis=0) % 2
    assert np.abs(said - odd).max() < 0.02


@pytest.mark.parametrize("epsilon", [1, 2])
def test_of_many_columns_those_are_counted_that_say_something_of_the_label(epsilon: int) -> None:
    sizes = (8,) * 20 + (2,)
    rows = drawn(800, 1, sizes)
    for column in (3, 11):
        rows[:, column] = np.where(
            np.random.default_rng(column).random(800) < 0.6, rows[:, -1] * 7, rows[:, column]
        )
    found = measured(rows, PureBudget.of(epsilon), sizes)
    counted = {one.columns[0] for one in found if len(one.columns) == 2 and one.columns[1] == 20}
    few = few_columns(sizes, 800, PureBudget(Fraction(19 * epsilon, 20)))
    assert few is not None and {3, 11} <= counted and len(counted) == few <= 8
    alone = {one.columns[0] for one in found if len(one.columns) == 1} - {20}
    assert alone == {*range(20)} - counted, "the others on their own"


def test_a_table_of_next_to_no_rows_is_counted_at_the_smallest_budgets() -> None:
    for amount in (Fraction(1, 10**9), Fraction(1, 1000)):
        for seed in range(8):
            for budget in (PureBudget(amount), GaussianBudget(amount)):
                assert measured(drawn(3, seed), budget, seed=seed)


def test_two_counts_of_the_same_columns_are_one_of_less_noise() -> None:
    first, second = (
        NoisyMarginal((0, 1), np.array([[ten, 0.0]]), noise) for ten, noise in ((10.0, 1), (20, 3))
    )
    (both,) = added([first, second])
    assert both.counts.tolist() == [[pytest.approx(0.9 * 10 + 0.1 * 20), 0]]
    assert both.scale == pytest.approx(0.9**0.5)


def test_marginals_that_no_clique_has_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    sizes = (3, 4, 2, 5, 3, 2, 2)
    joint = rng.dirichlet(np.full(math.prod(sizes), 0.05)).reshape(sizes) * 5000
    scopes = [(0, 1, 6), (1, 2, 6), (1, 2, 3, 6), (3, 4), (0, 6)]
    counted = [
        NoisyMarginal(
            scope, joint.sum(axis=tuple(axis for axis in range(7) if axis not in scope)), 1.0
        )
        for scope in scopes
    ]
    model = graphical_model(sizes, counted)
    rows, marginals = model.rows(200_000, rng), ModelMarginals(model)
    for scope in [(), (5,), *combinations(range(6), 2), (2, 4, 0), (4, 3, 1)]:
        shape = [sizes[column] for column in (*scope, 6)]
        cells = np.ravel_multi_index(tuple(rows[:, column] for column in (*scope, 6)), shape)
        found = np.bincount(cells, minlength=math.prod(shape)).reshape(shape) / len(rows)
        assert np.abs(found - marginals.over(scope)).sum() < 0.03


def test_marginals_of_a_model_whose_cliques_meet_in_a_bin_without_rows() -> None:
    joint = np.random.default_rng(0).random((2, 2, 2, 2))
    left_out = {(0, 1, 3): 2, (1, 2, 3): 0}
    counted = [NoisyMarginal(scope, joint.sum(axis=axis), 1.0) for scope, axis in left_out.items()]
    model = graphical_model((2, 2, 2, 2), counted)
    joint[:, 1] = 0
    joint /= joint.sum()
    for scope, share in model.tree.views(model.shares).items():
        share[...] = np.moveaxis(joint.sum(axis=left_out[scope]), -1, 0)
    expected = np.einsum(
        "aby,bcy->acy",
        joint.sum(axis=2),
        joint.sum(axis=0) / np.maximum(joint.sum(axis=(0, 2)), 1e-9)[:, np.newaxis],
    )
    np.testing.assert_allclose(ModelMarginals(model).over((0, 2)), expected, atol=1e-9)


def test_a_pair_is_counted_only_if_its_clique_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn(5000, 0)
    rows[:, 1] = rows[:, 0]
    for widest in (1 << 15, 8):
        monkeypatch.setattr(adaptive, "_WIDEST", widest)
        found = measured(rows, PureBudget.of(20.0))
        assert any({0, 1} <= {*one.columns} for one in found) == (widest > 8)


def noisy_columns(rows: int, scale: float, seed: int) -> list[NoisyMarginal]:
    """Counts of six columns that say nothing of a label that is 1 in 3 of 10 rows."""
    rng = np.random.default_rng(seed)
    cells = np.full((4, 2), rows / 4) * [0.7, 0.3]
    return [
        NoisyMarginal((column, 6), np.rint(cells + rng.laplace(0, scale, (4, 2))), scale)
        for column in range(6)
    ]


@pytest.mark.parametrize("at_once", [1 << 15, 1])
def test_fits_side_by_side_are_those_of_each_alone_to_the_last_bit(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some end before others, and some double their curvature where others do not."""
    monkeypatch.setattr("dpicl.data.central.graphical_model._AT_ONCE", at_once)
    rng, sizes = np.random.default_rng(0), (3, 4, 2, 5, 2)
    scopes = [(0, 4), (1, 4), (0, 1, 4), (1, 2, 4), (2, 3)]
    tables = [tuple(sizes[column] for column in scope) for scope in scopes]
    again = [
        [
            NoisyMarginal(scope, rng.gamma(0.3, 2.0**place, shape), scale)
            for scope, shape in zip(scopes, tables, strict=True)
        ]
        for place, scale in enumerate((0.0, 0.1, 1.0, 1.0, 3.0, 9.0))
    ]
    for steps in (30, 400):
        alone = [graphical_model(sizes, counts, steps=steps) for counts in again]
        for one, other in zip(alone, graphical_models(sizes, again, steps=steps), strict=True):
            assert one.tree == other.tree
            assert (one.shares == other.shares).all()
            assert (one.theta == other.theta).all()


@pytest.mark.quick("0.0")
@pytest.mark.parametrize("scale", [0.0, 60.0])
def test_rows_of_noise_are_no_worse_than_the_most_frequent_label_and_keep_its_share(
    scale: float,
) -> None:
    counts, sizes = noisy_columns(800, scale, 0), (4,) * 6 + (2,)
    model = graphical_model(sizes, counts)
    assert says_little(model, counts, np.random.default_rng(0)) == (scale > 0)
    rows = cautious_rows(model, counts, 20_000, np.random.default_rng(0))
    cells = rows[:, 0] * 4 + rows[:, 1]
    likeliest = [np.bincount(rows[cells == cell, -1], minlength=2).argmax() for cell in range(16)]
    assert not any(likeliest) and rows[:, -1].mean() == pytest.approx(
        model.rows(20_000, np.random.default_rng(1))[:, -1].mean(), abs=0.05
    )


def test_all_rows_of_a_release_lean_alike_where_that_hangs_by_a_hair() -> None:
    """Few rows or many, with a condition or none: one model draws them."""
    sizes, leaning = (4,) * 6 + (2,), np.array([[90, 10], [80, 20], [70, 30], [60, 40]])
    rng = np.random.default_rng(1)
    counts = [
        NoisyMarginal((column, 6), leaning + rng.laplace(0, 10, (4, 2)), 10.0)
        for column in range(6)
    ]
    model = graphical_model(sizes, counts)
    by_chance = {says_little(model, counts, np.random.default_rng(seed)) for seed in range(20)}
    assert by_chance == {True, False}
    shares = [
        cautious_rows(model, counts, 40_000, np.random.default_rng(seed))[:, [0, -1]]
        for seed in range(8)
    ]
    alike = [rows[rows[:, 0] == 3, -1].mean() for rows in shares]
    assert max(alike) - min(alike) < 0.03


@pytest.mark.parametrize("gaussian, scale", [(False, 25.0), (True, 30.0)])
def test_counts_that_say_something_of_the_label_are_believed_and_noise_is_not(
    gaussian: bool, scale: float
) -> None:
    sizes = (4, 4, 4, 2)
    leaning, flat = [[90, 10], [70, 30], [40, 60], [10, 90]], [[70, 30]] * 4
    for cells, is_believed in ((leaning, True), (flat, False)):
        rng = np.random.default_rng(1)
        noise = rng.normal if gaussian else rng.laplace
        counts = [
            NoisyMarginal(
                (column, 3), np.array(cells) * 2 + noise(0, scale, (4, 2)), scale, gaussian=gaussian
            )
            for column in range(3)
        ]
        assert says_little(graphical_model(sizes, counts), counts, rng) != is_believed


def cautious(cells: list[list[int]], count: int) -> np.ndarray:
    """Rows of one column that was counted with much noise."""
    model = graphical_model(np.shape(cells), [NoisyMarginal((0, 1), np.array(cells), 40.0)])
    chance = np.random.default_rng(1)
    careful, rows = Caution.of(model, np.random.default_rng(0)), model.rows(count, chance)
    if careful is not None:
        careful.relabel(rows, chance)
    return rows


@pytest.mark.exhaustive
def test_bins_that_noise_emptied_do_not_say_another_label_of_rows_that_are_in_them() -> None:
    rows = cautious([[700, 300], [0, 1]], 400_000)
    rare = rows[rows[:, 0] == 1, -1]
    assert len(rare) > 100 and 0.3 < rare.mean() < 0.6  # of P all of these are 1


@pytest.mark.exhaustive
def test_where_no_label_is_much_oftener_than_another_rows_say_what_the_counts_say() -> None:
    """Three labels of the same share, told apart by one column: leaning so little that one of them
    is always the likeliest says nothing.
    """
    rows = cautious([[40, 5, 5], [5, 40, 5], [5, 5, 40]], 20_000)
    assert [np.bincount(rows[rows[:, 0] == code, -1]).argmax() for code in range(3)] == [0, 1, 2]
    assert (rows[:, 0] == rows[:, -1]).mean() == pytest.approx(0.8, abs=0.02)


def test_a_model_says_of_its_rows_what_their_labels_are() -> None:
    rng = np.random.default_rng(0)
    sizes = (3, 4, 2, 2)
    joint = rng.dirichlet(np.full(48, 0.3)).reshape(sizes) * 9000
    counted = [
        NoisyMarginal((0, 1, 3), joint.sum(axis=2), 1.0),
        NoisyMarginal((0, 2, 3), joint.sum(axis=1), 1.0),
    ]
    model = graphical_model(sizes, counted)
    rows = model.rows(300_000, rng)
    chances = model.label_chances(rows)[:, 1]
    for low in (0.0, 0.25, 0.5, 0.75):
        some = (chances >= low) & (chances < low + 0.25)
        assert rows[some, -1].mean() == pytest.approx(chances[some].mean(), abs=0.01)
    first, second = (model.counted[one.columns] for one in counted)
    between, one, other = rows.T[:-1]
    of_both = first[between, one] * second[between, other] / second.sum(axis=1)[between]
    np.testing.assert_allclose(chances, of_both[:, 1] / of_both.sum(axis=1), rtol=1e-6, atol=1e-9)


@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=12), st.integers(0, 999), st.integers(0, 14)
)
def test_the_largest_table_is_known_before_the_model_is_made(
    sizes: list[int], seed: int, count: int
) -> None:
    rng, label = np.random.default_rng(seed), len(sizes) - 1
    scopes = [
        (
            *sorted(rng.choice(label, size=min(label, rng.integers(1, 4)), replace=False).tolist()),
            label,
        )
        for _ in range(count)
    ]
    made = max(
        math.prod(sizes[column] for column in (*clique.columns, label))
        for clique in JunctionTree.of(sizes, scopes).cliques
    )
    for cut in range(count + 1):
        joined = together(label, scopes[cut:], together(label, scopes[:cut]))
        assert largest_clique(sizes, joined) == made
    if count:
        before = together(label, scopes[1:])
        others = largest_clique(sizes, dict(before))
        for most in (made - 1, made, made + 1):
            if others <= most:
                assert fits(sizes, scopes[0], before, most) == (made <= most)


@given(st.integers(0, 999))
def test_a_models_marginals_do_not_depend_on_which_were_asked_for_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (*rng.integers(1, 5, 7).tolist(), 2)
    scopes = [(*sorted(rng.choice(7, 2, replace=False).tolist()), 7) for _ in range(5)]
    tables = [rng.random([sizes[column] for column in scope]) + 0.1 for scope in scopes]
    counts = [
        NoisyMarginal(scope, 100 * table / table.sum(), 0.0)
        for scope, table in zip(scopes, tables, strict=True)
    ]
    model = graphical_model(sizes, counts, steps=5)
    asked = [(*rng.choice(7, rng.integers(1, 4), replace=False).tolist(),) for _ in range(12)]
    again = ModelMarginals(model)
    for columns in asked:
        np.testing.assert_array_equal(again.over(columns), ModelMarginals(model).over(columns))


def test_the_label_of_few_rows_is_counted_twice() -> None:
    sizes = (8,) * 20 + (2,)
    for epsilon, often in ((0.1, 2), (10, 1)):
        found = measured(drawn(800, 0, sizes), PureBudget.of(epsilon), sizes)
        of_label = [one for one in found if one.columns == (20,)]
        assert len(of_label) == often and of_label[-1].noise <= 0.05 * 800


@pytest.mark.exhaustive
def test_the_order_of_rows_by_their_odds_is_kept() -> None:
    """A column that leans towards the label does so among cautious rows, less."""
    cells = [[60, 10], [50, 20], [40, 30], [30, 40]]
    rows = cautious(cells, 100_000)
    shares = [rows[rows[:, 0] == code, -1].mean() for code in range(4)]
    assert shares == sorted(shares) and shares[0] < shares[3] - 0.05 and shares[3] < 0.52
    assert np.bincount(rows[:, 0]) / 100_000 == pytest.approx(np.sum(cells, axis=1) / 280, abs=0.01)
