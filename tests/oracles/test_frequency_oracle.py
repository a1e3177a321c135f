"""Our randomised response and reconstruction against multi-freq-ldpy's."""

from __future__ import annotations

import numpy as np
import pytest
from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Aggregator_MI
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Aggregator_MI
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI

from dpicl.data.local.observed import clip_and_renormalise, invert, report_counts
from dpicl.ground.types import LocalReports
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.mechanisms.two_levels import send, two_levels
from dpicl.mechanisms.unary_encoding import report, unary
from tests.library.examples import seeded


def truths(categories: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.choice(categories, size=50_000, p=rng.dirichlet(np.ones(categories)))


@pytest.mark.parametrize("categories", [2, 3, 7, 200])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_weights_are_those_of_the_closed_form_up_to_their_rounding(
    categories: int, epsilon: float
) -> None:
    law = response(epsilon=epsilon, categories=categories)
    odds = np.exp(epsilon)
    exact = odds / (odds + categories - 1)
    assert law.truth_probability == pytest.approx(exact, rel=2e-2 if law.bits == 16 else 1e-5)
    assert law.epsilon == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("categories", [2, 3, 7, 40])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_clipped_shares_of_one_answer_equal_the_oracle_s(categories: int, epsilon: float) -> None:
    """The oracle inverts with the exact p and q, we with ours, which lie within 1e-3 of epsilon."""
    law = response(epsilon=epsilon, categories=categories)
    reports = randomise(truths(categories), law, seeded(0, "oracle"))
    counts = report_counts(LocalReports(reports[:, None]), (categories,))
    ours = clip_and_renormalise(invert(counts / len(reports), [law]))
    assert ours == pytest.approx(GRR_Aggregator_MI(reports, categories, epsilon), abs=2e-3)


def test_shares_of_answers_with_two_levels_equal_the_oracle_s() -> None:
    """L-GRR. Of more categories than two the oracle's q* lacks the term (k - 2) q1 q2, so that its
    shares do not add up: there the enumeration of `test_two_levels` is the oracle.
    """
    levels = two_levels(response(epsilon=2.0, categories=2), epsilon=1.0)
    kept = randomise(truths(2), levels.permanent, seeded(0, "oracle"))
    reports = send(kept, levels.sending, seeded(0, "sent"))
    truth, lie = levels.sent.truth_probability, levels.sent.lie_probability
    shares = (np.bincount(reports) / len(reports) - lie) / (truth - lie)
    assert shares == pytest.approx(L_GRR_Aggregator_MI(reports, 2, 2.0, 1.0), abs=2e-3)


@pytest.mark.parametrize("categories", [2, 7, 40])
def test_shares_of_bits_with_two_levels_equal_the_oracle_s(categories: int) -> None:
    """L-OSUE."""
    levels = two_levels(unary(epsilon=2.0, categories=categories), epsilon=1.0)
    kept = report(truths(categories), levels.permanent, seeded(0, "bits"))
    bits = send(kept, levels.sending, seeded(0, "flipped"))
    lie = levels.sent.lie_probability
    shares = clip_and_renormalise((bits.mean(axis=0) - lie) / (0.5 - lie))
    assert shares == pytest.approx(L_OSUE_Aggregator_MI(bits.astype(int), 2.0, 1.0), abs=2e-3)
