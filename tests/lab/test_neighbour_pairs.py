"""No neighbour moves what gets noise by more than the stated sensitivity, and a mechanism that lets
it is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from dpicl.data.central import aggregate
from dpicl.ground.randomness import Stream
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.noisy_mean import Grid, Origin
from lab.audit.means import NoClip, halved
from lab.benchmarks.guarantees.neighbour_pairs import CASES, group_by, mean, try_pairs

PAIRS = 150


def unclipped(grid: Grid) -> Grid:
    return NoClip(grid.low, grid.high, grid.step, grid.origin)


@pytest.mark.quick(
    "noisy-mean-centre",
    "noisy-mean-lower",
    "poisson-subsample",
    "noisy-count",
    "difference-token",
    "noisy-mode",
    "continual-counts",
)
@pytest.mark.parametrize("name", CASES)
def test_the_sensitivity_is_reached_and_never_exceeded(name: str) -> None:
    outcome = try_pairs(CASES[name], PAIRS)
    assert (outcome.exceeded, outcome.largest) == (0, 1)


@pytest.mark.quick("unclipped-centre")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("origin", ["lower", "centre"])
@pytest.mark.parametrize("mutant", [unclipped, halved])
def test_a_mean_without_clipping_or_with_half_the_noise_is_found_out(
    mutant: Callable[[Grid], Grid], origin: Origin
) -> None:
    assert try_pairs(partial(mean, origin=origin, mutate=mutant), PAIRS).exceeded > PAIRS // 10


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "part, mutant",
    [("Grid", NoClip), ("_share", lambda group, contract, total, options: total)],
    ids=["one unclipped grid", "epsilon for every column"],
)
def test_a_release_without_a_clip_or_a_share_is_found_out(part: str, mutant: Any) -> None:
    with patch.object(aggregate, part, mutant):
        assert try_pairs(group_by, PAIRS).exceeded > PAIRS // 10


def test_a_histogram_of_present_categories_only_is_found_out() -> None:
    """How many numbers get noise would tell which categories occur."""
    whole = noisy_count.noisy_modes

    def present(histograms: list[list[int]], *, epsilon: Fraction, stream: Stream) -> list[int]:
        return whole(
            [[count for count in counts if count] or [0] for counts in histograms],
            epsilon=epsilon,
            stream=stream,
        )

    with patch.object(noisy_count, "noisy_modes", present), pytest.raises(AssertionError):
        try_pairs(CASES["noisy-mode"], PAIRS)
