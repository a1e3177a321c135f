"""Noise found for a target: it costs at most that, hardly less, and a little less noise would cost
too much.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import (
    LEAST_SHARE,
    MOST_PURE_EPSILON,
    calibrate,
    calibrate_pure,
    rational_above,
    rational_below,
    subsampled_gaussian,
)
from dpicl.accounting.events import leaves, poisson_sampled, pure, repeated
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.accounting.pld import epsilon_on_one_grid
from dpicl.ground.errors import ParameterError, PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def calibrate_gaussian(
    *,
    sampling_rate: Fraction | float = 1,
    count: int = 1,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
) -> float:
    return calibrate(
        lambda sigma: subsampled_gaussian(sigma, sampling_rate, count),
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
    )


def cost(event: Event, neighbours: Neighbours, delta: float) -> float:
    return price(event, neighbours=neighbours, unit="row", delta=delta).epsilon


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """The curve of one Gaussian in closed form (Balle and Wang 2018, theorem 8)."""
    return float(
        norm.cdf(0.5 / sigma - epsilon * sigma)
        - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)
    )


@pytest.mark.quick(
    "rate0-15-4.0-0.0011976047904191617-replace-one", "1-7-0.05-1e-05-add-or-remove-one"
)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("rate", "count", "epsilon", "delta"),
    [
        (Fraction(80, 835), 15, 4.0, 1 / 835),
        (Fraction(20, 30_000), 100, 1.0, 1 / 30_000),
        (Fraction(1, 2), 3, 0.3, 1e-3),
        (0.01, 1, 12.0, 1e-6),
        (1, 7, 0.05, 1e-5),
    ],
)
def test_noise_costs_what_was_asked_for_and_a_hundredth_less_costs_more(
    neighbours: Neighbours, rate: Fraction | float, count: int, epsilon: float, delta: float
) -> None:
    sigma = calibrate_gaussian(
        sampling_rate=rate, count=count, epsilon=epsilon, delta=delta, neighbours=neighbours
    )
    stated, more = (
        cost(subsampled_gaussian(share * sigma, rate, count), neighbours, delta)
        for share in (1, 0.99)
    )
    assert LEAST_SHARE * epsilon <= stated <= epsilon < more


@settings(max_examples=6, derandomize=True)
@given(st.floats(-3, 4), st.floats(-9, -1), st.integers(1, 1000))
def test_without_sampling_it_is_the_gaussian_of_the_closed_form(
    log_epsilon: float, log_delta: float, count: int
) -> None:
    """`count` Gaussians of multiplier sigma are one of sigma / sqrt(count), and a replaced row
    moves twice as much.
    """
    epsilon, delta = math.exp(log_epsilon), 10**log_delta
    added, replaced = (
        calibrate_gaussian(count=count, epsilon=epsilon, delta=delta, neighbours=neighbours)
        for neighbours in (ADD, REPLACE)
    )
    one = added / math.sqrt(count)
    assert gaussian_delta(one, epsilon) <= delta * (1 + 1e-9)
    assert gaussian_delta(one, LEAST_SHARE * epsilon) > delta * (1 - 0.03)
    assert gaussian_delta(0.99 * one, epsilon) > delta
    assert replaced == pytest.approx(2 * added, rel=6e-3)


def test_one_grid_is_never_below_the_price_and_a_finer_one_is_nearer() -> None:
    """What the search reads before it asks for the price."""
    event = subsampled_gaussian(0.6, Fraction(1, 500), 100)
    priced = cost(event, ADD, 1e-5)
    coarse, fine = (
        epsilon_on_one_grid(leaves(event), ADD, 1e-5, share * priced) for share in (0.1, 0.01)
    )
    assert priced < fine < coarse < 1.2 * priced and fine < 1.01 * priced


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilon": 0}, "epsilon=0: expected a number in \\(0, 10000\\]"),
        ({"epsilon": 10_001.0}, "epsilon=10001.0: expected"),
        ({"epsilon": math.inf}, "epsilon=inf: expected"),
        ({"epsilon": math.nan}, "epsilon=nan: expected"),
        ({"delta": 0}, "delta=0: expected a number in"),
        ({"delta": 1.0}, "delta=1.0: expected"),
        ({"sampling_rate": 0}, "sampling_rate=0: expected a number in"),
        ({"sampling_rate": 1.01}, "sampling_rate=1.01: expected"),
        ({"count": 0}, "count=0: expected an integer >= 1"),
        ({"count": 2.5}, "count=2.5: expected"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, float], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        calibrate_gaussian(**{"epsilon": 1.0, "delta": 1e-5, "neighbours": ADD} | change)


@pytest.mark.quick(
    "change0-costs epsilon=5000 at delta=1e-05; expected a smaller epsilon or delta",
    "change2-costs epsilon=1 at delta=1e-05; expected a larger epsilon or delta",
)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"epsilon": 5000.0},
            "costs epsilon=5000 at delta=1e-05; expected a smaller epsilon or delta",
        ),
        (
            {"sampling_rate": 1e-3, "delta": 0.01},
            "costs epsilon=1 at delta=0.01; expected a smaller epsilon or delta",
        ),
        ({"count": 10**15}, "costs epsilon=1 at delta=1e-05; expected a larger epsilon or delta"),
    ],
)
def test_a_target_that_no_noise_meets_is_refused(change: dict[str, float], told: str) -> None:
    with pytest.raises(PrivacyError, match=told):
        calibrate_gaussian(**{"epsilon": 1.0, "delta": 1e-5, "neighbours": ADD} | change)  # type: ignore[arg-type]


def steps_cost(one: Fraction, rate: Fraction, count: int) -> Decimal:
    """count ln(1 + q (e^one - 1)) with eighty digits."""
    exponent, share = (Decimal(part.numerator) / Decimal(part.denominator) for part in (one, rate))
    return count * (1 + share * (exponent.exp() - 1)).ln()


@given(
    st.floats(-12, math.log10(MOST_PURE_EPSILON)).map(lambda place: 10**place),
    st.floats(-9, 0).map(lambda place: Fraction(10**place)),
    st.integers(1, 10**6),
)
def test_pure_steps_together_cost_at_most_the_target_and_one_last_place_more_costs_more(
    epsilon: float, rate: Fraction, count: int
) -> None:
    one = calibrate_pure(epsilon, rate, count)
    exact, digits = Fraction(one), Fraction(2) ** (math.frexp(one)[1] - 24)
    with localcontext() as context:
        context.prec, context.Emax = 80, 10**6
        stated, more = (steps_cost(exact + by, rate, count) for by in (0, 2 * digits))
        assert stated <= Decimal(epsilon) < more
    steps = repeated(poisson_sampled(rate, pure(one)), count)
    assert price(steps, neighbours=ADD, unit="row").epsilon <= epsilon


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ((0, 0.5, 2), "epsilon=0"),
        ((math.inf, 0.5, 2), "epsilon=inf"),
        ((501.0, 0.5, 2), "in \\(0, 500\\]"),
        ((1.0, 0, 2), "sampling_rate=0"),
        ((1.0, math.nan, 2), "sampling_rate=nan"),
        ((1.0, 0.5, 0), "count=0"),
    ],
)
def test_pure_parameters_out_of_range_are_refused(
    parameters: tuple[float, float, int], told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        calibrate_pure(*parameters)


@given(st.floats(1e-12, 1e12))
def test_fractions_round_against_us_by_less_than_their_last_place(value: float) -> None:
    low, high = rational_below(value), rational_above(value)
    assert low <= Fraction(value) <= high and high - low <= Fraction(value) / 2**23
    assert Fraction(float(low)) == low and Fraction(float(high)) == high
    assert max(low.denominator, high.denominator) <= 2 ** max(0, 24 - math.frexp(value)[1])
