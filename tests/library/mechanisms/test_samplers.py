"""Exact samplers: the bits' outcomes have the stated probabilities, whatever word decides."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms import samplers
from dpicl.mechanisms.samplers import discrete_laplaces
from tests.library.examples import seeded

ONES = 2**64 - 1


class Words(Stream):
    """Gives these words of 64 bits, then ones."""

    def __init__(self, *words: int) -> None:
        super().__init__(bytes(32), simulated=True)
        self._words = list(words)

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        given, self._words = self._words[:count], self._words[count:]
        return np.array(given + [ONES] * (count - len(given)), dtype=dtype)


def exponential(rate: Fraction) -> tuple[Fraction, Fraction]:
    """Rational numbers on both sides of e^rate, 2^-300 apart or less: the series of e^(rate / 2^n),
    squared n times.
    """
    halvings = max(0, math.ceil(rate).bit_length())
    x, term, total, k = rate / 2**halvings, Fraction(1), Fraction(1), 0
    while term > Fraction(1, 2**600):
        k += 1
        term *= x / k
        total += term
    low = Fraction(math.floor(total * 2**600), 2**600)
    high = low + Fraction(1, 2**590)
    for _ in range(halvings):
        low, high = low * low, high * high
    return low, high


@pytest.mark.parametrize("plus", [0, 1])
@pytest.mark.parametrize(
    "rate",
    [
        Fraction(1),
        Fraction(1, 3),
        Fraction(1, 2**40),
        Fraction(181, 4),
        Fraction(1, 2**200),
        Fraction(0.15),
    ],
)
def test_leading_digits_are_those_of_the_real_probability(rate: Fraction, plus: int) -> None:
    for digits in (64, 128, 192):
        bounds = {(1 << digits) // (plus + power) for power in exponential(rate)}
        assert bounds == {samplers._leading(rate, plus, digits)}


@pytest.mark.parametrize(
    "scale", [Fraction(1), Fraction(1, 2), Fraction(7, 3), Fraction(1 / 0.15), Fraction(40)]
)
def test_digits_make_a_geometric_law(scale: Fraction) -> None:
    """The product of its digits' probabilities, first words for the rest, is each number's
    probability.
    """
    first, worths = samplers._first_words(scale)
    ones = [Fraction(int(word), 1 << 64) for word in first[:-1]]
    ratio = math.exp(-1 / scale)
    for number in range(min(60, 1 << len(worths))):
        bits = (one if number >> digit & 1 else 1 - one for digit, one in enumerate(ones))
        chance = math.prod(bits)
        assert float(chance) == pytest.approx((1 - ratio) * ratio**number, rel=1e-13, abs=1e-18)


def drawn(*words: int) -> int:
    """At scale 1 from these words."""
    (number,) = discrete_laplaces(Fraction(1), 1, Words(*words))
    return int(number)


def test_a_word_below_a_digit_s_first_word_makes_it_one() -> None:
    first, worths = samplers._first_words(Fraction(1))
    for digit, worth in enumerate(worths.tolist()):
        before, word = [ONES] * digit, int(first[digit])
        assert drawn(*before, word - 1) == worth
        assert drawn(*before, word + 1) == 0
        assert drawn(*[ONES] * len(first), *before, word - 1) == -worth


def test_equal_words_are_decided_by_the_next_ones() -> None:
    first, _ = samplers._first_words(Fraction(1))
    second, third = (samplers._leading(Fraction(1), 1, digits) % 2**64 for digits in (128, 192))
    equal = [int(first[0]), *[ONES] * (2 * len(first) - 1)]
    assert [drawn(*equal, second + by) for by in (-1, 1)] == [1, 0]
    assert [drawn(*equal, second, third + by) for by in (-1, 1)] == [1, 0]


def test_a_last_word_of_zeros_may_lead_beyond_the_digits() -> None:
    """At scale 1 six digits are drawn one by one; numbers from 64 on have a chance of e^-64."""
    first, worths = samplers._first_words(Fraction(1))
    assert len(worths) == 6
    next_word = samplers._leading(Fraction(64), 0, 128)
    zeros = [*[ONES] * 6, 0, *[ONES] * len(first)]
    assert drawn(*zeros, next_word + 1) == 0
    assert drawn(*zeros, next_word - 1, 1) == 64
    assert drawn(*zeros, next_word - 1, 0, next_word - 1, 1) == 128


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(-1, 10**9)])
def test_a_scale_that_is_not_positive_is_refused(scale: Fraction) -> None:
    with pytest.raises(ParameterError, match="expected a positive rational"):
        discrete_laplaces(scale, 1, seeded())
