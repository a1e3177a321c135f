"""Noisy counts and modes: every category gets noise, whatever occurs; exact only without
epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.noisy_count import exact_epsilon, guarantee, noisy_counts, noisy_modes
from tests.library.examples import seeded

ONE = Fraction(1)


@given(st.floats(5e-324, 1e308))
def test_epsilon_is_taken_exactly(epsilon: float) -> None:
    exact = exact_epsilon(epsilon)
    assert exact is not None and float(exact) == epsilon


def test_infinity_stands_for_no_noise() -> None:
    assert exact_epsilon(math.inf) is None
    assert noisy_counts([3, 0, 7], epsilon=None, stream=seeded()) == [3, 0, 7]
    assert guarantee(None).epsilon == math.inf


@pytest.mark.parametrize("epsilon", [0, -1.0, -math.inf, math.nan])
def test_an_epsilon_that_is_not_positive_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="expected a number > 0, or inf"):
        exact_epsilon(epsilon)


def test_every_count_gets_its_own_noise_also_where_nothing_was_counted() -> None:
    draws = seeded()
    noisy = np.array([noisy_counts([1000, 0, 0], epsilon=ONE, stream=draws) for _ in range(500)])
    assert (noisy.std(axis=0) > 1).all()
    assert np.abs(np.corrcoef(noisy.T) - np.eye(3)).max() < 0.2
    assert noisy.min() < 0


def test_a_category_that_does_not_occur_can_be_elected() -> None:
    """Electing only among present categories would show that one is present."""
    draws = seeded()
    elected = {
        noisy_modes([[1, 0, 0, 0]], epsilon=Fraction(1, 10), stream=draws)[0] for _ in range(300)
    }
    assert elected == {0, 1, 2, 3}


def test_the_first_of_equals_is_elected_without_noise() -> None:
    assert [*noisy_modes([[2, 5, 5, 1], [0, 0]], epsilon=None, stream=seeded())] == [1, 0]


def test_a_histogram_costs_its_epsilon_once() -> None:
    cost = guarantee(Fraction(3, 2))
    stated = (cost.epsilon, cost.delta, cost.neighbours, cost.unit)
    assert stated == (1.5, 0, "add-or-remove-one", "row")
    assert dict(cost.event.parameters) == {"epsilon": 1.5, "sensitivity": 1}
