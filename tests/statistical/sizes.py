"""How often things are drawn, how sure a verdict must be, and the tests that give it.

Every stream here is named, so a verdict is the same on every machine and for ever. `SURE`
bounds how often a right mechanism would be called wrong if the names were chosen afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

SURE = 1e-6
"""A law is rejected below this, and epsilon is bounded from below at this level."""
DRAWS = 30_000
"""Draws of a sampler per law."""
CLIENTS = 2_000_000
"""Reports per neighbour, of clients who all have the same answer."""
RUNS = 20_000
"""Runs per neighbour of a mechanism whose noise is drawn one by one."""
FEW_RUNS = 6_000
"""The same where a mutant is far off."""
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
        observed[-2] += observed.pop()
        expected[-2] += expected.pop()
    return bool(stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue < SURE)


def epsilon_at_least(seen_with: int, seen_without: int, runs: int) -> float:
    """What epsilon must be at least, given how often an event occurred on each of two neighbours.

    Both Clopper-Pearson bounds hold at once except with probability `SURE`.
    """
    if seen_with == 0:
        return -math.inf
    low = stats.beta.ppf(SURE / 2, seen_with, runs - seen_with + 1)
    high = stats.beta.ppf(1 - SURE / 2, seen_without + 1, runs - seen_without)
    return float(math.log(low / high))


def audit(run_with: Callable[[], bool], run_without: Callable[[], bool], runs: int) -> float:
    """`epsilon_at_least` of `runs` runs on each neighbour; a run tells whether its output is in the event."""
    return epsilon_at_least(sum(run_with() for _ in range(runs)), sum(run_without() for _ in range(runs)), runs)
