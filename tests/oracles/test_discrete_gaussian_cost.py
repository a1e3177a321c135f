"""The cost of discrete Gaussian noise against dp-accounting, and against direct sums over the
integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import softmax

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pld import epsilon_at
from dpicl.accounting.pure import discrete_gaussian
from dpicl.mechanisms.discrete_gaussian import guarantee
from lab.audit.noise import DELTA, EPSILON, SQUARES, VARIANCE

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def exact_delta(variance: float, shifts: tuple[int, ...], epsilon: float) -> float:
    """Hockey-stick divergence of noise around 0 and around `shifts`, summed over all whole outcomes
    within 13 sigma.
    """
    reach = math.ceil(13 * math.sqrt(variance)) + max(shifts)
    values = np.arange(-reach, reach + 1)

    def law(mean: int) -> np.ndarray:
        return softmax(-((values - mean) ** 2) / (2 * variance))

    here, there = np.ones(1), np.ones(1)
    for shift in shifts:
        here, there = np.kron(here, law(0)), np.kron(there, law(shift))
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(
    ("variance", "sensitivity", "delta"),
    [
        (1, 1, 1e-5),
        (4, 1, 1e-6),
        (9, 2, 1e-3),
        pytest.param(2500, 3, 1e-5, marks=pytest.mark.exhaustive),
    ],
)
def test_one_sum_costs_what_dp_accounting_says(
    variance: int, sensitivity: int, delta: float
) -> None:
    """Its other discretisation, privacy buckets; several sums that move together may cost a little
    more than one.
    """
    losses = pld.from_discrete_gaussian_mechanism(
        math.sqrt(variance), sensitivity, value_discretization_interval=1e-4
    )
    stated = guarantee(
        Fraction(variance), squared_sensitivity=sensitivity**2, neighbours=ADD, delta=delta
    ).epsilon
    oracle = losses.get_epsilon_for_delta(delta)
    assert oracle * (1 - 1e-3) <= stated <= oracle * (1.002 if sensitivity == 1 else 1.02)


@pytest.mark.parametrize(
    ("variance", "squares", "delta"),
    [
        (Fraction(4), 2, 1e-5),
        (Fraction(4), 2, 0.04),
        (Fraction(7, 3), 5, 1e-4),
        (Fraction(9), 1, 1e-3),
    ],
)
def test_no_shift_of_that_norm_costs_more_than_is_stated_and_one_reaches_it(
    variance: Fraction, squares: int, delta: float
) -> None:
    stated = guarantee(variance, squared_sensitivity=squares, neighbours=REPLACE, delta=delta)
    deltas = [
        exact_delta(float(variance), shifts, stated.epsilon)
        for shifts in product(range(4), repeat=3)
        if 0 < sum(shift**2 for shift in shifts) <= squares
    ]
    assert delta * (1 - 0.02) <= max(deltas) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("variance", [4.5, 5, 6, 12, 100])
@pytest.mark.parametrize("shifts", [(1,), (1, 1), (3,), (2, 1), (5,)])
def test_continuous_noise_of_variance_four_less_bounds_it(
    variance: float, shifts: tuple[int, ...]
) -> None:
    """The curve of the continuous Gaussian in closed form, at every epsilon."""
    norm = math.hypot(*shifts)
    ratio = norm / math.sqrt(variance - 4)
    for epsilon in np.linspace(0, 3 * norm * norm / variance + 12 * norm / math.sqrt(variance), 40):
        upper, lower = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
        bound = float(mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower))
        assert exact_delta(variance, shifts, epsilon) <= bound + 1e-13


def test_the_normaliser_of_scale_two_varies_as_little_as_stated() -> None:
    mpmath.mp.dps = 60
    flat = 2 * mpmath.sqrt(2 * mpmath.pi)
    for place in (0, mpmath.mpf(1) / 3, mpmath.mpf(1) / 2, mpmath.mpf(9) / 10):
        total = mpmath.fsum(mpmath.exp(-((z - place) ** 2) / 8) for z in range(-70, 71))
        assert abs(total / flat - 1) < mpmath.mpf("2e-34")


def test_the_audit_states_what_the_accountant_says() -> None:
    event = discrete_gaussian(variance=VARIANCE, squared_sensitivity=SQUARES, neighbours=REPLACE)
    priced, _ = epsilon_at(frozenset({(event, 1)}), REPLACE, DELTA)
    assert EPSILON * (1 - 1e-9) <= priced <= EPSILON * (1 + 2e-3)
