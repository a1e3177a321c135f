"""Discrete Gaussian noise and noisy maxima have the stated law; a scale that is 30 % off would be
noticed, both ways.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from dpicl.ground.randomness import stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_max import (
    bounded_range_max,
    bounded_range_maxima,
    exponential_maxima,
    gaussian_maxima,
)
from dpicl.mechanisms.samplers import discrete_gaussians
from tests.library.maxima import law_of_maximum
from tests.statistical.sizes import DRAWS, independent, law_rejected, of_that_scale


def gaussian_law(variance: float, reach: int) -> np.ndarray:
    """Probabilities of -reach .. reach."""
    law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return law / law.sum()


@pytest.mark.parametrize(
    "variance",
    [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(4), Fraction(100), Fraction(12345, 7)],
)
def test_discrete_gaussian(variance: Fraction) -> None:
    reach = math.ceil(10 * math.sqrt(variance))
    drawn = discrete_gaussians(variance, DRAWS, stream(0, "discrete gaussian", str(variance), ""))
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    assert of_that_scale(counts, lambda factor: gaussian_law(float(variance) * factor**2, reach))


def test_a_wide_discrete_gaussian_looks_continuous_and_its_last_digits_uniform() -> None:
    variance = Fraction(2**61, 3)
    drawn = discrete_gaussians(variance, DRAWS, stream(0, "wide", "", ""))
    places = stats.norm.cdf(drawn / math.sqrt(variance))
    wrong = stats.norm.cdf(1.3 * drawn / math.sqrt(variance))
    counts, wide = (
        np.bincount((shares * 32).astype(int), minlength=32) for shares in (places, wrong)
    )
    assert not law_rejected(counts, [1 / 32] * 32) and law_rejected(wide, [1 / 32] * 32)
    assert not law_rejected(np.bincount(drawn % 64, minlength=64), [1 / 64] * 64)


def test_successive_draws_are_independent() -> None:
    drawn = discrete_gaussians(Fraction(3), 2 * DRAWS, stream(0, "pairs", "", "")) > 0
    assert independent(drawn[::2], drawn[1::2], gaussian_law(3.0, 30)[31:].sum())


def test_the_noise_of_sums_has_the_stated_variance() -> None:
    sums = noisy_sums([10**25] * DRAWS, variance=Fraction(9), stream=stream(0, "sums", "", ""))
    noise = np.array([one - 10**25 for one in sums])
    counts = np.bincount(np.clip(noise, -30, 30) + 30, minlength=61)
    assert of_that_scale(counts, lambda factor: gaussian_law(9.0 * factor**2, 30))


@pytest.mark.parametrize("votes", [(0, 0), (3, 1), (0, 2, 2), (4, 1, 3, 3, 0)])
def test_exponential_maxima(votes: tuple[int, ...]) -> None:
    """Epsilon 3/2 over spread 2, against the law of `tests.library.maxima`."""
    draws = stream(0, "maxima", str(votes), "")
    elected = exponential_maxima([votes] * DRAWS, epsilon=Fraction(3, 2), spread=2, stream=draws)
    counts = np.bincount(elected, minlength=len(votes))

    def law(factor: float) -> list[float]:
        return [*map(float, law_of_maximum(votes, Fraction(math.exp(-0.75 * factor))))]

    if len(set(votes)) > 1:
        assert of_that_scale(counts, law)
    assert not law_rejected(counts, law(1))


@pytest.mark.parametrize("votes", [(0, 0), (3, 1), (0, 2, 2)])
def test_gaussian_maxima(votes: tuple[int, ...]) -> None:
    """Every outcome of the noise; equals are equally likely."""
    elected = gaussian_maxima(
        [votes] * DRAWS, variance=Fraction(2), stream=stream(0, "gaussian maxima", str(votes), "")
    )
    noise, law = np.arange(-9, 10), gaussian_law(2.0, 9)
    outcomes = np.array([*product(noise, repeat=len(votes))])
    chances = np.prod(law[outcomes + 9], axis=1)
    counts, totals = np.bincount(elected, minlength=len(votes)), outcomes + votes
    highest = totals == totals.max(axis=1, keepdims=True)
    expected = chances @ (highest / highest.sum(axis=1, keepdims=True))
    first = np.bincount(totals.argmax(axis=1), weights=chances, minlength=len(votes))
    assert not law_rejected(counts, expected) and law_rejected(counts, first)


@pytest.mark.quick("votes1")
@pytest.mark.parametrize("votes", [(0, 0), (3, 1), (0, 2, 2), (4, 1, 3, 3, 0)])
def test_bounded_range_maxima(votes: tuple[int, ...]) -> None:
    """Epsilon 3/2 over spread 2: shares of e to the 3/4 of the votes."""
    how = {"epsilon": Fraction(3, 2), "spread": 2}
    draws = stream(0, "bounded range", str(votes), "")
    others = [3, 0, 0, 7, 1] * 20  # drawn beside them
    both = bounded_range_maxima([votes, others] * (DRAWS // 6), stream=draws, **how)
    alone = [bounded_range_max(votes, stream=draws, **how) for _ in range(DRAWS // 6)]
    counts = np.bincount([*both[::2], *alone], minlength=len(votes))

    def law(factor: float) -> np.ndarray:
        return softmax(0.75 * factor * np.array(votes))

    if len(set(votes)) > 1:
        assert of_that_scale(counts, law)
    assert not law_rejected(counts, law(1))
