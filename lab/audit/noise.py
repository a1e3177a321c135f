"""Audits of discrete Gaussian noise, at a delta, and of a noisy maximum by permute-and-flip."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_max import exponential_maxima
from dpicl.mechanisms.sparse_vector import SparseVector
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise

EPSILON, VARIANCE = 1.0, Fraction(4)
SQUARES = 2
"""One vote moves from one candidate to the other: two counts change by one."""
_ONE, _OTHER = (1, 0), (0, 1)


def delta_of(epsilon: float, variance: float) -> float:
    """The smallest delta at which two noisy counts with one vote moved are (epsilon, delta)-DP: a
    direct sum.

    What tells the neighbours apart is the difference of the counts, moved by 2.
    """
    values = np.arange(
        -math.ceil(14 * math.sqrt(variance)), math.ceil(14 * math.sqrt(variance)) + 1
    )
    law = np.exp(-(values**2) / (2 * variance))
    differences = np.convolve(law, law) / law.sum() ** 2
    return float(
        np.maximum(differences[2:] - math.exp(epsilon) * differences[:-2], 0).sum()
        + differences[:2].sum()
    )


DELTA = delta_of(EPSILON, float(VARIANCE))


def _two_counts(variance: Fraction) -> Trial:
    """One vote for the first, or for the second."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        votes = np.tile(_ONE if which else _OTHER, count)
        return np.array(noisy_sums(votes, variance=variance, stream=stream)).reshape(count, 2)

    def ahead_by(gap: int) -> OutputEvent:
        return lambda sums: sums[:, 0] - sums[:, 1] >= gap

    return Trial(draw, {f"ahead by {gap}": ahead_by(gap) for gap in range(1, 8)}, delta=DELTA)


def _maximum(one: tuple[int, ...], other: tuple[int, ...], epsilon: Fraction) -> Trial:
    """Whether the last candidate is selected."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return exponential_maxima(
            [one if which else other] * count, epsilon=epsilon, spread=1, stream=stream
        )

    return Trial(draw, {"the last": lambda selected: selected == len(one) - 1})


QUESTIONS, THRESHOLD, SPARSE_EPSILON = 6, 1, 2.0
"""Before the one that is answered with yes: among so many a loud threshold is the likeliest
reason.
"""


def _questions(
    epsilon: Fraction,
    threshold_noises: Callable[
        [SparseVector, int, Stream], np.ndarray
    ] = SparseVector.threshold_noises,
) -> Trial:
    """Sums that a row moves up, and a last one that it does not; whether that is the first below
    the threshold.
    """
    vector = SparseVector(epsilon, 1)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        noises, quiet = threshold_noises(vector, count, stream), np.ones(count, dtype=bool)
        for _ in range(QUESTIONS):
            quiet &= ~vector.are_below([int(which)] * count, THRESHOLD, noises, stream)
        return quiet & vector.are_below([0] * count, THRESHOLD, noises, stream)

    return Trial(draw, {"the last": lambda hits: hits})


CASES = (
    AuditCase(
        "discrete-gaussian",
        f"discrete Gaussian noise on two counts, at delta = {DELTA:.3f}",
        EPSILON,
        _two_counts(VARIANCE),
        Neighbours.REPLACE_ONE,
    ).with_mutants(
        less_noise(_two_counts(VARIANCE / LESS_NOISE**2)),
        Mutant(
            "one-count",
            "the noise is for a change of one count, where one row changes two",
            _two_counts(VARIANCE / SQUARES),
        ),
    ),
    # two candidates, of whom one has a vote and the other may have one
    AuditCase(
        "noisy-max",
        "noisy maximum of two votes",
        EPSILON,
        _maximum((1, 1), (1, 0), Fraction(EPSILON)),
    ).with_mutants(
        less_noise(_maximum((1, 1), (1, 0), Fraction(EPSILON) * LESS_NOISE)),
        Mutant(
            "moved-vote",
            "the noise is for an added vote, where one row moves a vote",
            _maximum(_OTHER, _ONE, Fraction(EPSILON)),
        ),
    ),
    AuditCase(
        "sparse-vector",
        f"first of {QUESTIONS + 1} sums below a threshold",
        SPARSE_EPSILON,
        _questions(Fraction(SPARSE_EPSILON)),
    ).with_mutants(
        less_noise(_questions(Fraction(SPARSE_EPSILON) * LESS_NOISE)),
        Mutant(
            "exact-threshold",
            "the threshold has no noise",
            _questions(
                Fraction(SPARSE_EPSILON),
                lambda _vector, count, _stream: np.zeros(count, dtype=np.int64),
            ),
        ),
    ),
)
