"""Samplers have the stated law, and one whose scale is 30 % off would be noticed, both ways."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpicl.ground.randomness import stream
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.mechanisms.samplers import discrete_laplaces
from tests.statistical.sizes import CLIENTS, DRAWS, independent, law_rejected, of_that_scale


def _laplace_law(scale: float, reach: int) -> np.ndarray:
    """Probabilities of -reach .. reach, the tails in the outermost."""
    decay = math.exp(-1 / scale)
    law = (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-reach, reach + 1))
    law[[0, -1]] = decay**reach / (1 + decay)
    return law


@pytest.mark.parametrize(
    "scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(40), Fraction(1 / 0.15)]
)
def test_discrete_laplace(scale: Fraction) -> None:
    reach = math.ceil(8 * scale)
    draws = stream(0, "discrete laplace", str(scale), "")
    drawn = np.clip(discrete_laplaces(scale, DRAWS, draws), -reach, reach)
    counts = np.bincount(drawn + reach, minlength=2 * reach + 1)
    assert of_that_scale(counts, lambda factor: _laplace_law(float(scale) * factor, reach))


def test_discrete_laplaces_of_one_call_are_independent() -> None:
    """Pairs of successive numbers, by whether they are zero."""
    drawn = np.array(discrete_laplaces(Fraction(1), 2 * DRAWS, stream(0, "laplace pairs", "", "")))
    zero, chance = drawn == 0, _laplace_law(1.0, 8)[8]
    for pair in ((zero[::2], zero[1::2]), (zero[:DRAWS], zero[DRAWS:])):
        assert independent(*pair, chance)


def test_a_noisy_count_s_noise_has_scale_one_over_epsilon() -> None:
    draws = stream(0, "noisy count", "", "")
    drawn = [noisy_counts([100], epsilon=Fraction(1, 2), stream=draws)[0] for _ in range(DRAWS)]
    counts = np.bincount(np.clip(drawn, 84, 116) - 84, minlength=33)
    assert of_that_scale(counts, lambda factor: _laplace_law(2.0 * factor, 16))


def _report_law(epsilon: float, categories: int, truth: int) -> np.ndarray:
    odds = math.exp(epsilon)
    law = np.full(categories, 1 / (odds + categories - 1))
    law[truth] *= odds
    return law


@pytest.mark.quick("7-0.5", "7-1.0", "7-3.0", "3-3.0")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 3, 7, 200])
def test_randomised_response(categories: int, epsilon: float) -> None:
    """For several true answers; every lie by itself, so that no lie is preferred."""
    law = response(epsilon=epsilon, categories=categories)
    draws = stream(0, "randomised response", f"{categories}", f"{epsilon}")
    clients = CLIENTS * (10 if categories > 99 else 1)
    for truth in {0, categories // 2, categories - 1}:
        counts = np.bincount(randomise(np.full(clients, truth), law, draws), minlength=categories)
        odds = partial(_report_law, categories=categories, truth=truth)
        assert of_that_scale(counts, lambda factor: odds(law.epsilon * factor))  # noqa: B023


@pytest.mark.parametrize("categories", [2, 3, 7, 200])
def test_reports_of_neighbouring_clients_are_independent(categories: int) -> None:
    """Pairs of successive reports, of all categories or of truth against lie."""
    law = response(epsilon=1.0, categories=categories)
    draws = stream(0, "pairs", f"{categories}", "")
    lied = randomise(np.zeros(CLIENTS, dtype=int), law, draws) != 0
    assert independent(lied[::2], lied[1::2], 1 - law.truth_probability)


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2)])
def test_poisson_subsample_keeps_rows_at_the_stated_rate(rate: Fraction) -> None:
    """Also against the rate of the authors' program, 1 - e^(-q)."""
    rows = 1_000_000
    draws = stream(0, "poisson", str(rate), "")
    kept = len(poisson_subsample(rows, sampling_rate=rate, stream=draws))
    for other, wrong in (
        (float(rate), False),
        (1 - math.exp(-rate), True),
        (1.3 * float(rate), True),
    ):
        assert law_rejected([kept, rows - kept], [other, 1 - other]) == wrong


def test_poisson_subsample_keeps_rows_on_their_own() -> None:
    rows, draws = np.arange(1_000_000), stream(0, "poisson pairs", "", "")
    kept = np.isin(rows, poisson_subsample(len(rows), sampling_rate=Fraction(1, 4), stream=draws))
    assert independent(kept[::2], kept[1::2], 1 / 4)
