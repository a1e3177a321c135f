"""Sparse vector: what is told without noise, the law of the answers, and that many questions cost
no more than one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl.accounting.accountant import price
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms.sparse_vector import SparseVector
from tests.library.examples import seeded

ADD = Neighbours.ADD_OR_REMOVE_ONE
SCALE = 4.0
"""2 spread / epsilon of the vector below."""


def vector() -> SparseVector:
    return SparseVector(Fraction(3, 2), 3)


def law(scale: float, reach: int = 200) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


def log_ratio(sums: list[int], more: list[int], threshold: int) -> float:
    """ln of P[first yes at the last sum] with a row more, over that without: by summing over both
    noises, all but the last answer no.
    """

    def probability(totals: list[int]) -> float:
        noise, total = law(SCALE), 0.0
        below = np.cumsum(noise)
        for place, rho in enumerate(range(-200, 201)):
            shares = [below[min(max(threshold + rho - one - 1 + 200, 0), 400)] for one in totals]
            total += noise[place] * math.prod(1 - share for share in shares[:-1]) * shares[-1]
        return total

    return math.log(probability(more) / probability(sums))


@pytest.mark.parametrize("questions", [1, 3, 20])
def test_all_answers_together_cost_epsilon_however_many_there_are(questions: int) -> None:
    """Over where the row counts: all sums up by 3, all but the last, the last alone; both ways."""
    sums = [0] * questions
    for more in ([3] * questions, [3] * (questions - 1) + [0], [0] * (questions - 1) + [3]):
        for threshold in (-6, 0, 1, 9):
            assert abs(log_ratio(sums, more, threshold)) <= 1.5 + 1e-9
    if questions == 20:
        assert abs(log_ratio(sums, [3] * 19 + [0], 9)) > 0.8 * 1.5, "the bound is nearly reached"
        assert abs(log_ratio(sums, [4] * 19 + [0], 9)) > 1.5, "a larger movement would be noticed"


def test_the_noise_has_the_law_that_the_price_is_for() -> None:
    drawn = vector().threshold_noises(20_000, seeded(0, "sparse")).astype(np.int64)
    seen = np.array([(drawn == value).sum() for value in range(-12, 13)])

    def deviations(scale: float) -> float:
        expected = law(scale)[200 - 12 : 200 + 13] * len(drawn)
        return (np.abs(seen - expected) / np.sqrt(expected)).max()

    assert deviations(SCALE) < 5 and deviations(2 * SCALE) > 10


def test_a_sum_is_found_below_as_often_as_its_noise_says() -> None:
    """Against the law of the noise, for a threshold's noise of 2 and sums that lie 5 above, level
    and 5 below.
    """
    draws, noise = seeded(1, "sparse"), np.full(20_000, 2, dtype=object)
    below = np.cumsum(law(SCALE))
    for total in (15, 10, 5):
        seen = vector().are_below([total] * len(noise), 10, noise, draws).mean()
        assert seen == pytest.approx(below[12 - total - 1 + 200], abs=0.02)


def test_without_noise_a_sum_is_below_or_it_is_not() -> None:
    exact, draws = SparseVector(None, 3), seeded(0, "")
    below = exact.are_below([4, 5], 5, exact.threshold_noises(2, draws), draws)
    assert below.tolist() == [True, False]
    with pytest.raises(ParameterError, match="expected noise, where a cost is stated"):
        exact.event()


def test_it_is_priced_for_rows_that_come_or_go_only() -> None:
    assert price(vector().event(), neighbours=ADD, unit="row").epsilon == 1.5
    with pytest.raises(PrivacyError, match="add-or-remove-one neighbours, not for replace-one"):
        price(vector().event(), neighbours=Neighbours.REPLACE_ONE, unit="row")


@pytest.mark.parametrize(
    ("epsilon", "spread"), [(Fraction(0), 1), (Fraction(-1), 1), (Fraction(1), 0)]
)
def test_numbers_out_of_range_are_refused(epsilon: Fraction, spread: int) -> None:
    with pytest.raises(ParameterError, match="expected"):
        SparseVector(epsilon, spread)
