"""Audits of a Gaussian budget at a delta: one count, and one choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy import stats

from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_max import exponential_max
from dpicl.mechanisms.noisy_steps import GaussianBudget, PureBudget, StepBudget
from lab.audit.case import AuditCase, Mutant, OutputEvent, Trial


def delta_of(epsilon: float, sigma: float) -> float:
    """The smallest delta at which a Gaussian of multiplier sigma is (epsilon, delta)-DP."""
    upper, lower = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return float(stats.norm.cdf(upper) - math.exp(epsilon) * stats.norm.cdf(lower))


EPSILON, CHOICE_EPSILON = 1.0, 0.5
"""At which counts and choices are audited; a choice of one of two tells most at a small one."""
DELTA, CHOICE_DELTA = delta_of(EPSILON, 1.0), delta_of(CHOICE_EPSILON, 0.5)
"""Of a Gaussian that is moved by its deviation, and by two of them: what budgets of 1 and of 4
allow.
"""
_BUDGET, _LOUD = GaussianBudget(Fraction(1)), GaussianBudget(Fraction(2))
_CHOICE = GaussianBudget(Fraction(4))
Choosing = Callable[[tuple[int, int], Stream], int]


def _beyond(place: float) -> OutputEvent:
    return lambda counts: counts >= place


def _count(budget: StepBudget) -> Trial:
    """No row, and one."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(budget.counts([int(which)] * count, stream), dtype=np.float64)

    return Trial(
        draw, {f"at least {place}": _beyond(place) for place in (1.0, 1.5, 2.0)}, delta=DELTA
    )


def _choice(chosen: Choosing) -> Trial:
    """Two scores, of which the first is one ahead or one behind: a row moves each of them by 1."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([chosen((1, 0) if which else (0, 1), stream) for _ in range(count)])

    return Trial(draw, {"the first": lambda places: places == 0}, delta=CHOICE_DELTA)


def _by(budget: StepBudget, spread: int = 2) -> Choosing:
    return lambda scores, stream: budget.chosen(scores, spread=spread, stream=stream)


CASES = (
    AuditCase(
        "gaussian-count",
        f"count by a Gaussian budget, at delta = {DELTA:.3f}",
        EPSILON,
        _count(_BUDGET),
        share=5,
        near=0.7,
    ).with_mutants(
        Mutant("half-variance", "noise of half the variance", _count(_LOUD)),
        Mutant(
            "laplace-scale",
            "discrete Laplace noise of half the deviation as its scale",
            _count(PureBudget(Fraction(2))),
        ),
    ),
    AuditCase(
        "gaussian-choice",
        f"choice of one of two by a Gaussian budget, at delta = {CHOICE_DELTA:.3f}",
        CHOICE_EPSILON,
        _choice(_by(_CHOICE)),
        share=10,
        near=0.4,
    ).with_mutants(
        Mutant(
            "twice-the-budget",
            "a choice spends twice its part",
            _choice(_by(_CHOICE.times(Fraction(2)))),
        ),
        Mutant(
            "spread-of-one",
            "each score moves by 1, and their difference by 2",
            _choice(_by(_CHOICE, spread=1)),
        ),
        Mutant(
            "permute-and-flip",
            "by permute-and-flip, whose range is twice its epsilon",
            _choice(
                lambda scores, stream: exponential_max(
                    scores, epsilon=_CHOICE.range, spread=2, stream=stream
                )
            ),
        ),
    ),
)
