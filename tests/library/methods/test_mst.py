"""MST-TabICL: what one row moves, what every path costs, and models that find the population
again.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.accountant import compose, price
from dpicl.accounting.events import gaussian
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.contract.pipeline import Cell
from dpicl.data.central.exact_counts import ExactCounts, check_counts
from dpicl.data.central.graphical_model import NoisyMarginal, added, graphical_model
from dpicl.data.central.spanning_tree import Shares, measure, pair_scores
from dpicl.ground.errors import ParameterError
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.noisy_steps import GaussianBudget, PureBudget, StepBudget
from dpicl.methods import METHODS, grid
from tests.library.examples import private_contract, seeded
from tests.library.methods.spending import spending
from tests.library.units import drawn, unit_for

SIZES = (2, 3, 2, 4, 2)
EPSILONS = st.sampled_from([0.05, 1.0, 7.5])


def population(count: int, seed: int = 0) -> np.ndarray:
    """Columns that lean towards the label, the second also towards the first: shape (count,
    columns), uint8.
    """
    rng = np.random.default_rng(seed)
    label = rng.random(count) < 0.4
    columns: list[np.ndarray] = []
    for size in SIZES[:-1]:
        leaning = columns[-1] % size if len(columns) == 1 else label * (size - 1)
        columns.append(np.where(rng.random(count) < 0.7, leaning, rng.integers(size, size=count)))
    return np.stack([*columns, label], axis=1).astype(np.uint8)


def counts(rows: np.ndarray) -> ExactCounts:
    return ExactCounts.of(PrivateCodes(rows), SIZES)


def measured(rows: np.ndarray, epsilon: float, seed: int = 0) -> list[NoisyMarginal]:
    return measure(counts(rows), budget=PureBudget.of(epsilon), stream=seeded(seed, "measure"))


@given(st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=20)
def test_counts_of_parts_add_up_and_survive_a_file(count: int, first: int) -> None:
    rows = population(count)
    both = counts(rows[:first]) + counts(rows[first:])
    read = ExactCounts.read(counts(rows).arrays())
    assert both.sizes == read.sizes == SIZES
    assert all(
        np.array_equal(both.tables[columns], read.tables[columns])
        for columns in counts(rows).tables
    )


@given(
    st.integers(0, 40),
    st.integers(0, 999),
    st.sampled_from([PureBudget(Fraction(1)), GaussianBudget(Fraction(1))]),
)
def test_one_row_moves_every_score_by_at_most_one_and_every_count_in_one_cell(
    count: int, seed: int, budget: StepBudget
) -> None:
    rng, gaussian = np.random.default_rng(seed), isinstance(budget, GaussianBudget)
    rows = np.stack([rng.integers(size, size=count + 1) for size in SIZES], axis=1).astype(np.uint8)
    star = [
        NoisyMarginal((column, 4), rng.integers(-9, 30, (SIZES[column], 2)), 1.0, gaussian=gaussian)
        for column in range(4)
    ]
    more, less = counts(rows), counts(rows[1:])
    with_row, without = (pair_scores(one, star, budget) for one in (more, less))
    assert all(abs(with_row[pair] - without[pair]) <= 1 for pair in with_row)
    for columns, table in more.tables.items():
        assert np.abs(table - less.tables[columns]).sum() == 1


@given(st.integers(0, 60), st.integers(0, 999), EPSILONS)
def test_whatever_is_chosen_the_steps_spend_exactly_epsilon(
    count: int, seed: int, epsilon: float
) -> None:
    with spending() as (spent, spreads):
        measured(population(count, seed), epsilon, seed)
    assert {*spreads} == {2} and sum(spent) == Fraction(epsilon)


def test_the_guarantee_is_epsilon_for_a_row_more_or_less() -> None:
    stated, silent = (PureBudget.of(epsilon).guarantee() for epsilon in (2.0, math.inf))
    assert (stated.epsilon, stated.delta, silent.epsilon) == (2.0, 0, math.inf)
    assert stated.neighbours is Neighbours.ADD_OR_REMOVE_ONE
    assert Shares.of(PureBudget.of(math.inf), 3).first.amount is None


def test_more_counts_than_fit_into_memory_are_refused_by_their_number() -> None:
    check_counts((100,) * 40 + (2,), "wide")
    with pytest.raises(
        ParameterError, match="at most 16,777,216 counts of pairs of columns; wide has 19,809,000"
    ):
        check_counts((100,) * 45 + (2,), "wide")


def test_beside_gaussian_noise_no_path_costs_more_than_is_priced() -> None:
    """A filter's steps depend on the rows; it is priced as one mechanism, not as the steps of one
    path.
    """

    def priced(*steps: Guarantee) -> float:
        return compose([beside, *steps], delta=2e-6).epsilon

    def step(share: StepBudget) -> Guarantee:
        return noisy_count.guarantee(share.amount)

    columns, noise = 12, gaussian(sigma=2.0)
    beside = price(noise, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=1e-6)
    shares = Shares.of(PureBudget.of(2.0), columns)
    stops = [
        *[step(shares.first)] * columns,
        step(shares.choice),
        *[step(shares.rest(columns - 1, columns))] * columns,
    ]
    goes_on = [
        *[step(shares.first)] * columns,
        *[step(shares.choice), step(shares.second)] * (columns - 1),
    ]
    assert priced(PureBudget.of(2.0).guarantee()) >= max(priced(*stops), priced(*goes_on))


def test_pairs_that_say_more_are_counted_and_make_no_circle() -> None:
    found = measured(population(20_000), 5.0)
    pairs = [one.columns[:2] for one in found if len(one.columns) == 3]
    assert (0, 1) in pairs and len(pairs) == len(set(pairs)) <= 3
    seen: list[set[int]] = []
    for pair in pairs:
        touching = [tree for tree in seen if tree & set(pair)]
        assert not any(set(pair) <= tree for tree in touching)
        seen = [tree for tree in seen if tree not in touching] + [set(pair).union(*touching)]


def test_of_a_small_table_no_pair_is_counted_and_columns_are_counted_twice() -> None:
    found = measured(population(5), 0.5, seed=1)
    assert [one.columns for one in found] == [(column, 4) for column in range(4)] * 2
    merged = added(found)
    assert [one.columns for one in merged] == [(column, 4) for column in range(4)]
    assert all(
        one.scale < min(first.scale, second.scale)
        for one, first, second in zip(merged, found[:4], found[4:], strict=True)
    )


def test_a_model_of_exact_counts_draws_the_population_again() -> None:
    rows = population(20_000)
    model = graphical_model(SIZES, measured(rows, math.inf))
    sampled = model.rows(40_000, np.random.default_rng(0))
    for columns in ((0, 4), (3, 4), (0, 1, 4)):
        shape = [SIZES[column] for column in columns]
        true, found = (
            np.bincount(
                np.ravel_multi_index(tuple(codes[:, c].astype(int) for c in columns), shape),
                minlength=math.prod(shape),
            )
            / len(codes)
            for codes in (rows, sampled)
        )
        assert np.abs(true - found).max() < 0.015


def test_columns_without_a_pair_are_drawn_from_the_label_alone() -> None:
    rng = np.random.default_rng(0)
    marginals = [
        NoisyMarginal(
            (column, 2), np.array([[900, 100], [100, 900]]) + rng.integers(-5, 5, (2, 2)), 2.0
        )
        for column in range(2)
    ]
    rows = graphical_model((2, 2, 2), marginals).rows(30_000, rng)
    assert (rows[:, 0] == rows[:, 2]).mean() == pytest.approx(0.9, abs=0.02)
    assert (rows[:, 0] == rows[:, 1]).mean() == pytest.approx(0.82, abs=0.02)


def test_real_counts_are_drawn_anew_and_a_replaced_row_pays_as_much() -> None:
    contract, method = private_contract(), METHODS["mst_tabicl"]
    unit, cell = unit_for(method.name, contract.name, epsilons=(2.0,)), Cell("counts", 2.0)
    one, other = (drawn(unit, contract)[cell] for _ in range(2))
    assert not np.array_equal(one.marginals[0].counts, other.marginals[0].counts)
    costs = grid.costs(method, contract, unit)
    assert costs[Cell("icl", 2.0, 1)].charged.epsilon == pytest.approx(2.0)
    replaced = contract.model_copy(
        update={"privacy": contract.privacy.model_copy(update={"neighbours": "replace-one"})}
    )
    assert grid.prices(method, replaced, unit)[cell].charged.epsilon == pytest.approx(2.0)
