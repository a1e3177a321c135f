"""Releases of counters have fresh noise of the stated law in every period, and windows the stated
deviation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.randomness import stream
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution
from tests.statistical.sizes import DRAWS, law_rejected

PERIODS = 5
COUNTERS = ContinualCounts(
    PERIODS, 1, Contribution(2, 1), Neighbours.ADD_OR_REMOVE_ONE, Fraction(400), bits=4
)
HISTORY = [np.full(DRAWS, count) for count in (3, 0, 7, 1, 2)]


def released(name: str) -> list[np.ndarray]:
    """Every cell is a run of its own."""
    draws = stream(0, "continual", name, "")
    return [
        COUNTERS.release(HISTORY[:period], period=period, stream=draws)
        for period in range(1, PERIODS + 1)
    ]


def test_every_release_has_noise_of_its_own_of_the_stated_law() -> None:
    exact = replace(COUNTERS, variance=None)
    reach = 110
    law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / 800)
    noises = []
    for period, one in enumerate(released("law"), start=1):
        noise = one - exact.release(
            HISTORY[:period], period=period, stream=stream(0, "continual", "none", "")
        )
        counts = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
        assert not law_rejected(counts, law / law.sum())
        assert law_rejected(counts, law**0.6 / (law**0.6).sum())
        noises.append(noise > 0)
    for earlier, later in zip(noises, noises[1:], strict=False):
        shares = [earlier.mean(), later.mean()]
        joint = np.bincount(2 * earlier + later, minlength=4)
        independent = [
            (1 - shares[0]) * (1 - shares[1]),
            (1 - shares[0]) * shares[1],
            shares[0] * (1 - shares[1]),
            shares[0] * shares[1],
        ]
        assert not law_rejected(joint, independent)
        assert law_rejected(np.bincount(2 * earlier + earlier, minlength=4), independent)


def test_windows_are_unbiased_and_have_the_stated_covariance() -> None:
    windows = [(1, 5), (1, 2), (3, 5), (5, 5)]
    read = COUNTERS.windows(released("windows"), windows)
    stated = COUNTERS.covariance(windows)
    truth = np.array(
        [sum(int(one[0]) for one in HISTORY[first - 1 : last]) for first, last in windows]
    )
    errors = (read.mean(axis=1) - truth) / np.sqrt(stated.diagonal() / DRAWS)
    assert (np.abs(errors) < 5).all()
    scale = np.sqrt(np.outer(stated.diagonal(), stated.diagonal()))
    difference = (np.cov(read) - stated) / scale
    assert np.abs(difference).max() < 5 * math.sqrt(2 / DRAWS)
