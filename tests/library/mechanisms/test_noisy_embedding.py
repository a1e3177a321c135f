"""Noisy embeddings: no vector is longer than its price allows, noise and price belong together, and
the nearest is found.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_embedding import SCALE, EmbeddingNoise, nearest, whole_vectors
from tests.library.examples import seeded

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
centres = hnp.arrays(np.float64, 3, elements=st.floats(-1e300, 1e300))
radii = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
NOISE = EmbeddingNoise(Fraction(3, 2))


def squares(vector: np.ndarray) -> int:
    return sum(int(one) ** 2 for one in vector)


@given(hnp.arrays(np.float64, (2, 3), elements=anything), centres, radii)
def test_one_answer_never_moves_the_sums_further_than_its_price_allows(
    answers: np.ndarray, centre: np.ndarray, radius: float
) -> None:
    """Any answer to any other, in whole numbers: NaN, infinities, subnormal and huge ones."""
    one, other = whole_vectors(answers, centre=centre, radius=radius)
    assert max(squares(one), squares(other)) <= SCALE**2
    assert squares(one - other) <= NOISE.squared_movement


@given(hnp.arrays(np.float64, (3, 6), elements=st.floats(-1, 1)), st.floats(0.01, 10))
def test_vectors_are_shortened_rounded_toward_zero_and_else_left_alone(
    answers: np.ndarray, radius: float
) -> None:
    whole = whole_vectors(answers, centre=np.zeros(6), radius=radius)
    lengths = np.maximum(np.linalg.norm(answers, axis=1, keepdims=True), radius)
    exact = answers / lengths * SCALE
    assert (np.abs(whole) <= np.abs(exact) + 1e-6).all()
    assert np.abs(whole - exact).max() < 1 + 1e-6


def test_opposite_answers_reach_the_movement() -> None:
    one, other = whole_vectors(np.array([[9.0, 0.0], [-9.0, 0.0]]), centre=np.zeros(2), radius=1.0)
    assert squares(one - other) == NOISE.squared_movement
    assert squares(one - other) > SCALE**2, "a movement of one radius would be too little"


def test_the_centre_is_taken_away_before_vectors_are_shortened() -> None:
    answers = np.array([[100.5, 0.0], [100.0, 0.0]])
    whole = whole_vectors(answers, centre=answers[1], radius=1.0)
    assert whole.tolist() == [[SCALE // 2, 0], [0, 0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_answer_that_is_no_number_adds_nothing(bad: float) -> None:
    answers = np.array([[bad, 1.0], [0.0, 1.0]])
    whole = whole_vectors(answers, centre=np.zeros(2), radius=1.0)
    assert whole.tolist() == [[0, 0], [0, SCALE]]


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf])
def test_a_radius_is_positive(radius: float) -> None:
    with pytest.raises(ParameterError, match="radius=.*expected a finite number > 0"):
        whole_vectors(np.zeros((1, 1)), centre=np.zeros(1), radius=radius)


def test_the_noise_has_the_variance_that_its_price_is_for() -> None:
    vectors = whole_vectors(np.array([[1.0, 2.0], [3.0, 4.0]]), centre=np.zeros(2), radius=10.0)
    variance = Fraction(9, 4) * (2 * SCALE) ** 2
    released = NOISE.release(vectors, seeded())
    assert released == noisy_sums(vectors.sum(axis=0), variance=variance, stream=seeded())
    assert dict(NOISE.event().parameters) == {
        "variance": str(variance),
        "squared_sensitivity": 4 * SCALE**2,
        "neighbours": "add-or-remove-one",
    }


def test_without_noise_the_sums_are_exact_and_have_no_price() -> None:
    assert EmbeddingNoise(None).release(np.array([[1, 2], [3, -4]]), seeded(0, "")) == [4, -2]
    with pytest.raises(ParameterError, match="expected noise, where a cost is stated"):
        EmbeddingNoise(None).event()


@pytest.mark.parametrize("noise", [NOISE, EmbeddingNoise(None)])
@pytest.mark.parametrize("answers", [0, 1])
def test_a_mean_of_one_answer_is_refused(noise: EmbeddingNoise, answers: int) -> None:
    with pytest.raises(ParameterError, match=rf"answers={answers}.*expected at least 2"):
        noise.release(np.zeros((answers, 2), dtype=np.int64), seeded(0, ""))


@pytest.mark.parametrize("sigma", [Fraction(0), Fraction(-1)])
def test_noise_is_positive(sigma: Fraction) -> None:
    with pytest.raises(ParameterError, match="expected a rational > 0, or None for no noise"):
        EmbeddingNoise(sigma)


def test_the_nearest_has_the_highest_cosine_whatever_the_lengths() -> None:
    candidates = np.array([[1.0, 0.0], [50.0, 50.0], [0.1, 0.2], [0.2, 0.4]])
    assert nearest(candidates, [10**30, 2 * 10**30], np.zeros(2)) == 2
    assert nearest(candidates, [3, 0], np.zeros(2)) == 0
    assert nearest(candidates, [3, 0], np.array([1.0, 0.0])) == 1, "cosines are around the centre"


def test_the_first_of_equals_is_nearest_and_one_at_the_centre_has_no_direction() -> None:
    assert nearest(np.array([[0.3, 0.7]] * 9), [1, 1], np.zeros(2)) == 0
    assert nearest(np.array([[1.0, 1.0], [2.0, 1.0]]), [0, 0], np.ones(2)) == 0
    assert nearest(np.array([[0.0, 1.0], [1.0, 1.0]]), [5, 0], np.ones(2)) == 1
    with pytest.raises(ParameterError, match="candidates=0.*expected at least one"):
        nearest(np.zeros((0, 2)), [1, 1], np.zeros(2))
