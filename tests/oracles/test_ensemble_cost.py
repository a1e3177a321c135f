"""What the answers of an ensemble cost, against dp-accounting and against the paper's own noise."""

from __future__ import annotations

from fractions import Fraction

import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting.accountant import price
from dpicl.accounting.events import poisson_sampled, repeated
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.mechanisms.stable_top import StableTop
from lab.audit.gaussian_steps import DELTA, EPSILON

SIGMA = Fraction(1)
TEST = StableTop(Fraction(1), Fraction(1), Fraction(1, 1_000), 2)
ADD = Neighbours.ADD_OR_REMOVE_ONE
GRID = 1e-4
QUERIES, PAPER_DELTA, PAPER_RATE = 100, 5e-5, Fraction(400, 14_732)
"""SAMSum: a hundred prompts of four examples."""
PAPER = [(1.272, 1.0, 5.3), (0.787, 3.0, 19.8), (0.548, 8.0, 51.4)]
"""Published sigmas, the epsilons that go with them, and the true ones."""


def priced(event: Event, delta: float) -> float:
    return price(event, neighbours=ADD, unit="row", delta=delta).epsilon


@pytest.mark.parametrize(
    "event", [TokenNoise("gaussian", SIGMA).event(), EmbeddingNoise(SIGMA).event()]
)
def test_the_audits_state_what_the_accountant_and_dp_accounting_say(event: Event) -> None:
    losses = pld.from_gaussian_mechanism(float(SIGMA), value_discretization_interval=GRID)
    assert losses.get_epsilon_for_delta(DELTA) == pytest.approx(EPSILON, abs=2 * GRID)
    assert EPSILON * (1 - 1e-9) <= priced(event, DELTA) <= EPSILON * (1 + 2e-3)


@pytest.mark.quick("1.272-1.0-5.3")
@pytest.mark.parametrize(("sigma", "published", "true"), PAPER)
def test_the_paper_s_noise_costs_what_it_says_for_half_of_what_an_answer_moves(
    sigma: float, published: float, true: float
) -> None:
    """As a multiplier of the true movement it would be right; for a movement of one radius it is
    half of that.
    """
    multiplier, halved = (EmbeddingNoise(Fraction(sigma) / part).event() for part in (1, 2))
    costs = [
        priced(repeated(poisson_sampled(PAPER_RATE, event), QUERIES), PAPER_DELTA)
        for event in (multiplier, halved)
    ]
    assert costs == [pytest.approx(published, rel=0.02), pytest.approx(true, rel=0.02)]


@pytest.mark.parametrize("queries", [1, 10])
def test_choices_of_words_cost_what_dp_accounting_says(queries: int) -> None:
    event, delta = TEST.event(), 0.02
    stated = common.DifferentialPrivacyParameters(2.0, 0.001)
    losses = pld.from_privacy_parameters(stated, value_discretization_interval=GRID)
    oracle = losses.self_compose(queries).get_epsilon_for_delta(delta)
    assert priced(repeated(event, queries), delta) == pytest.approx(oracle, rel=2e-3)


def test_a_hundred_choices_of_words_cannot_be_had_for_the_delta_of_one() -> None:
    """Each fails by itself: at the delta of one the price is infinite, and it is finite at somewhat
    more than a hundred times that.
    """
    hundred = repeated(TEST.event(), QUERIES)
    assert priced(hundred, 0.001) == float("inf")
    assert 2 < priced(hundred, 0.11) < 2 * QUERIES
