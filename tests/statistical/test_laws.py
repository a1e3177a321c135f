"""Samplers have the stated law, and one whose scale is 30 % off would be noticed, both ways."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl.data.local.observed import invert, report_counts
from dpicl.ground.randomness import stream
from dpicl.ground.types import LocalReports
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.mechanisms.samplers import discrete_laplaces
from tests.statistical.sizes import CLIENTS, DRAWS, law_rejected


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
    assert not law_rejected(counts, _laplace_law(float(scale), reach))
    assert law_rejected(counts, _laplace_law(float(scale) * 1.3, reach))
    assert law_rejected(counts, _laplace_law(float(scale) * 0.77, reach))


def test_discrete_laplaces_of_one_call_are_independent() -> None:
    """Pairs of successive numbers, by whether they are zero."""
    drawn = np.array(discrete_laplaces(Fraction(1), 2 * DRAWS, stream(0, "laplace pairs", "", "")))
    zero = (drawn == 0).astype(int)
    p = float(_laplace_law(1.0, 8)[8])
    law = [(1 - p) ** 2, (1 - p) * p, p * (1 - p), p * p]
    for pairs in (2 * zero[::2] + zero[1::2], 2 * zero[:DRAWS] + zero[DRAWS:]):
        assert not law_rejected(np.bincount(pairs, minlength=4), law)


def test_a_noisy_count_s_noise_has_scale_one_over_epsilon() -> None:
    draws = stream(0, "noisy count", "", "")
    drawn = np.clip(
        [noisy_counts([100], epsilon=Fraction(1, 2), stream=draws)[0] - 100 for _ in range(DRAWS)],
        -16,
        16,
    )
    counts = np.bincount(drawn + 16, minlength=33)
    assert not law_rejected(counts, _laplace_law(2.0, 16))
    assert law_rejected(counts, _laplace_law(2.6, 16)) and law_rejected(
        counts, _laplace_law(1.54, 16)
    )


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
    law, draws = (
        response(epsilon=epsilon, categories=categories),
        stream(0, "randomised response", f"{categories}", f"{epsilon}"),
    )
    clients = CLIENTS * (10 if categories > 99 else 1)
    for truth in {0, categories // 2, categories - 1}:
        counts = np.bincount(randomise(np.full(clients, truth), law, draws), minlength=categories)
        assert not law_rejected(counts, _report_law(law.epsilon, categories, truth))
        assert law_rejected(counts, _report_law(law.epsilon * 1.3, categories, truth))
        assert law_rejected(counts, _report_law(law.epsilon * 0.77, categories, truth))


@pytest.mark.parametrize("categories", [2, 3, 7, 200])
def test_reports_of_neighbouring_clients_are_independent(categories: int) -> None:
    """Pairs of successive reports, of all categories or of truth against lie."""
    law, draws = (
        response(epsilon=1.0, categories=categories),
        stream(0, "pairs", f"{categories}", ""),
    )
    lied = (randomise(np.zeros(CLIENTS, dtype=int), law, draws) != 0).astype(int)
    counts = np.bincount(2 * lied[::2] + lied[1::2], minlength=4)
    p = law.truth_probability
    assert not law_rejected(counts, [p * p, p * (1 - p), (1 - p) * p, (1 - p) ** 2])


def test_inverse_distortion_is_unbiased() -> None:
    """The mean estimate over many collections lies within five standard errors of every true
    share.
    """
    sizes, truth = (2, 3, 4), np.random.default_rng(0).dirichlet(np.ones(24))
    clients, collections = 2_000, 400
    laws = [response(epsilon=1.0, categories=size) for size in sizes]
    codes = np.stack(
        np.unravel_index(np.repeat(np.arange(24), np.round(truth * clients).astype(int)), sizes),
        axis=1,
    )
    exact = report_counts(LocalReports(codes.astype(np.uint8)), sizes) / len(codes)
    estimates = []
    for number in range(collections):
        draws = stream(number, "unbiased", "", "")
        reports = np.stack(
            [randomise(codes[:, i], law, draws) for i, law in enumerate(laws)], axis=1
        )
        estimates.append(invert(report_counts(LocalReports(reports), sizes) / len(codes), laws))
    error = np.mean(estimates, axis=0) - exact
    assert (np.abs(error) < 5 * np.std(estimates, axis=0) / math.sqrt(collections)).all()
    uninverted = np.abs(np.mean(estimates, axis=0) - 1 / 24).max()
    assert uninverted > 20 * np.abs(error).max()


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2)])
def test_poisson_subsample_keeps_rows_at_the_stated_rate(rate: Fraction) -> None:
    """Also against the rate of the authors' program, 1 - e^(-q)."""
    rows = 1_000_000
    kept = len(
        poisson_subsample(rows, sampling_rate=rate, stream=stream(0, "poisson", str(rate), ""))
    )
    for other, wrong in (
        (float(rate), False),
        (1 - math.exp(-rate), True),
        (1.3 * float(rate), True),
    ):
        assert law_rejected([kept, rows - kept], [other, 1 - other]) == wrong


def test_poisson_subsample_keeps_rows_on_their_own() -> None:
    kept = np.zeros(1_000_000, dtype=int)
    kept[
        poisson_subsample(
            len(kept), sampling_rate=Fraction(1, 4), stream=stream(0, "poisson pairs", "", "")
        )
    ] = 1
    counts = np.bincount(2 * kept[::2] + kept[1::2], minlength=4)
    assert not law_rejected(counts, [9 / 16, 3 / 16, 3 / 16, 1 / 16])
