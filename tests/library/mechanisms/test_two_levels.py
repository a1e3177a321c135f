"""Two levels of noise: every law by enumeration of all permanent answers, and of all sendings where
there are few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpicl.accounting import accountant
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.two_levels import TwoLevels, send, two_levels
from dpicl.mechanisms.unary_encoding import Unary, report, unary
from tests.library.examples import seeded

EPSILONS = st.tuples(st.floats(0.2, 6), st.floats(0.1, 0.9)).map(
    lambda pair: (pair[0], pair[0] * pair[1])
)


def chances(law: Response) -> np.ndarray:
    """The chance of each report given each truth: shape (truths, reports), Fractions."""
    cells = range(law.categories)
    return np.array(
        [[Fraction(law.keep if x == y else law.lie, 1 << law.bits) for y in cells] for x in cells]
    )


def bit_chances(law: Unary, truth: int) -> list[Fraction]:
    """The chance of every bit to be set."""
    return [
        Fraction(1, 2) if place == truth else Fraction(law.weight, law.total)
        for place in range(law.categories)
    ]


def of(law: Any, categories: int, epsilons: tuple[float, float]) -> TwoLevels:
    """A permanent answer of the first epsilon, and its sendings of the second."""
    return two_levels(law(epsilon=epsilons[0], categories=categories), epsilon=epsilons[1])


@given(EPSILONS, st.integers(2, 12))
def test_one_sending_given_the_truth_is_a_response_that_is_exactly_the_sum_over_permanent_answers(
    epsilons: tuple[float, float], categories: int
) -> None:
    levels = of(response, categories, epsilons)
    exact = chances(levels.permanent) @ chances(levels.sending)
    assert (exact == chances(levels.sent)).all() and (exact.sum(axis=1) == 1).all()
    assert 0.99 * epsilons[1] < levels.sent.epsilon <= epsilons[1]


@given(EPSILONS, st.integers(2, 12))
def test_bits_that_are_flipped_anew_are_unary_encoded_exactly(
    epsilons: tuple[float, float], categories: int
) -> None:
    levels = of(unary, categories, epsilons)
    keep = Fraction(levels.sending.keep, 1 << levels.sending.bits)
    flipped = [bit * keep + (1 - bit) * (1 - keep) for bit in bit_chances(levels.permanent, 1)]
    assert flipped == bit_chances(levels.sent, 1)
    assert 0.99 * epsilons[1] < levels.sent.epsilon <= epsilons[1]


def of_response(levels: TwoLevels, sendings: int) -> Iterator[float]:
    """ln of the ratio of every pair of truths, for all sendings together, by enumeration."""
    first, second = chances(levels.permanent), chances(levels.sending)
    for seen in product(range(levels.permanent.categories), repeat=sendings):
        likelihood = first @ np.prod([second[:, one] for one in seen], axis=0)
        yield math.log(likelihood.max() / likelihood.min())


def of_bits(levels: TwoLevels, sendings: int) -> Iterator[float]:
    """The same of bits, of which two truths share all but two: these two by enumeration."""
    keep = Fraction(levels.sending.keep, 1 << levels.sending.bits)

    def likelihood(seen: tuple[int, ...], set_: Fraction) -> Fraction:
        given_one, given_none = (
            math.prod(chance if bit else 1 - chance for bit in seen) for chance in (keep, 1 - keep)
        )
        return set_ * given_one + (1 - set_) * given_none

    own, other = Fraction(1, 2), Fraction(levels.permanent.weight, levels.permanent.total)
    for one, two in product(product((0, 1), repeat=sendings), repeat=2):
        yield math.log(
            (likelihood(one, own) * likelihood(two, other))
            / (likelihood(one, other) * likelihood(two, own))
        )


@settings(max_examples=25)
@given(EPSILONS, st.integers(2, 4), st.integers(1, 4))
def test_many_sendings_cost_what_their_worst_content_tells_and_never_more_than_the_permanent_answer(
    epsilons: tuple[float, float], categories: int, sendings: int
) -> None:
    for law, ratios in ((response, of_response), (unary, of_bits)):
        levels = of(law, categories, epsilons)
        assert levels.epsilon_of(sendings) == pytest.approx(max(ratios(levels, sendings)), rel=1e-9)
        assert levels.epsilon_of(1) == pytest.approx(levels.sent.epsilon, rel=1e-9)
        steps = [levels.epsilon_of(2**power) for power in range(30)]
        whole = levels.permanent.epsilon
        for one, other in pairwise([*steps, whole]):
            assert one <= other * (1 + 1e-12)
        assert steps[-1] == pytest.approx(whole)


def test_sendings_follow_the_law_and_change_while_the_permanent_answer_stays() -> None:
    count, levels = 40_000, of(response, 4, (2.0, 1.0))
    kept = randomise(np.full(count, 2), levels.permanent, seeded(0, "kept"))
    sent = [send(kept, levels.sending, seeded(time, "sent")) for time in range(2)]
    truth = levels.sent.truth_probability
    for one in sent:
        assert abs((one == 2).mean() - truth) < 5 * math.sqrt(truth / count)
    assert 0.2 < (sent[0] != sent[1]).mean() < 0.8
    law = of(unary, 5, (2.0, 1.0))
    bits = send(report(np.full(count, 3), law.permanent, seeded()), law.sending, seeded(1))
    assert bits.shape == (count, 5) and bits.dtype == np.bool_
    assert abs(bits[:, 3].mean() - 0.5) < 5 * math.sqrt(0.25 / count)
    assert abs(bits[:, 0].mean() - law.sent.lie_probability) < 0.02


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, 1.0, 2.0, math.inf])
def test_a_sending_tells_less_than_the_permanent_answer(epsilon: float) -> None:
    for law in (response(epsilon=1.0, categories=3), unary(epsilon=1.0, categories=3)):
        with pytest.raises(ParameterError, match="below the permanent answer's"):
            two_levels(law, epsilon=epsilon)


def test_a_law_of_two_levels_is_priced_and_is_never_drawn_at_once() -> None:
    for law, categories, draw in ((response, 300, randomise), (unary, 3, report)):
        sent = of(law, categories, (2.0, 1.0)).sent
        accountant.check(sent.guarantee())
        assert sent.guarantee().epsilon == sent.epsilon
        with pytest.raises(PrivacyError, match="level by level"):
            draw(np.zeros(3, dtype=np.int64), sent, seeded())


@given(EPSILONS, st.integers(2, 2000))
def test_any_sending_epsilon_below_the_permanent_one_has_its_law_or_is_refused(
    epsilons: tuple[float, float], categories: int
) -> None:
    assume(epsilons[1] < response(epsilon=epsilons[0], categories=categories).epsilon)
    try:
        assert of(response, categories, epsilons).sent.epsilon <= epsilons[1]
    except PrivacyError as error:
        assert "too small" in str(error)
