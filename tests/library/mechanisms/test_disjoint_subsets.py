"""Disjoint subsets: the law of one row's place, and that rows do not depend on each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT, disjoint_subsets
from tests.library.examples import seeded

ROWS = 60_000


def test_a_row_takes_part_at_the_rate_and_falls_into_every_subset_alike() -> None:
    places = disjoint_subsets(
        ROWS, sampling_rate=Fraction(3, 10), subset_count=6, stream=seeded(0, "subsets")
    )
    assert places.min() == LEFT_OUT and places.max() == 5
    for rate, fits in ((0.3, True), (0.35, False)):  # a wrong rate would be noticed
        law = np.array([1 - rate, *[rate / 6] * 6])
        pvalue = stats.chisquare(np.bincount(places + 1, minlength=7), law * ROWS).pvalue
        assert (pvalue > 1e-4) == fits


def test_two_rows_are_independent() -> None:
    pairs = disjoint_subsets(
        ROWS, sampling_rate=Fraction(1, 2), subset_count=2, stream=seeded(1, "subsets")
    ).reshape(-1, 2)
    table = np.zeros((3, 3))
    np.add.at(table, (pairs[:, 0] + 1, pairs[:, 1] + 1), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize(
    ("rate", "count"), [(Fraction(0), 1), (Fraction(3, 2), 1), (Fraction(1, 2), 0)]
)
def test_rates_and_counts_out_of_range_are_refused(rate: Fraction, count: int) -> None:
    with pytest.raises(ParameterError, match="expected"):
        disjoint_subsets(10, sampling_rate=rate, subset_count=count, stream=seeded(0, ""))
