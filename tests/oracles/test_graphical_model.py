"""Our fit of the graphical model against mbi's: the same noisy counts into both, the same marginals
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import mbi
import numpy as np
import pytest

from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central import graphical_model as fitted
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import NoisyMarginal, added, graphical_model
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import PureBudget
from tests.library.examples import seeded

SIZES = (6, 8, 3, 12, 2, 5, 2)
WAYS: dict[str, Callable[..., list[NoisyMarginal]]] = {
    "trees": spanning_tree.measure,
    "circles": adaptive.measure,
}
STEPS = {1: 3_000, 10: 10_000}
"""Of mirror descent, by epsilon, until mbi's loss falls no more."""


def deviation(one: NoisyMarginal) -> float:
    return max(one.scale * math.sqrt(2), 0.5)


@cache
def noisy(epsilon: float, ways: str) -> list[NoisyMarginal]:
    """Counts of 20,000 rows whose columns lean on each other and on the label, as MST chooses them
    or as AIM does.
    """
    rng = np.random.default_rng(0)
    label = rng.random(20_000) < 0.3
    columns = [label.astype(np.int64)]
    for size in SIZES[:-1]:
        leaning = (columns[-1] + label) % size
        columns.append(
            np.where(rng.random(len(label)) < 0.4, leaning, rng.integers(size, size=len(label)))
        )
    rows = np.stack([*columns[1:], label], axis=1).astype(np.uint8)
    exact = ExactCounts.of(PrivateCodes(rows), SIZES, triples=True)
    return added(WAYS[ways](exact, budget=PureBudget.of(epsilon), stream=seeded(0, "oracle")))


def oracle(counts: list[NoisyMarginal], steps: int) -> Any:
    jax.config.update("jax_enable_x64", True)
    measured = [
        mbi.LinearMeasurement(one.counts.astype(float).ravel(), one.columns, stddev=deviation(one))
        for one in counts
    ]
    return mbi.estimation.MirrorDescent().estimate(
        mbi.Domain(range(len(SIZES)), SIZES), measured, iters=steps
    )


def loss(marginals: dict[tuple[int, ...], np.ndarray], counts: list[NoisyMarginal]) -> float:
    return sum(
        0.5 * float((((marginals[one.columns] - one.counts) / deviation(one)) ** 2).sum())
        for one in counts
    )


@pytest.mark.parametrize(
    ("ways", "epsilon"),
    [pytest.param(*case, marks=pytest.mark.exhaustive) for case in (("trees", 1), ("circles", 10))],
)
def test_the_same_counts_give_the_same_marginals_within_their_noise(
    ways: str, epsilon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which take longer to the last digit: the noise of the counts is far larger
    if ways == "circles":
        monkeypatch.setattr(fitted, "STEPS", 4000)
        monkeypatch.setattr(fitted, "_LEAST_FALL", 1e-6)
    counts = noisy(float(epsilon), ways)
    assert len(counts) > len(SIZES), "some pairs are counted"
    assert ways == "trees" or any(len(one.columns) == 4 for one in counts), "and triples"
    model, shares = oracle(counts, STEPS[epsilon]), graphical_model(SIZES, counts).counted
    theirs = {
        one.columns: np.asarray(model.project(one.columns).datavector(flatten=False), dtype=float)
        for one in counts
    }
    ours = {one.columns: shares[one.columns] * float(model.total) for one in counts}
    assert loss(ours, counts) <= 1.01 * loss(theirs, counts)
    for one in counts:
        apart = np.abs(ours[one.columns] - theirs[one.columns])
        assert apart.max() < deviation(one) and apart.mean() < 0.1 * deviation(one), one.columns
