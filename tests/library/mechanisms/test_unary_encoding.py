"""Unary encoding: an exact weight within epsilon, bits that follow it, refusals without values."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpicl.accounting import accountant
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import DataError, ParameterError, PrivacyError
from dpicl.mechanisms.unary_encoding import report, unary
from tests.library.examples import seeded


@given(st.floats(-6, 2.8), st.integers(2, 1 << 16))
def test_the_weight_is_the_least_within_epsilon(exponent: float, categories: int) -> None:
    epsilon = 10**exponent
    law = unary(epsilon=epsilon, categories=categories)
    with localcontext() as context:
        context.prec = 60
        odds = Decimal(epsilon).exp()
        assert Decimal(2**32 - law.weight) <= odds * law.weight
        assert law.weight == 1 or Decimal(2**32 - (law.weight - 3)) > odds * (law.weight - 3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_report_of_four_categories_tells_more_than_epsilon(epsilon: float) -> None:
    """All sixteen reports, exactly: the oracle of the stated cost."""
    law = unary(epsilon=epsilon, categories=4)

    def likelihood(bits: tuple[int, ...], truth: int) -> float:
        chances = np.where(np.arange(4) == truth, 0.5, law.lie_probability)
        return np.where(bits, chances, 1 - chances).prod()

    worst = max(
        math.log(likelihood(bits, one) / likelihood(bits, other))
        for bits in product((0, 1), repeat=4)
        for one, other in ((0, 1), (2, 3))
    )
    assert worst == pytest.approx(law.epsilon) and law.epsilon <= epsilon


def test_the_guarantee_is_priced_by_the_accountant() -> None:
    guarantee = unary(epsilon=1.0, categories=30).guarantee()
    accountant.check(guarantee)
    stated = (guarantee.neighbours, guarantee.unit, guarantee.delta)
    assert stated == (Neighbours.REPLACE_ONE, "client", 0)
    assert unary(epsilon=1.0, categories=1).guarantee().epsilon == 0


@pytest.mark.parametrize("truth", [0, 6])
def test_bits_follow_the_law_and_a_third_more_lies_would_show(truth: int) -> None:
    count, law = 20_000, unary(epsilon=1.0, categories=7)
    set_bits = report(np.full(count, truth), law, seeded()).sum(axis=0)
    for place, found in enumerate(set_bits.tolist()):
        chance = 0.5 if place == truth else law.lie_probability
        assert stats.binomtest(found, count, chance).pvalue > 1e-5
        assert stats.binomtest(found, count, min(1.3 * chance, 1)).pvalue < 1e-9


def test_codes_outside_the_domain_are_counted_and_not_shown() -> None:
    with pytest.raises(DataError) as caught:
        report(np.array([0, 77, -1]), unary(epsilon=1.0, categories=3), seeded())
    assert caught.value.details() == "unary encoding: code outside 0..2 (2 values)"


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_without_a_weight_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="expected a finite number > 0"):
        unary(epsilon=epsilon, categories=3)


def test_an_epsilon_that_says_nothing_and_a_domain_that_is_too_large_are_refused() -> None:
    with pytest.raises(PrivacyError, match="too small"):
        unary(epsilon=1e-12, categories=3)
    with pytest.raises(ParameterError, match="expected 1 to 65536"):
        unary(epsilon=1.0, categories=1 << 17)
