"""Amplification by subsampling: the formula at every scale, the paper's table V, refusals."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import (
    Event,
    Guarantee,
    Neighbours,
    amplified_epsilon,
    amplify,
    epsilon_before,
)
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.methods.published import AmplifiedEpsilon, table_v

rates = st.one_of(st.floats(1e-15, 1), st.floats(-15, 0).map(lambda exponent: 10**exponent))
epsilons = st.one_of(st.floats(1e-12, 1e4), st.floats(-12, 4).map(lambda exponent: 10**exponent))


def _exact(epsilon: float, rate: float) -> Decimal:
    """ln(1 + q (e^epsilon - 1)) with sixty digits."""
    with localcontext() as context:
        context.prec, context.Emax = 60, 10**6
        return (1 + Decimal(rate) * (Decimal(epsilon).exp() - 1)).ln()


@pytest.mark.parametrize("cell", table_v(), ids=lambda cell: f"{cell.dataset}-{cell.epsilon:g}")
def test_table_v_as_corrected(cell: AmplifiedEpsilon) -> None:
    assert round(amplified_epsilon(cell.epsilon, cell.rate), 3) == cell.corrected


@given(epsilons, rates)
def test_what_is_charged_in_all_is_met_from_below_and_nearly(epsilon: float, rate: float) -> None:
    reached = amplified_epsilon(epsilon_before(epsilon, rate), rate)
    assert reached <= epsilon and reached == pytest.approx(epsilon, rel=1e-9)


@given(epsilons, rates)
def test_every_digit_is_right_from_tiny_to_huge(epsilon: float, rate: float) -> None:
    exact = float(_exact(epsilon, rate))
    assert amplified_epsilon(epsilon, rate) == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("rate", [1e-9, Fraction(1, 2), 1])
def test_the_ends(rate: float) -> None:
    assert amplified_epsilon(0, rate) == 0 and amplified_epsilon(math.inf, rate) == math.inf
    assert amplified_epsilon(math.pi, 1) == math.pi


@pytest.mark.parametrize(
    ("epsilon", "rate"),
    [
        *((1.0, rate) for rate in (0, -0.1, 1.0000001, math.nan, math.inf)),
        *((epsilon, 0.5) for epsilon in (-1e-9, math.nan, -math.inf)),
    ],
)
def test_what_is_outside_its_range_is_refused(epsilon: float, rate: float) -> None:
    with pytest.raises(ParameterError, match="sampling_rate=" if epsilon == 1 else "epsilon="):
        amplified_epsilon(epsilon, rate)


def _guarantee(neighbours: Neighbours) -> Guarantee:
    return Guarantee(1.0, 1e-6, neighbours, "row", Event("noise"))


def test_replace_one_is_refused() -> None:
    with pytest.raises(PrivacyError, match="add-or-remove-one neighbours only"):
        amplify(_guarantee(Neighbours.REPLACE_ONE), Fraction(1, 10))


def test_a_guarantee_is_amplified_with_its_rate_on_record() -> None:
    rate = Fraction(3016, 30162)
    whole = amplify(_guarantee(Neighbours.ADD_OR_REMOVE_ONE), rate)
    assert whole.epsilon == amplified_epsilon(1.0, rate)
    assert whole.delta == pytest.approx(1e-6 * float(rate))
    assert (whole.neighbours, whole.unit) == (Neighbours.ADD_OR_REMOVE_ONE, "row")
    assert whole.event.as_json() == {
        "kind": "poisson-sampled",
        "sampling_rate": "1508/15081",
        "parts": [{"kind": "noise"}],
    }
