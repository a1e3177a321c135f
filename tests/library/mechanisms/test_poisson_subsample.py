"""Poisson subsampling: rows enter one by one at the stated rate, rounded against us."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from tests.library.examples import EveryWord, seeded


@pytest.mark.parametrize(("rows", "rate"), [(0, Fraction(1, 3)), (5, Fraction(1))])
def test_rate_one_keeps_every_row_and_of_none_there_is_no_sample(rows: int, rate: Fraction) -> None:
    kept = poisson_subsample(rows, sampling_rate=rate, stream=seeded())
    assert kept.tolist() == list(range(rows))


@pytest.mark.parametrize(
    "rate",
    [
        Fraction(1, 2),
        Fraction(1, 3),
        Fraction(3016, 30162),
        Fraction(1, 2**64),
        Fraction(2**64 - 1, 2**64),
    ],
)
def test_the_words_that_keep_a_row_are_those_below_the_rate(rate: Fraction) -> None:
    threshold = (rate.numerator << 64) // rate.denominator
    start = max(threshold - 3, 0)
    kept = poisson_subsample(6, sampling_rate=rate, stream=EveryWord(start))
    assert kept.tolist() == [row for row in range(6) if (start + row) % 2**64 < threshold]
    assert Fraction(threshold, 2**64) <= rate


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_rate_outside_its_range_is_refused(rate: Fraction) -> None:
    with pytest.raises(ParameterError, match="expected a number in"):
        poisson_subsample(5, sampling_rate=rate, stream=seeded())
