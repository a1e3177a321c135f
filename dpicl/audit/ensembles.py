"""Audits of answers that an ensemble of prompts gives together, where one row changes the answer of one prompt."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import stats

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Event, Trial
from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_embedding import SCALE, EmbeddingNoise, whole_vectors
from dpicl.mechanisms.noisy_max import gaussian_maxima
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.randomness import Stream

ADD = Neighbours.ADD_OR_REMOVE_ONE
EPSILON, SIGMA = 1.0, Fraction(1)


def delta_of(epsilon: float, sigma: float) -> float:
    """The smallest delta at which a Gaussian of multiplier sigma is (epsilon, delta)-DP."""
    upper, lower = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return float(stats.norm.cdf(upper) - math.exp(epsilon) * stats.norm.cdf(lower))


DELTA = delta_of(EPSILON, float(SIGMA))
_HARD = TokenNoise("gaussian", SIGMA)
_BALLOTS = {True: (1, 2), False: (0, 3)}
"""Three prompts; behind by one and by three votes the first label wins as often as tells most at epsilon = sigma = 1."""


def _votes(noise: TokenNoise) -> Trial:
    """Hard votes for two labels; whether the first is elected."""
    assert noise.amount is not None
    variance = noise.amount**2 * noise.squared_movement

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return gaussian_maxima([[vote * UNITS for vote in _BALLOTS[which]]] * count, variance=variance, stream=stream)

    return Trial(draw, {"the first": lambda elected: elected == 0}, delta=DELTA)


def votes_case() -> AuditCase:
    """One prompt of three changes its label."""
    return AuditCase(
        "ensemble-votes",
        f"label elected by hard votes of prompts, at delta = {DELTA:.3f}",
        EPSILON,
        ADD,
        "row",
        _votes(_HARD),
        (
            less_noise(_votes(replace(_HARD, amount=SIGMA / LESS_NOISE))),
            Mutant("added-vote", "the noise is for one vote more, where one row changes a vote", _votes(replace(_HARD, row_is_voter=True))),
        ),
    )


CENTRE, RADIUS = np.array([0.25, -0.5]), 2.0
_OWN = np.array([30.0, 40.0])
"""What the row's answer is embedded as, far outside the ball; without the row it lies opposite."""
_ANSWERS = 2


def _embedded(which: bool, answers: int) -> np.ndarray:
    """Whole vectors of one answer that the row changes, and of others that it does not."""
    rows = np.vstack([_OWN if which else -_OWN, np.zeros((answers - 1, 2))])
    return whole_vectors(rows + CENTRE, centre=CENTRE, radius=RADIUS)


def _beyond(share: float) -> Event:
    return lambda sums: sums @ (_OWN / np.linalg.norm(_OWN)) >= share * SCALE


def _embedding(noise: EmbeddingNoise, answers: int = _ANSWERS) -> Trial:
    """Noisy sums, and how far they lie in the direction of the row's answer: at 2 tells most at epsilon = sigma = 1."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        sums = np.tile(_embedded(which, answers).sum(axis=0), count)
        return np.array(noisy_sums(sums, variance=noise.variance, stream=stream), dtype=np.float64).reshape(count, 2)

    return Trial(draw, {f"beyond {share:g}": _beyond(share) for share in (0.0, 2.0)}, delta=DELTA)


def embedding_case() -> AuditCase:
    """One answer moves from one side of the ball to the other."""
    return AuditCase(
        "ensemble-embedding",
        f"noisy sum of embedded answers, at delta = {DELTA:.3f}",
        EPSILON,
        ADD,
        "row",
        _embedding(EmbeddingNoise(SIGMA)),
        (
            less_noise(_embedding(EmbeddingNoise(SIGMA / LESS_NOISE))),
            Mutant(
                "one-radius",
                "the noise is for a movement of one radius, where an answer may move by two",
                _embedding(EmbeddingNoise(SIGMA / 2)),
            ),
            Mutant("only-answer", "a single answer is released without noise", _embedding(EmbeddingNoise(None), answers=1)),
        ),
    )
