"""Rényi curves against dp-accounting where it has them, against integrals where it has not, and
against our own PLD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import integrate
from scipy.stats import binom, norm

from dpicl.accounting import renyi
from dpicl.accounting.accountant import price
from dpicl.accounting.events import (
    approximate,
    gaussian,
    parallel,
    poisson_sampled,
    pure,
    repeated,
    sequential,
)
from dpicl.accounting.filters import Spent, mixture_epsilon
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.accounting.pure import discrete_gaussian
from dpicl.accounting.renyi import ORDERS, curve_of, log_moment

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
CLOSE, ROUNDING = 4e-3, 1e-6
"""How far above the truth a curve may lie, and how far below it an oracle's own rounding may put
it.
"""
SAMPLED = [(1e-5, 0.5), (0.01, 2.0), (0.1, 1.0), (0.95, 1.5)]
QUICK = [(1.25, SAMPLED[2]), (6.0, SAMPLED[0]), (6.0, SAMPLED[3])]
Density = Callable[[float], float]


def at(event: Event, order: float, neighbours: Neighbours) -> float:
    return curve_of(event, neighbours).renyi[ORDERS.index(order)]


def divergence(order: float, upper: Density, lower: Density, reach: float) -> float:
    """By adaptive quadrature of f(r), whose integral is the moment less one; logarithms of
    densities.
    """

    def part(x: float) -> float:
        loss = upper(x) - lower(x)
        base = lower(x)
        if order * loss > 30:
            return math.exp(base + order * loss)
        return math.exp(base) * (math.expm1(order * loss) - order * math.expm1(loss))

    pieces = np.linspace(-reach, reach, 61)
    total = sum(
        integrate.quad(part, low, high, epsabs=0, epsrel=1e-8, limit=200)[0]
        for low, high in zip(pieces[:-1], pieces[1:], strict=True)
    )
    return math.log1p(total) / (order - 1)


def mixture(rate: float, mean: float) -> Density:
    return lambda x: float(
        np.logaddexp(math.log1p(-rate) + norm.logpdf(x), math.log(rate) + norm.logpdf(x, mean))
    )


@pytest.mark.quick("0.95-1.5")
@pytest.mark.parametrize(("rate", "ratio"), SAMPLED)
def test_sampled_gaussians_agree_with_dp_accounting_under_add_or_remove(
    rate: float, ratio: float
) -> None:
    """At whole orders; at others dp-accounting is an upper bound, or gives up."""
    whole = [order for order in ORDERS if order == int(order) and order <= 256]
    accountant = RdpAccountant(whole)
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(1 / ratio)))
    event = poisson_sampled(Fraction(rate), gaussian(sigma=1 / ratio))
    for order, theirs in zip(whole, accountant._rdp, strict=True):
        assert theirs * (1 - ROUNDING) <= at(event, order, ADD) <= theirs * (1 + CLOSE)


@pytest.mark.quick("6.0-1e-05-0.5")
@pytest.mark.parametrize(
    ("order", "rate", "ratio"),
    [
        pytest.param(
            order, *sampled, marks=() if (order, sampled) in QUICK else pytest.mark.exhaustive
        )
        for order in (1.25, 6.0)
        for sampled in SAMPLED
    ],
)
def test_sampled_gaussians_agree_with_integrals_under_both_relations(
    rate: float, ratio: float, order: float
) -> None:
    event = poisson_sampled(Fraction(rate), gaussian(sigma=1 / ratio))
    reach = 2 * order * ratio + 16
    replaced = divergence(order, mixture(rate, ratio), mixture(rate, -ratio), reach)
    added = max(
        divergence(order, *pair, reach)
        for pair in ((mixture(rate, ratio), norm.logpdf), (norm.logpdf, mixture(rate, ratio)))
    )
    assert replaced * (1 - ROUNDING) <= at(event, order, REPLACE) <= replaced * (1 + CLOSE)
    assert added * (1 - ROUNDING) <= at(event, order, ADD) <= added * (1 + CLOSE)


def test_a_sample_of_everyone_costs_what_no_sample_does() -> None:
    plain = gaussian(sigma=2.0)
    for neighbours in (ADD, REPLACE):
        assert curve_of(poisson_sampled(1, plain), neighbours) == curve_of(plain, neighbours)
    for means in ((0.0, -0.5), (0.5, 0.0)):
        moment = log_moment(4.0, *(((1.0, mean),) for mean in means))
        assert moment == pytest.approx(4 * 3 * 0.5**2 / 2, rel=CLOSE)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("length", [0.3, 1.0])
def test_no_two_rows_of_the_plane_are_farther_apart_than_opposite_ones(
    angle: float, length: float
) -> None:
    """The claim that (5) dominates: rows v and v' in any directions, v' of any length."""
    rate, order, ratio = 0.2, 4.0, 1.2
    line = np.linspace(-14, 20, 681)
    places = line + 1j * line[:, np.newaxis]

    def log_density(mean: complex) -> np.ndarray:
        near, far = (-(np.abs(places - there) ** 2) / 2 for there in (mean, 0))
        mixed = np.logaddexp(math.log(rate) + near, math.log1p(-rate) + far)
        return mixed - math.log(2 * math.pi)

    one, other = log_density(ratio), log_density(-length * ratio * np.exp(1j * angle))
    bound = at(poisson_sampled(Fraction(rate), gaussian(sigma=1 / ratio)), order, REPLACE)
    for upper, lower in ((one, other), (other, one)):
        moment = np.exp(order * upper + (1 - order) * lower).sum() * (line[1] - line[0]) ** 2
        assert math.log(moment) / (order - 1) <= bound * (1 + 1e-9)


def test_a_coarse_grid_gives_a_larger_bound_and_never_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = ((0.9, 0.0), (0.1, 1.0)), ((0.9, 0.0), (0.1, -1.0))
    fine = log_moment(6.0, *pair)
    for step in (0.2, 0.7, 2.0, 9.0):
        monkeypatch.setattr(renyi, "_STEP", step)
        assert log_moment(6.0, *pair) > fine * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 2.0, 30.0])
def test_pure_curves_are_those_of_randomised_response(epsilon: float) -> None:
    for order in (1.5, 4.0, 64.0):
        logs = -np.logaddexp(0, [-epsilon, epsilon])
        moment = np.logaddexp.reduce(order * logs + (1 - order) * logs[::-1])
        exact, found = moment / (order - 1), at(pure(epsilon), order, REPLACE)
        assert exact * (1 - 1e-9) - 1e-15 <= found <= epsilon * (1 + 1e-6)
        assert epsilon < 1e-3 or found == pytest.approx(exact, rel=1e-6)


def test_a_sampled_pure_event_costs_less_than_its_amplified_epsilon_says() -> None:
    """Two points, sampled; and through `approximate`, the same curve with the deltas sampled
    too.
    """
    rate, epsilon = Fraction(1, 100), 1.0
    first, second = (np.exp([one, other]) / (1 + math.e) for one, other in ((1, 0), (0, 1)))
    mixed = float(rate) * first + (1 - float(rate)) * second
    order = 8.0
    exact = max(
        math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        for p, q in ((mixed, second), (second, mixed))
    )
    assert at(poisson_sampled(rate, pure(epsilon)), order, ADD) == pytest.approx(exact, rel=1e-6)
    amplified = math.log1p(float(rate) * math.expm1(epsilon))
    assert at(pure(amplified), order, ADD) > 2 * exact
    curve = curve_of(repeated(poisson_sampled(rate, approximate(epsilon, 1e-6)), 7), ADD)
    assert curve.renyi[ORDERS.index(order)] == pytest.approx(7 * exact, rel=1e-6)
    assert curve.delta == 7 * rate * Fraction(1e-6)


@pytest.mark.parametrize(
    ("variance", "squares"), [(Fraction(1, 4), 1), (Fraction(3), 4), (Fraction(40), 9)]
)
def test_discrete_gaussians_stay_below_their_bound(variance: Fraction, squares: int) -> None:
    places, shift = np.arange(-400, 401), math.isqrt(squares)
    for order in (1.5, 3.0, 16.0):
        upper, lower = (-((places - mean) ** 2) / (2 * float(variance)) for mean in (shift, 0))
        normaliser = np.logaddexp.reduce(lower)
        moment = np.logaddexp.reduce(order * upper + (1 - order) * lower) - normaliser
        exact = moment / (order - 1)
        event = discrete_gaussian(variance=variance, squared_sensitivity=squares, neighbours=ADD)
        assert exact * (1 - 1e-9) <= at(event, order, ADD) <= exact * 1.05 + 0.02
        assert at(event, order, REPLACE) == pytest.approx(4 * at(event, order, ADD))


def test_groups_sequences_and_disjoint_rows_are_what_their_parts_make_of_them() -> None:
    whole = sequential([pure(0.3), pure(0.5)])
    for event, neighbours, epsilons in (
        (whole, ADD, (0.3, 0.5)),
        (Event("replaced", parts=(whole,)), REPLACE, (0.6, 1.0)),
        (Event("grouped", (("rows", 2),), (whole,)), ADD, (0.6, 1.0)),
    ):
        summed = np.sum([curve_of(pure(one), neighbours).renyi for one in epsilons], axis=0)
        assert curve_of(event, neighbours).renyi == pytest.approx(summed)
    low, high = gaussian(sigma=3.0), gaussian(sigma=2.0)
    assert curve_of(parallel([low, high]), ADD) == curve_of(high, ADD)


STEP = poisson_sampled(Fraction(80, 1561), gaussian(sigma=1.29))
COMPOSITIONS = [
    (sequential([gaussian(sigma=2.0)]), ADD, 1.3),
    (sequential([gaussian(sigma=2.0), gaussian(sigma=5.0)]), REPLACE, 1.3),
    (repeated(STEP, 80), ADD, 1.5),
    (repeated(STEP, 320), REPLACE, 1.4),
    (repeated(poisson_sampled(Fraction(20, 30000), gaussian(sigma=0.41)), 100), ADD, 2.0),
    (sequential([STEP, approximate(0.4, 1e-8), pure(0.3)]), ADD, 1.7),
    (discrete_gaussian(variance=Fraction(9), squared_sensitivity=4, neighbours=ADD), ADD, 1.4),
    (
        repeated(
            poisson_sampled(
                Fraction(1, 10),
                discrete_gaussian(variance=Fraction(400), squared_sensitivity=100, neighbours=ADD),
            ),
            50,
        ),
        REPLACE,
        1.4,
    ),
    (parallel([repeated(STEP, 10), gaussian(sigma=1.5)]), ADD, 1.4),
]


@pytest.mark.quick("event0-add-or-remove-one-1.3", "event1-replace-one-1.3")
@pytest.mark.parametrize(("event", "neighbours", "most"), COMPOSITIONS)
def test_the_filter_never_says_less_than_pld_and_not_much_more(
    event: Event, neighbours: Neighbours, most: float
) -> None:
    delta = 1e-5
    exact = price(event, neighbours=neighbours, unit="row", delta=delta).epsilon
    stated = Guarantee(exact, delta, neighbours, "row", event)
    once = Spent.nothing().plus(stated)
    assert exact <= mixture_epsilon(once.renyi, once.delta, delta) <= most * exact
    twice = price(repeated(event, 2), neighbours=neighbours, unit="row", delta=delta).epsilon
    assert twice <= once.plus(stated).cost(delta).epsilon


def test_sampled_pure_steps_cost_more_than_their_exact_law_and_may_cost_less_than_pld_of_the_amplified_epsilon() -> (  # noqa: E501
    None
):
    """Sixty answers to a secret twentieth: losses are binomial, so the delta of an epsilon is a
    finite sum.
    """
    rate, epsilon, count, delta = Fraction(1, 20), 0.5, 60, 1e-5
    event = repeated(poisson_sampled(rate, approximate(epsilon, 0.0)), count)
    once = Spent.nothing().plus(Guarantee(1.0, delta, ADD, "row", event))
    ours = mixture_epsilon(once.renyi, once.delta, delta)
    ratios = np.log1p(float(rate) * np.expm1([epsilon, -epsilon]))
    low, highs = 1 / (1 + math.exp(epsilon)), np.arange(count + 1)

    def exact_delta(at_epsilon: float, sign: int) -> float:
        losses = sign * (highs * ratios[0] + (count - highs) * ratios[1])
        chance = binom.pmf(highs, count, low * np.exp(ratios[0]) if sign == 1 else low)
        return float((chance * np.maximum(0, -np.expm1(at_epsilon - losses))).sum())

    assert max(exact_delta(ours, 1), exact_delta(ours, -1)) <= delta
    assert exact_delta(0.5 * ours, 1) > delta
    assert ours < price(event, neighbours=ADD, unit="row", delta=delta).epsilon
