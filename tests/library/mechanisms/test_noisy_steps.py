"""Budgets of many steps: what one row moves against the noise, what a choice tells, parts that add
up, and what the whole is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri, softmax

from dpicl.accounting.accountant import check
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import SMOOTHED
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import stream
from dpicl.mechanisms import discrete_gaussian
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal, PureBudget, StepBudget
from tests.library.examples import seeded

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
AMOUNTS = st.fractions(min_value=Fraction(1, 10**5), max_value=9)


def delta_at(epsilon: float, mu: float) -> float:
    """Of Gaussians that are mu deviations apart."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def noised(counts: list[int], budget: GaussianBudget) -> tuple[np.ndarray, Fraction]:
    """The whole numbers that get noise, and its variance."""
    seen: list[Any] = []

    def kept(sums: list[int], *, variance: Fraction, stream: Any) -> list[int]:
        seen.append((np.array(sums), variance))
        return sums

    with patch.object(discrete_gaussian, "noisy_sums", kept):
        assert budget.counts(counts, seeded()) == counts
    return seen[0]  # type: ignore[no-any-return]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 5), AMOUNTS)
def test_one_row_moves_noisy_counts_by_no_more_than_their_part_of_the_budget(
    counts: list[int], place: int, amount: Fraction
) -> None:
    """By the l2 norm, against a continuous Gaussian of the variance that is left once the discrete
    one is smoothed; nearly all is used.
    """
    more = [count + (at == place % len(counts)) for at, count in enumerate(counts)]
    (one, variance), (other, same) = (
        noised(rows, GaussianBudget(amount)) for rows in (counts, more)
    )
    assert variance == same > SMOOTHED
    squared = Fraction(int(((one - other) ** 2).sum())) / (variance - SMOOTHED)
    assert amount * Fraction(99, 100) < squared <= amount


def law_of_choice(scores: np.ndarray, budget: GaussianBudget, spread: int) -> np.ndarray:
    return softmax(float(budget.range) * scores / spread)


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.sampled_from([-1, 0, 1])), min_size=2, max_size=6),
    AMOUNTS,
)
def test_a_choice_tells_no_more_than_a_gaussian_of_its_part_of_the_budget(
    moved: list[tuple[int, int]], amount: Fraction
) -> None:
    """Scores that one row moves by 1 each, up or down."""
    scores, by = np.array(moved).T
    mu, budget = math.sqrt(amount), GaussianBudget(amount)
    one, other = (law_of_choice(there, budget, 2) for there in (scores, scores + by))
    for epsilon in np.linspace(0, mu**2 / 2 + 2 * mu, 15):
        for here, there in ((one, other), (other, one)):
            delta = np.maximum(here - math.exp(epsilon) * there, 0).sum()
            assert delta <= delta_at(epsilon, mu) * (1 + 1e-9)


@pytest.mark.parametrize("amount", [Fraction(1, 100), Fraction(1), Fraction(9)])
def test_two_scores_that_are_level_tell_all_of_it(amount: Fraction) -> None:
    """Moved apart from one behind to one ahead; a budget of a tenth more tells too much."""
    pair = (np.array([0, 1]), np.array([1, 0]))
    told, mu = [], math.sqrt(amount)
    for given_amount in (amount, amount * Fraction(11, 10)):
        one, other = (law_of_choice(scores, GaussianBudget(given_amount), 2) for scores in pair)
        told.append(ndtri(one[1]) - ndtri(other[1]))
    assert told[0] == pytest.approx(mu, rel=1e-5) and told[0] <= mu < told[1]


@given(AMOUNTS, st.integers(1, 40))
def test_parts_add_up_and_what_is_taken_is_gone(amount: Fraction, parts: int) -> None:
    for kind in (PureBudget, GaussianBudget):
        whole: StepBudget = kind(amount)
        part = whole.times(Fraction(1, parts))
        assert part.times(Fraction(parts - 1)).plus(part) == whole
        assert whole.less(part).amount == amount - amount / parts


@pytest.mark.quick("amount1-PureBudget")
@pytest.mark.parametrize("kind", [PureBudget, GaussianBudget])
@pytest.mark.parametrize("amount", [Fraction(1, 50), Fraction(1, 3)])
def test_the_noise_is_as_large_as_it_says(
    kind: Callable[[Fraction], StepBudget], amount: Fraction
) -> None:
    budget = kind(amount)
    noise = np.array(budget.counts([7] * 20_000, stream(0, "test", str(amount), ""))) - 7
    assert noise.std() == pytest.approx(budget.deviation, rel=0.03)
    assert np.abs(noise).mean() == pytest.approx(budget.noise, rel=0.03)
    assert noise.mean() == pytest.approx(0, abs=5 * budget.deviation / 140)


@pytest.mark.parametrize("kind", [PureBudget, GaussianBudget])
def test_so_many_tables_have_the_noise_that_they_are_counted_for(
    kind: Callable[[Fraction | None], StepBudget],
) -> None:
    budget, cell, share = kind(Fraction(1, 3)), 400.0, 0.1
    tables = budget.tables(cell, share)
    assert budget.noise_of_each(round(tables)) == pytest.approx(cell * share, rel=0.05)
    assert budget.noise_of_each(1) == pytest.approx(budget.noise)


@pytest.mark.parametrize("kind", [PureBudget, GaussianBudget])
def test_an_infinite_budget_is_exact_and_so_are_its_parts(
    kind: Callable[[None], StepBudget],
) -> None:
    whole, draws = kind(None), seeded()
    part = whole.times(Fraction(1, 3))
    assert part.amount is None and whole.less(part).plus(part).amount is None
    assert [*part.counts([3, 0], draws)] == [3, 0]
    assert part.chosen([1, 5, 5], spread=2, stream=draws) == 1
    assert part.noise == part.deviation == part.choice_scale == part.noise_of_each(3) == 0
    assert part.tables(1, 1) == math.inf


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_whole_costs_what_is_asked_for_whatever_a_unit_moves(
    epsilon: float, rows: int, neighbours: Neighbours
) -> None:
    total = GaussianTotal.of(epsilon, delta=1e-6, neighbours=neighbours, rows=rows)
    cost = total.guarantee()
    check(cost)
    assert 0.995 * epsilon <= cost.epsilon <= epsilon
    assert (cost.delta, cost.neighbours, cost.unit) == (1e-6, neighbours, "row")
    moved = rows * (2 if neighbours is REPLACE else 1)
    delta = delta_at(epsilon, moved * math.sqrt(total.budget.amount))
    assert 0.88e-6 <= delta <= 1e-6, "as one Gaussian that is moved so far"


@pytest.mark.exhaustive
def test_no_noise_costs_infinity_and_impossible_parameters_are_refused() -> None:
    assert GaussianTotal.of(math.inf, delta=1e-6, neighbours=ADD).guarantee().epsilon == math.inf
    assert GaussianTotal.of(500.0, delta=1e-6, neighbours=REPLACE).guarantee().epsilon <= 500
    for epsilon, delta in ((0.0, 1e-6), (math.nan, 1e-6), (501.0, 1e-6), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ParameterError, match="epsilon=|delta="):
            GaussianTotal.of(epsilon, delta=delta, neighbours=ADD)
    with pytest.raises(PrivacyError, match="no noise multiplier from"):
        GaussianTotal.of(1e-7, delta=1e-15, neighbours=ADD)
