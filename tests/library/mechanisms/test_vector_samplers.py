"""Samplers of many at once: walking through all outcomes of the bits gives the stated
probabilities.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.samplers import (
    _bernoulli_exps_of_wholes,
    bernoulli_exps,
    discrete_gaussians,
    uniforms,
    uniforms_below,
)
from tests.library.examples import exact_law, seeded
from tests.library.mechanisms.test_samplers import ONES, Words, exponential


class ShortWords(Stream):
    """Words that are uniform in their first bits and zero in the others, drawn from a stream that
    can be walked.
    """

    def __init__(self, draws: Stream, bits: int) -> None:
        super().__init__(bytes(32), simulated=True)
        self._draws, self._bits = draws, bits

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        drawn = [self._draws.below(1 << self._bits) for _ in range(count)]
        return np.array(drawn, dtype=dtype) << dtype(64 - self._bits)

    def below(self, bound: int) -> int:
        return self._draws.below(bound)


@pytest.mark.quick("0-1-2", "0-1-1", "1-2-1", "1-7-2", "1-2-2", "1-7-1", "2-3-1")
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 2), (2, 3), (1, 7), (3, 5), (7, 8)]
)
def test_a_coin_has_probability_e_to_the_minus_x_whatever_the_length_of_words(
    numerator: int, denominator: int, bits: int
) -> None:
    """Short words tie often, so that the exact draw after a tie is walked too."""

    def toss(draws: Stream) -> bool:
        words = ShortWords(draws, bits)
        return bool(bernoulli_exps([numerator], denominator, words, bits=bits)[0])

    law, missing = exact_law(toss, Fraction(1, 10**5))
    low, chance = float(law[True]), math.exp(-numerator / denominator)
    assert low - 1e-15 <= chance <= low + missing + 1e-15 and missing < Fraction(1, 8)


@pytest.mark.parametrize("whole", [1, 2, 7, 44, 45, 46, 10**30])
def test_e_to_a_whole_number_is_compared_digit_by_digit(whole: int) -> None:
    """A uniform number is below e^-n where its first 64 binary digits are, or are the same and the
    next 64 are.
    """
    power = exponential(Fraction(whole))[0] if whole < 100 else None
    first, both = (0, 0) if power is None else (int((1 << digits) / power) for digits in (64, 128))
    second = both % (1 << 64)
    for words, below in (
        ([first - 1], True),
        ([first, second - 1], True),
        ([first, second + 1], False),
        ([first + 1], False),
    ):
        if min(words) >= 0:
            (drawn,) = _bernoulli_exps_of_wholes(np.array([whole], dtype=object), Words(*words))
            assert drawn == below


def test_coins_of_several_exponents_take_a_word_each_and_ties_more() -> None:
    ties = [int((1 << 64) / exponential(Fraction(whole))[0]) for whole in (1, 3)]
    drawn = _bernoulli_exps_of_wholes(np.array([1, 2, 3]), Words(ties[0], 0, ties[1], ONES, 0))
    assert drawn.tolist() == [False, True, True]


def test_coins_are_tossed_each_with_its_own_exponent() -> None:
    draws, exponents = seeded(), [0, 1, 5, 14, 40, 10**30]
    tossed = np.array([bernoulli_exps(exponents, 10, draws) for _ in range(3000)]).mean(axis=0)
    for share, exponent in zip(tossed, exponents, strict=True):
        chance = math.exp(-exponent / 10)
        assert abs(share - chance) <= 5 * math.sqrt(chance * (1 - chance) / 3000)


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8])
def test_uniform_numbers_meet_every_word_once(bound: int) -> None:
    """All words in order, then zeros: each number below the bound comes once before any comes
    again.
    """

    class Turn(Stream):
        def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
            bits = (bound - 1).bit_length()
            return np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)

    assert [*uniforms(bound, bound, Turn(bytes(32), simulated=True))] == [*range(bound)]


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(2**80 + 1)])
def test_a_variance_out_of_range_is_refused(variance: Fraction) -> None:
    with pytest.raises(ParameterError, match=r"expected a positive rational, at most 2\^80"):
        discrete_gaussians(variance, 1, seeded())


def test_bounds_of_any_size_are_met_each_uniformly() -> None:
    bounds = np.array([1, 2, 3, 1000, 1 << 62])
    drawn = uniforms_below(bounds, 6000, seeded())
    assert drawn.shape == (5, 6000) and (drawn >= 0).all() and (drawn < bounds[:, np.newaxis]).all()
    assert np.abs(np.bincount(drawn[2]) / 6000 - 1 / 3).max() < 0.03
    assert abs(drawn[4].mean() / (1 << 61) - 1) < 0.03
