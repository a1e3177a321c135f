"""Poisson subsampling: rows enter one by one at the stated rate, rounded against us."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpicl.errors import ParameterError
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.randomness import stream
from tests.library.examples import EveryWord


def test_rate_one_keeps_every_row() -> None:
    assert poisson_subsample(
        5, sampling_rate=Fraction(1), stream=stream(0, "test", "", "")
    ).tolist() == [0, 1, 2, 3, 4]


def test_positions_rise_and_stay_in_the_table() -> None:
    kept = poisson_subsample(10_000, sampling_rate=Fraction(1, 3), stream=stream(0, "test", "", ""))
    assert (np.diff(kept) > 0).all() and kept.min() >= 0 and kept.max() < 10_000


def test_a_table_without_rows_gives_a_sample_without_rows() -> None:
    assert (
        len(poisson_subsample(0, sampling_rate=Fraction(1, 3), stream=stream(0, "test", "", "")))
        == 0
    )


def test_the_same_stream_keeps_the_same_rows_and_another_others() -> None:
    one, same, other = (
        poisson_subsample(200, sampling_rate=Fraction(1, 2), stream=stream(seed, "test", "", ""))
        for seed in (0, 0, 1)
    )
    assert one.tolist() == same.tolist() != other.tolist()


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
        poisson_subsample(5, sampling_rate=rate, stream=stream(0, "test", "", ""))
