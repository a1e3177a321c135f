"""What adaptive choices of bounded range cost, against other libraries, a published formula and a
search that knows no grid.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from prv_accountant import PRVAccountant, PureDPMechanism
from scipy.optimize import brentq, minimize_scalar
from scipy.special import comb

from dpicl.accounting.accountant import check, compose, price
from dpicl.accounting.events import Event, gaussian, poisson_sampled, repeated, sequential
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import Losses, bounded_range, losses_of, one_choice
from dpicl.accounting.renyi import ORDERS, curve_of
from dpicl.ground.errors import PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
DELTA = 1e-5
CASES = [(0.2, 100), (0.5, 20), (1.0, 4), (0.05, 300), (2.0, 3)]


def choice(reach: float, neighbours: Neighbours = ADD) -> Event:
    return bounded_range(Fraction(reach), neighbours=neighbours)


def epsilon_of(event: Event, delta: float = DELTA, neighbours: Neighbours = ADD) -> float:
    return price(event, neighbours=neighbours, unit="row", delta=delta).epsilon


def at(losses: Losses, x: float) -> float:
    return float(losses.at(np.array([x]))[0])


@pytest.mark.quick("2.0-3", "1.0-4", "0.5-20")
@pytest.mark.parametrize(("reach", "count"), CASES)
def test_the_price_lies_between_randomised_response_and_zero_concentrated_privacy(
    reach: float, count: int
) -> None:
    """Randomised response of epsilon r / 2 has range r, by prv-accountant; and rho = r^2 / 8,
    converted by dp_accounting.
    """
    ours = epsilon_of(repeated(choice(reach), count))
    errors = {"eps_error": 0.01, "delta_error": DELTA / 1000}
    accountant = PRVAccountant(
        prvs=[PureDPMechanism(reach / 2)], max_self_compositions=[count], **errors
    )
    low, _, _ = accountant.compute_epsilon(delta=DELTA, num_self_compositions=[count])
    rho = dp_accounting.ZCDpEvent(count * reach**2 / 8)
    concentrated = RdpAccountant().compose(rho).get_epsilon(DELTA)
    assert low <= ours <= min(concentrated, count * reach) * (1 + 1e-6)
    assert count < 20 or ours <= low * 1.2


def test_many_choices_cost_what_a_gaussian_of_their_variance_does() -> None:
    """Which the fixed pairs of a single choice do not: they are of a third of r^2 in place of a
    quarter.
    """
    ours = epsilon_of(repeated(choice(0.1), 200))
    assert ours == pytest.approx(epsilon_of(gaussian(sigma=2 / (0.1 * math.sqrt(200)))), rel=5e-3)
    apart = sequential([repeated(choice(0.1), 100), repeated(choice(0.1 + 2**-40), 100)])
    assert 1.1 * ours < epsilon_of(apart) < 1.3 * ours


@pytest.mark.parametrize(("reach", "count"), CASES)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_no_sequence_that_is_fixed_beforehand_costs_more(
    reach: float, count: int, epsilon: float
) -> None:
    """Theorem 2 of arXiv 1909.13830: the exact optimum over t without adaptivity, which adaptive
    sequences exceed a little.
    """

    def divergence(t: float) -> float:
        # of Q, the first of two outcomes
        p = math.exp(-t) * -math.expm1(t - reach) / -math.expm1(-reach)
        firsts = np.arange(count + 1)
        chances = comb(count, firsts) * p**firsts * (1 - p) ** (count - firsts)
        losses = count * (t - reach) + firsts * reach
        return float((chances * np.maximum(0, np.exp(losses) - math.exp(epsilon))).sum())

    fixed = max(divergence(t) for t in np.linspace(1e-9, reach, 2001))
    assert fixed * (1 - 1e-9) <= at(losses_of(reach, count), epsilon) <= fixed * 1.02 + 2e-3


@pytest.mark.parametrize("x", [-0.4, 0.0, 0.3, 1.1])
def test_two_choices_cost_what_a_search_for_the_worst_second_one_finds(x: float) -> None:
    """Equation (2) without a grid: the second t is chosen after the first outcome."""
    reach = 1.0

    def first_mass(t: float) -> float:
        return -math.expm1(t - reach) / -math.expm1(-reach)

    def last(y: float) -> float:
        return float(one_choice(reach)(np.array([y]))[0])

    def both(t: float) -> float:
        return first_mass(t) * last(x - t) + (1 - first_mass(t)) * last(x - t + reach)

    searched = max(both(t) for t in np.linspace(0, reach, 4001))
    assert searched - 1e-12 <= at(losses_of(reach, 2, 64), x) <= searched + 2e-4
    assert searched - 1e-12 <= at(losses_of(reach, 2), x) <= searched + 2e-3


@pytest.mark.parametrize("reach", [0.1, 1.0, 5.0])
def test_one_choice_is_the_worst_of_all_pairs_of_two_outcomes(reach: float) -> None:
    for x in np.linspace(-reach, reach, 9)[1:-1]:

        def negative(t: float) -> float:
            mass = (math.exp(-t) - math.exp(-reach)) / -math.expm1(-reach)
            return -max(0, mass * (math.exp(t) - math.exp(x)))  # noqa: B023

        exact = {"bounds": (0, reach), "method": "bounded", "options": {"xatol": 1e-12}}
        worst = -minimize_scalar(negative, **exact).fun
        assert float(one_choice(reach)(np.array([x]))[0]) == pytest.approx(worst, rel=1e-6)
        assert at(losses_of(reach, 1), x) == pytest.approx(worst, rel=5e-3, abs=1e-6)


@pytest.mark.quick("rate0")
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 300)])
def test_a_sample_costs_what_the_theorem_of_amplification_says(rate: Fraction) -> None:
    """ln(1 + q (e^eps - 1)) at q delta: of a row that comes that is exact, and it bounds one that
    goes.
    """
    losses = losses_of(0.3, 50)
    before = brentq(lambda x: at(losses, x) - DELTA / float(rate), 0, losses.end)
    expected = math.log1p(float(rate) * math.expm1(before))
    sampled = epsilon_of(poisson_sampled(rate, repeated(choice(0.3), 50)))
    assert sampled == pytest.approx(expected, rel=2e-3)
    comes, goes = losses.sampled(float(rate))
    places = np.linspace(0.01, expected, 20)
    assert (goes(places) <= comes(places) + 1e-12).all()
    mirrored = -np.expm1(places) + np.exp(places) * comes(-places)
    assert goes(places) == pytest.approx(mirrored, abs=1e-9)


def test_a_replaced_row_has_twice_the_range_and_no_sample_is_priced() -> None:
    tokens = repeated(choice(0.2), 30)
    twice = repeated(choice(0.4, REPLACE), 30)
    assert epsilon_of(tokens, neighbours=REPLACE) == epsilon_of(twice, neighbours=REPLACE)
    with pytest.raises(PrivacyError, match="is not priced under replace-one"):
        epsilon_of(poisson_sampled(Fraction(1, 2), tokens), neighbours=REPLACE)


@pytest.mark.parametrize("rate", [None, Fraction(1, 2), Fraction(1, 100)])
def test_renyi_curves_bound_the_moments_and_the_filter_adds_them_up(rate: Fraction | None) -> None:
    """Randomised response is one such sequence; sampled or not its moments are no larger. Two
    releases fit one filter.
    """
    tokens = repeated(choice(0.3), 40)
    event = tokens if rate is None else poisson_sampled(rate, tokens)
    curve, q = curve_of(event, ADD), float(rate or 1)
    hits = np.arange(41)
    p = 1 / (1 + math.exp(0.15))
    masses = comb(40, hits) * p**hits * (1 - p) ** (40 - hits)
    ratios = np.log1p(q * np.expm1((2 * hits - 40) * 0.15))
    for order, bound in zip(ORDERS, curve.renyi, strict=True):
        if order <= 16:
            moments = [math.log(masses @ np.exp(power * ratios)) for power in (order, 1 - order)]
            most = 40 * min(order * 0.09 / 8, 0.3)
            assert max(moments) / (order - 1) <= bound <= most * (1 + 1e-8)
    one = price(event, neighbours=ADD, unit="row", delta=DELTA)
    check(one)
    spent = Spent.nothing().plus(one)
    twice, thrice = (compose([one] * count, delta=DELTA).epsilon for count in (2, 3))
    assert spent.cost(DELTA).epsilon == one.epsilon < spent.plus(one).cost(DELTA).epsilon
    assert one.epsilon < twice < min(thrice, 2 * one.epsilon)
    assert twice <= spent.plus(one).cost(DELTA).epsilon


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.6])
@pytest.mark.parametrize(("reach", "count"), [(0.1, 20), (1.5, 1), (2.0, 3)])
def test_sampled_curves_lie_above_what_any_curve_is(reach: float, count: int, rate: float) -> None:
    """A hockey-stick divergence is at least 1 - e^x, and falls by at most e^x a step: else masses
    of a pair do not sum to 1.
    """
    places = np.linspace(-1.2 * reach * count, 1.2 * reach * count, 801)
    for curve in losses_of(reach, count).sampled(rate):
        values = curve(places)
        assert (values >= np.maximum(0, -np.expm1(places)) - 1e-12).all() and (values <= 1).all()
        slopes = np.diff(values) / np.diff(np.exp(places))
        assert (slopes >= -1 - 1e-9).all() and (slopes <= 1e-12).all()


@pytest.mark.parametrize(
    ("reach", "rate", "count", "releases"),
    [(0.1, 0.05, 20, 10), (0.1, 0.2, 20, 10), (1.5, 0.05, 1, 50)],
)
def test_many_sampled_releases_cost_no_less_than_a_mechanism_that_is_composed_exactly(
    reach: float, rate: float, count: int, releases: int
) -> None:
    """What an account adds up, against a lower bound of the delta of choices between two outcomes
    each, sampled, by convolution.
    """
    event = poisson_sampled(Fraction(rate), repeated(choice(reach), count))
    release = price(event, neighbours=ADD, unit="row", delta=DELTA)
    spent = reduce(Spent.plus, [release] * releases, Spent.nothing())
    epsilon = spent.cost(DELTA).epsilon
    assert epsilon <= releases * release.epsilon * (1 + 1e-9)
    worst = max(
        _composed(reach, rate, count, releases, epsilon, share)
        for share in np.linspace(0.1, 0.9, 9)
    )
    assert 0 < worst <= DELTA * 1.001


def _composed(
    reach: float, rate: float, count: int, releases: int, epsilon: float, share: float
) -> float:
    """Losses are rounded down to a grid, so that delta is never more than it is."""
    t, step = share * reach, 1e-4
    chance = math.expm1(t - reach) / math.expm1(-reach)
    firsts = np.arange(count + 1)
    own = comb(count, firsts) * chance**firsts * (1 - chance) ** (count - firsts)
    other = own * np.exp(-(firsts * t + (count - firsts) * (t - reach)))
    mixed = rate * own + (1 - rate) * other
    places = np.floor(np.log(mixed / other) / step).astype(int)
    mass = np.zeros(np.ptp(places) + 1)
    np.add.at(mass, places - places.min(), mixed)
    length = releases * (len(mass) - 1) + 1
    size = 1 << (length - 1).bit_length()
    together = np.maximum(np.fft.irfft(np.fft.rfft(mass, size) ** releases, size)[:length], 0)
    losses = (places.min() * releases + np.arange(length)) * step
    return float((together * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)).sum())
