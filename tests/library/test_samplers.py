"""Exact samplers: walking through all outcomes of the bits gives the stated probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpicl.errors import ParameterError
from dpicl.mechanisms.samplers import bernoulli_exp, discrete_laplace
from dpicl.randomness import stream
from tests.library.examples import exact_law


def _laplace(value: int, scale: Fraction) -> float:
    decay = math.exp(-1 / float(scale))
    return (1 - decay) / (1 + decay) * decay ** abs(value)


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (2, 3), (1, 7), (3, 5)])
def test_bernoulli_exp_has_probability_e_to_the_minus_x(numerator: int, denominator: int) -> None:
    law, missing = exact_law(lambda draws: bernoulli_exp(numerator, denominator, draws), Fraction(1, 10**8))
    assert missing < Fraction(1, 10**4)
    assert abs(float(law[True]) - math.exp(-numerator / denominator)) <= float(missing) + 1e-15


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 2), Fraction(2)])
def test_discrete_laplace_has_its_law(scale: Fraction) -> None:
    law, missing = exact_law(lambda draws: discrete_laplace(scale, draws), Fraction(1, 10**5))
    assert missing < Fraction(1, 4)
    for value in range(-2, 3):
        assert float(law[value]) <= _laplace(value, scale) + 1e-15 <= float(law[value] + missing) + 2e-15
    assert all(law[value] == law[-value] for value in range(1, 3))


def test_neighbouring_outcomes_of_discrete_laplace_differ_by_the_stated_factor() -> None:
    """Above the unwalked mass, P[z] / P[z + 1] = e^(1 / scale): what a count's epsilon rests on."""
    law, missing = exact_law(lambda draws: discrete_laplace(Fraction(1), draws), Fraction(1, 10**5))
    for value in range(3):
        low = float(law[value] / (law[value + 1] + missing))
        high = float((law[value] + missing) / law[value + 1])
        assert low <= math.e <= high


def test_a_tiny_scale_gives_no_noise_and_a_huge_one_hardly_ever_zero() -> None:
    draws = stream(0, "test", "", "")
    assert {discrete_laplace(Fraction(1, 1000), draws) for _ in range(200)} == {0}
    assert sum(discrete_laplace(Fraction(10**12), draws) == 0 for _ in range(200)) == 0


def test_a_scale_of_many_digits_is_exact_enough_to_draw() -> None:
    draws = stream(0, "test", "", "")
    values = [discrete_laplace(2 * Fraction(10**9) / Fraction(0.1), draws) for _ in range(200)]
    assert 1e9 < sum(map(abs, values)) / 200 < 4e10


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(-1, 10**9)])
def test_a_scale_that_is_not_positive_is_refused(scale: Fraction) -> None:
    with pytest.raises(ParameterError, match="expected a positive rational"):
        discrete_laplace(scale, stream(0, "test", "", ""))
