"""Quality of released texts: the distance is the energy distance, a classifier learns what labels
say, and chance is stated beside both.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import energy_distance as of_numbers

from dpicl.quality.texts import Labelled, ReleasedTexts, TextQuality, energy_distance, text_quality

WORDS = {
    "sports": ["match", "goal", "team", "coach"],
    "money": ["bank", "share", "profit", "market"],
}


def texts(count: int, seed: int, *, shuffled: bool = False) -> Labelled:
    """Texts of two kinds, of which the label says which; `shuffled` labels say nothing."""
    chance = np.random.default_rng(seed)
    kinds = [("sports", "money")[number % 2] for number in range(count)]
    written = [" ".join(chance.choice(WORDS[kind], 6)) for kind in kinds]
    return list(
        zip(chance.permutation(kinds).tolist() if shuffled else kinds, written, strict=True)
    )


def quality(released: Labelled, real: Labelled | None = None) -> TextQuality:
    return text_quality(ReleasedTexts("notes", "a method", 1.0, released, True), texts(60, 0), real)


POINTS = st.lists(st.integers(-5, 5), min_size=4, max_size=30)


@given(POINTS, POINTS)
def test_the_distance_is_the_energy_distance_without_pairs_of_a_point_with_itself(
    one: list[int], other: list[int]
) -> None:
    squared = of_numbers(one, other) ** 2
    for part in (one, other):  # in which scipy has them
        among = np.abs(np.subtract.outer(part, part)).mean()
        squared += among - among * len(part) / (len(part) - 1)
    found = energy_distance(np.array(one, float)[:, None], np.array(other, float)[:, None])
    assert found == pytest.approx(np.sqrt(max(0.0, squared)), abs=1e-4)


def test_texts_of_the_same_law_are_as_near_as_halves_of_the_public_ones_and_others_are_far() -> (
    None
):
    near, far = (
        quality(texts(60, 1)),
        quality([("sports", "rain wind sun cloud storm") for _ in range(60)]),
    )
    assert near.distance < near.floor + 0.15 < far.distance
    assert near.known[0] == 1 and far.known == (0, 0, 0) and far.distinct == 0


def test_a_classifier_is_as_good_as_the_labels_that_it_is_fitted_on() -> None:
    right, none = quality(texts(80, 1), real=texts(300, 3)), quality(texts(80, 1, shuffled=True))
    assert right.accuracy == right.real == 1 and right.chance == 0.5
    assert none.accuracy < 0.9 and none.real is None
    assert quality([("sports", "goal")] * 3).accuracy == 0.5


def test_what_is_told_has_every_number() -> None:
    told = str(quality(texts(80, 1)))
    for phrase in (
        "80 texts beside 60 public ones",
        "accuracy on public texts",
        "n-grams of words",
        "energy distance",
        "words, half of the texts",
    ):
        assert phrase in told
