"""Randomised response: exact weights within epsilon, reports that follow them, refusals without
values.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import DataError, ParameterError, PrivacyError
from dpicl.mechanisms.randomised_response import MAX_CATEGORIES, Response, randomise, response
from tests.library.examples import EveryWord, seeded

CHOSEN = (1e-3, 0.1, 1 / 13, 1.0, 50 / 13, 11.09, 20.0, 22.18, 700.0, 709.0, 710.0, 1e308)
LOGARITHMS = tuple(math.log(a / b) for a in range(2, 40) for b in (1, 3, 7, 16) if a > b)


def _within(law: Response, epsilon: float) -> bool:
    """Whether keep / lie <= e^epsilon, with sixty digits; e^epsilon is never a fraction, so no
    tie.
    """
    with localcontext() as context:
        context.prec, context.Emax = 60, 10**9
        return epsilon > 1000 or Decimal(law.keep) <= Decimal(law.lie) * Decimal(epsilon).exp()


def _check(law: Response, epsilon: float, categories: int) -> None:
    assert law.keep + (categories - 1) * law.lie == 1 << law.bits
    assert law.keep > law.lie >= 1
    assert _within(law, epsilon)
    assert law.epsilon <= epsilon


@pytest.mark.parametrize("categories", [*range(2, 18), 31, 32, 33, 63, 64])
def test_weights_are_a_distribution_and_never_pass_epsilon(categories: int) -> None:
    for epsilon in CHOSEN + LOGARITHMS:
        _check(response(epsilon=epsilon, categories=categories), epsilon, categories)


@given(st.floats(-12, 3), st.integers(2, MAX_CATEGORIES))
def test_any_epsilon_is_kept_or_refused(exponent: float, categories: int) -> None:
    epsilon = 10**exponent
    try:
        law = response(epsilon=epsilon, categories=categories)
    except PrivacyError:
        assert epsilon < 2e-5 * max(1, categories / 256) ** 2
        return
    _check(law, epsilon, categories)


@pytest.mark.parametrize("categories", [2, 3, 7, 64, 256])
def test_rounding_against_us_wastes_little(categories: int) -> None:
    for epsilon in np.geomspace(1e-3, 16, 50):
        assert response(epsilon=float(epsilon), categories=categories).epsilon >= 0.98 * epsilon


def test_no_noise_at_infinity() -> None:
    law = response(epsilon=math.inf, categories=5)
    codes = np.arange(5).repeat(100)
    assert law.epsilon == math.inf and law.truth_probability == 1
    assert (randomise(codes, law, seeded()) == codes).all()


def test_the_guarantee_is_that_of_one_client_who_may_change_the_answer() -> None:
    law = response(epsilon=1.5, categories=4)
    stated = law.guarantee()
    assert (stated.epsilon, stated.delta) == (law.epsilon, 0)
    assert (stated.neighbours, stated.unit) == (Neighbours.REPLACE_ONE, "client")
    weights = {"categories": 4, "bits": law.bits, "keep": law.keep, "lie": law.lie}
    assert dict(stated.event.parameters) == weights


def test_an_answer_that_is_known_beforehand_costs_nothing() -> None:
    law = response(epsilon=1.0, categories=1)
    assert law.guarantee().epsilon == 0
    assert (randomise(np.zeros(9, dtype=int), law, seeded()) == 0).all()


@pytest.mark.parametrize(
    ("epsilon", "categories"), [(1.0, 2), (0.5, 3), (2.0, 7), (4.0, 130), (6.0, 200)]
)
def test_every_word_drawn_once_gives_the_stated_counts(epsilon: float, categories: int) -> None:
    law = response(epsilon=epsilon, categories=categories)
    assert law.bits == 16
    for truth in {0, 1, categories // 2, categories - 1}:
        reports = randomise(np.full(1 << 16, truth), law, EveryWord())
        expected = np.full(categories, law.lie)
        expected[truth] = law.keep
        assert (np.bincount(reports, minlength=categories) == expected).all()


@pytest.mark.parametrize("categories", [2, 3, 200])
def test_long_words_reach_every_lie_from_first_to_last(categories: int) -> None:
    law = response(epsilon=20.0, categories=categories)
    assert law.bits == 32
    for lie in range(categories - 1):
        first = law.keep + lie * law.lie
        edges = [
            randomise(np.zeros(1, dtype=int), law, EveryWord(word))[0]
            for word in (first - 1, first, first + law.lie - 1)
        ]
        assert edges == [lie, lie + 1, lie + 1]


@pytest.mark.parametrize("row_count", [0, 1, 2**15 - 1, 2**15, 2**15 + 1, 70_000])
@pytest.mark.parametrize("categories", [2, 3, 256, 257, MAX_CATEGORIES])
def test_one_report_per_client_of_the_domain_and_the_truth_left_alone(
    row_count: int, categories: int
) -> None:
    truth = np.random.default_rng(0).integers(categories, size=row_count)
    kept = truth.copy()
    reports = randomise(truth, response(epsilon=1.0, categories=categories), seeded())
    assert reports.shape == (row_count,)
    assert reports.dtype == (np.uint8 if categories <= 256 else np.uint16)
    assert not row_count or reports.max() < categories
    assert (truth == kept).all()


def test_blocks_of_rows_draw_fresh_words() -> None:
    law = response(epsilon=1.0, categories=2)
    reports = randomise(np.zeros(1 << 16, dtype=int), law, seeded())
    first, second = np.split(reports, 2)
    assert 0.3 < np.mean(first != second) < 0.5


@pytest.mark.parametrize("wrong", [-1, 3, 77, 256, 259, -256, 2**40])
def test_codes_outside_the_domain_are_counted_and_not_shown(wrong: int) -> None:
    codes = np.array([0, 1, wrong, 2, wrong])
    with pytest.raises(DataError) as caught:
        randomise(codes, response(epsilon=1.0, categories=3), seeded())
    assert caught.value.details() == "randomised response: code outside 0..2 (2 values)"


@pytest.mark.parametrize(
    ("epsilon", "categories", "told"),
    [(wrong, 2, "a number > 0, or inf") for wrong in (0, 0.0, -0.0, -1, -math.inf, math.nan)]
    + [(1.0, wrong, "1 to 8192") for wrong in (0, -1, MAX_CATEGORIES + 1)],
)
def test_numbers_out_of_range_are_refused(epsilon: float, categories: int, told: str) -> None:
    with pytest.raises(ParameterError, match=f"expected {told}"):
        response(epsilon=epsilon, categories=categories)
