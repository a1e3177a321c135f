"""How often things are drawn, and the test of a law.

Every stream here is named, so a verdict is the same on every machine and for ever. `SURE`
bounds how often a right law would be rejected if the names were chosen afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from lab.audit import SURE

DRAWS = 10_000
"""Draws of a sampler per law."""
CLIENTS = 200_000
"""Reports per neighbour, of clients who all have the same answer; ten times as many where there are
hundreds of answers.
"""
RUNS = 100_000
"""Runs of an audit on each neighbour."""
LEAST_EXPECTED = 10
"""Outcomes are pooled until each is expected this often."""


def law_rejected(counts: Sequence[float], probabilities: Sequence[float]) -> bool:
    """Whether counts contradict a law, by Pearson's chi-square over pooled outcomes.

    Args:
        counts, probabilities: by outcome, in the same order; probabilities sum to 1.
    """
    observed, expected = [0.0], [0.0]
    for count, probability in zip(counts, probabilities, strict=True):
        if expected[-1] >= LEAST_EXPECTED:
            observed.append(0.0)
            expected.append(0.0)
        observed[-1] += count
        expected[-1] += probability * sum(counts)
    if expected[-1] < LEAST_EXPECTED and len(expected) > 1:
        for pooled in (observed, expected):
            rest = pooled.pop()  # `pooled[-2] += pooled.pop()` would overwrite the outcome before
            pooled[-1] += rest
    return bool(
        stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue < SURE
    )


def of_that_scale(counts: Sequence[float], law: Callable[[float], Sequence[float]]) -> bool:
    """Whether counts fit the law of factor 1 and none whose scale is 30 % off, both ways."""
    rejected = [law_rejected(counts, law(factor)) for factor in (1, 1.3, 0.77)]
    return rejected == [False, True, True]


def independent(one: np.ndarray, other: np.ndarray, chance: float) -> bool:
    """Whether two rows of events, each of this chance, are independent of each other."""
    counts = np.bincount(2 * one.astype(int) + other, minlength=4)
    no = 1 - chance
    return not law_rejected(counts, [no * no, no * chance, chance * no, chance * chance])
