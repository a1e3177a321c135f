"""Our costs against dp-accounting's privacy loss distributions.

A loss distribution is rounded up to a grid, so the oracle may lie above the truth by one
grid step per composed part, and never below it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian, parallel
from dpicl.accounting.guarantee import Neighbours, amplified_epsilon, amplify
from dpicl.data.central.aggregate import AggregateOptions, guarantee, partition
from dpicl.mechanisms import noisy_count, noisy_mean
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.mechanisms.randomised_response import response
from tests.library.examples import CONTRACTS

GRID = 1e-4
NOTHING = 0.0


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_amplified_laplace_lies_within_the_bound_and_reaches_it(
    epsilon: float, rate: float
) -> None:
    losses = pld.from_laplace_mechanism(
        1 / epsilon, sampling_prob=rate, value_discretization_interval=GRID
    )
    bound = amplified_epsilon(epsilon, rate)
    assert losses.get_delta_for_epsilon(bound + GRID) == NOTHING
    assert losses.get_delta_for_epsilon(0.99 * bound - GRID) > NOTHING
    assert losses.get_epsilon_for_delta(NOTHING) <= bound + GRID


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 10)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 7.0])
def test_a_noisy_count_costs_its_epsilon_and_of_a_sample_the_amplified_one(
    epsilon: float, rate: Fraction
) -> None:
    losses = pld.from_discrete_laplace_mechanism(
        epsilon, 1, sampling_prob=float(rate), value_discretization_interval=GRID
    )
    stated = amplify(noisy_count.guarantee(Fraction(epsilon)), rate).epsilon
    assert losses.get_epsilon_for_delta(NOTHING) == pytest.approx(stated, abs=GRID)


@pytest.mark.parametrize("origin", ["lower", "centre"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_noisy_mean_costs_its_epsilon(origin: noisy_mean.Origin, epsilon: float) -> None:
    """Its two parts, with the parameters that the module states: scale 2 D / epsilon and 2 /
    epsilon.
    """
    grid = Grid(0, 30, 1, origin)
    total = pld.from_discrete_laplace_mechanism(
        epsilon / (2 * grid.sensitivity), grid.sensitivity, value_discretization_interval=GRID
    )
    count = pld.from_discrete_laplace_mechanism(epsilon / 2, 1, value_discretization_interval=GRID)
    stated = noisy_mean.guarantee(grid, Fraction(epsilon)).epsilon
    together = total.compose(count).get_epsilon_for_delta(NOTHING)
    assert together == pytest.approx(stated, abs=3 * GRID)


@pytest.mark.parametrize("shots", [1, 2, 8])
def test_the_columns_of_a_group_cost_their_epsilon_together(shots: int) -> None:
    contract, groups = CONTRACTS["car"], partition(CONTRACTS["car"], shots)
    stated = guarantee(groups, contract, epsilon=2.0, options=AggregateOptions()).epsilon
    columns = 6 + (shots == 1)
    one = pld.from_discrete_laplace_mechanism(2.0 / columns, 1, value_discretization_interval=GRID)
    together = one.self_compose(columns).get_epsilon_for_delta(NOTHING)
    assert together == pytest.approx(stated, abs=(columns + 1) * GRID)


@pytest.mark.parametrize("categories", [2, 3, 7, 200])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_costs_its_epsilon(categories: int, epsilon: float) -> None:
    """dp-accounting's form: a uniform category with probability eta, else the truth."""
    law = response(epsilon=epsilon, categories=categories)
    losses = pld.from_randomized_response(
        law.lie_probability * categories, categories, value_discretization_interval=GRID
    )
    assert losses.get_epsilon_for_delta(NOTHING) == pytest.approx(law.epsilon, abs=2 * GRID)
    assert law.epsilon <= epsilon


def test_gaussians_on_disjoint_rows_cost_what_the_costliest_costs() -> None:
    parts = [gaussian(sigma=sigma) for sigma in (3.0, 2.0)]
    stated = price(parallel(parts), neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=1e-5)
    alone = pld.from_gaussian_mechanism(2.0, value_discretization_interval=GRID)
    assert stated.epsilon == pytest.approx(alone.get_epsilon_for_delta(1e-5), rel=5e-3)


def test_the_oracle_notices_noise_that_is_a_fifth_too_small() -> None:
    losses = pld.from_discrete_laplace_mechanism(1.0 / 0.8, 1, value_discretization_interval=GRID)
    assert losses.get_epsilon_for_delta(NOTHING) > noisy_count.guarantee(Fraction(1)).epsilon + 0.2
    assert not math.isinf(losses.get_epsilon_for_delta(NOTHING))
