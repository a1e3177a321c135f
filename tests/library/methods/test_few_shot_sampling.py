"""Sampling from noisy votes: the law is that of the paper on nucleus sampling, and what is refused
is what is not post-processing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from dpicl.contract.pipeline import Cell
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.few_shot_plan import VoteSampling, plan_release
from dpicl.methods.options import FewShotVariant
from tests.direct import point
from tests.library.examples import seeded
from tests.library.methods.test_few_shot_plan import AGNEWS, INK, unit

NOISY = [40, -7, 30, 20, 10, 0]
CELL = Cell("icl", 4.0, 4)


@pytest.mark.parametrize(
    "sampling, expected",
    [
        (VoteSampling(1.0), {0: 40, 2: 30, 3: 20, 4: 10}),
        (VoteSampling(0.5), {0: 1600, 2: 900, 3: 400, 4: 100}),
        (VoteSampling(1.0, top_k=2), {0: 40, 2: 30}),
        (VoteSampling(1.0, top_p=0.6), {0: 40, 2: 30}),
        (VoteSampling(1.0, top_p=0.4), {0: 40}),
        (VoteSampling(1.0, top_k=3, top_p=0.8), {0: 40, 2: 30, 3: 20}),
    ],
)
def test_the_law_is_that_of_the_equations(
    sampling: VoteSampling, expected: dict[int, float]
) -> None:
    places = seeded(0, "sample")
    seen = Counter(sampling.draw(NOISY, places) for _ in range(4000))
    assert set(seen) == set(expected)
    weights = np.array([*expected.values()]) / sum(expected.values())
    assert stats.chisquare([seen[place] for place in expected], weights * 4000).pvalue > 1e-4 or (
        len(expected) == 1
    )


def test_a_low_temperature_is_the_largest_and_a_high_one_is_not() -> None:
    cold, hot = (
        {VoteSampling(temperature).draw(NOISY, seeded(seed, "")) for seed in range(60)}
        for temperature in (0.02, 100.0)
    )
    assert cold == {0} and len(hot) == 4
    assert VoteSampling(1.0).draw([-(2**70), -3, -9], seeded(0, "")) == 1, "none is positive"


def test_sampling_is_free_and_makes_another_release() -> None:
    plain, sampled = (
        point(unit(AGNEWS, **options), CELL) for options in ({}, {"temperature": 0.8, "top_p": 0.9})
    )
    plans = [plan_release(AGNEWS, one) for one in (plain, sampled)]
    assert plans[0].guarantee == plans[1].guarantee
    assert [one.shape.sampling for one in plans] == [None, VoteSampling(0.8, None, 0.9)]
    names = [FewShotGeneration().identity(AGNEWS, one) for one in (plain, sampled)]
    assert names[1] == {**names[0], "temperature": 0.8, "top_p": 0.9}
    assert "temperature" not in names[0]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mechanism": "exponential", "temperature": 1.0}, "of which the token alone is private"),
        (
            {"mechanism": "clipped-logits", "batches": "fixed", "temperature": 1.0},
            "of which the token alone is private",
        ),
        *(
            (options, "expected `mechanism: gaussian` and a temperature")
            for options in ({"top_k": 5}, {"top_p": 0.5}, {**INK, "top_k": 5})
        ),
        ({**INK, "temperature": 0.0}, "greater than 0"),
        *(
            (INK | options, "expected both: a public number of rows per text")
            for options in ({"voters": None}, {"batches": "fresh"})
        ),
        ({**INK, "private_tokens": 3}, "expected none: rows move every token"),
    ],
)
def test_what_is_not_post_processing_or_has_no_public_number_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        FewShotVariant.model_validate(options)
