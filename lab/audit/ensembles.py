"""Audits of ensembles of prompts, where one row changes one answer.

Answers given together, how records are placed into prompts, and words chosen among the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import stats

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.joint_exponential import joint_law
from dpicl.mechanisms.keyed_subsets import KEY_BYTES, identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_embedding import SCALE, EmbeddingNoise, whole_vectors
from dpicl.mechanisms.noisy_max import exponential_maxima, gaussian_maxima
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.mechanisms.stable_top import SPREAD, Counts, StableTop
from dpicl.methods.ensemble_plan import EnsembleShape
from dpicl.methods.ensemble_voting import asked_of_each, counted
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise

EPSILON, SIGMA = 1.0, Fraction(1)


def delta_of(epsilon: float, sigma: float) -> float:
    """The smallest delta at which a Gaussian of multiplier sigma is (epsilon, delta)-DP."""
    upper, lower = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return float(stats.norm.cdf(upper) - math.exp(epsilon) * stats.norm.cdf(lower))


DELTA = delta_of(EPSILON, float(SIGMA))
_HARD = TokenNoise("gaussian", SIGMA)
_VOTE_COUNTS = {True: (1, 2), False: (0, 3)}
"""Three prompts; behind by one and by three votes the first label wins as often as tells most at
epsilon = sigma = 1.
"""


def _votes(noise: TokenNoise) -> Trial:
    """Hard votes for two labels; whether the first is selected."""
    assert noise.amount is not None
    variance = noise.amount**2 * noise.squared_movement

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return gaussian_maxima(
            [[vote * UNITS for vote in _VOTE_COUNTS[which]]] * count,
            variance=variance,
            stream=stream,
        )

    return Trial(draw, {"the first": lambda selected: selected == 0}, delta=DELTA)


_CALIBRATED = EnsembleShape("votes", True, 3, 1, 1.0, 1, 1, calibrated=True)
_NO_CONTENT = asked_of_each(_CALIBRATED) - 1
_VOTER = [[0.0, 0.5], *[[0.0, 0.0]] * _NO_CONTENT]
"""Scores of two labels: of a query, for the second, and of texts without content, for neither."""
_BIASED = [[0.0, 0.5], *[[0.0, 8.0]] * _NO_CONTENT]
"""With the row the second label is likely whatever is asked, so that the vote is for the first."""


def _pooled(scores: np.ndarray, shape: EnsembleShape) -> list[int]:
    """Mutant: every voter is calibrated by the mean of what all say to texts without content."""
    each = scores.reshape(-1, asked_of_each(shape), scores.shape[1]).copy()
    each[:, 1:] = each[:, 1:].mean(axis=0)
    return counted(each.reshape(scores.shape), shape)


def _calibrated(
    noise: TokenNoise, count_votes: Callable[[np.ndarray, EnsembleShape], list[int]] = counted
) -> Trial:
    """Votes of three prompts, of which the row is in one; whether the first label is selected."""
    assert noise.amount is not None
    variance = noise.amount**2 * noise.squared_movement
    votes = {
        which: count_votes(
            np.array([*(_BIASED if which else _VOTER), *_VOTER, *_VOTER]), _CALIBRATED
        )
        for which in (True, False)
    }

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return gaussian_maxima([votes[which]] * count, variance=variance, stream=stream)

    return Trial(draw, {"the first": lambda selected: selected == 0}, delta=DELTA)


CENTRE, RADIUS = np.array([0.25, -0.5]), 2.0
_OWN = np.array([30.0, 40.0])
"""What the row's answer is embedded as, far outside the ball; without the row it lies opposite."""


def _embedding(noise: EmbeddingNoise, answers: int = 2) -> Trial:
    """Noisy sums, and how far they lie in the direction of the row's answer: at 2 tells most at
    epsilon = sigma = 1.
    """

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        # one answer that the row changes, and others
        rows = np.vstack([_OWN if which else -_OWN, np.zeros((answers - 1, 2))])
        sums = np.tile(
            whole_vectors(rows + CENTRE, centre=CENTRE, radius=RADIUS).sum(axis=0), count
        )
        return np.array(
            noisy_sums(sums, variance=noise.variance, stream=stream), dtype=np.float64
        ).reshape(count, 2)

    def beyond(share: float) -> OutputEvent:
        return lambda sums: sums @ (_OWN / np.linalg.norm(_OWN)) >= share * SCALE

    return Trial(draw, {f"beyond {share:g}": beyond(share) for share in (0.0, 2.0)}, delta=DELTA)


RATE, NOMINAL = Fraction(1, 2), Fraction(2)
PROMPTS, MANY_PROMPTS = 2, 4
"""With few the loss of one row is likeliest to be seen; with many those show that move together."""
_COMMON, _ROW = b"a", b"b"
_HALF = [_COMMON, _ROW] * 10
_ALIKE = {which: [_ROW] * which + [_COMMON] * 4 for which in (True, False)}
"""Equal records, before which another is inserted."""
_HALVES = {which: _HALF + [_COMMON] * which + _HALF for which in (True, False)}
"""Records in turn, in two halves between which another is inserted."""


@dataclass(frozen=True)
class _Keyed:
    """The right placement into so many prompts, at a rate."""

    prompts: int = PROMPTS
    rate: Fraction = RATE

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """The prompt of every record."""
        return keyed_subsets(
            marks, key=key, query=query, sampling_rate=self.rate, subset_count=self.prompts
        )


class _InTurn(_Keyed):
    """Mutant: record i is dealt to prompt i mod M, if it takes part."""

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """By the order of the records."""
        left_out = super().places(marks, key, query) == LEFT_OUT
        return np.where(left_out, LEFT_OUT, np.arange(len(marks)) % self.prompts)


def _placed(
    placement: _Keyed, tables: dict[bool, list[bytes]] = _ALIKE, epsilon: Fraction = NOMINAL
) -> Trial:
    """A prompt answers `b` if it holds one; whether `a` is selected, or `b`."""
    noise = TokenNoise("exponential", epsilon)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        key, records = stream.bytes(KEY_BYTES), tables[which]
        marks, owned = record_marks(identities(records), key=key), np.array(records) == _ROW
        placed = [placement.places(marks, key, query)[owned].tolist() for query in range(count)]
        holding = [len({*places} - {LEFT_OUT}) for places in placed]
        votes = [[(placement.prompts - some) * UNITS, some * UNITS] for some in holding]
        return exponential_maxima(votes, epsilon=noise.amount, spread=noise.spread, stream=stream)

    return Trial(draw, {"a": lambda selected: selected == 0, "b": lambda selected: selected == 1})


TEST = StableTop(Fraction(1), Fraction(1), Fraction(1, 1_000), 2)
QUERIES = 5
WordCounts = dict[bool, Counts]


def edge(rule: StableTop) -> WordCounts:
    """One word is one answer from the threshold, and two words are the likelier choice by as much
    as an answer takes away.
    """
    first = 2 * rule.threshold - 1
    second = first + SPREAD
    return {
        False: {"a": first + second, "b": second, "c": 0},
        True: {"a": first + second + 1, "b": second - 1, "c": 1},
    }


_LEVEL: WordCounts = {True: {"a": 40, "b": 39, "c": 0}, False: {"a": 39, "b": 40, "c": 0}}
"""The first word changes with one answer, while the third is far behind."""


def _chosen(rule: StableTop, counts: WordCounts, queries: int = 1) -> Trial:
    """Whether `a` alone is released, in any of the queries."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        words = rule.choose_all([counts[which]] * (count * queries), stream, stream)
        return np.any(np.array([word == ("a",) for word in words]).reshape(count, queries), axis=1)

    return Trial(
        draw,
        {"the first word": lambda hits: hits, "not the first word": lambda hits: ~hits},
        delta=float(rule.delta),
    )


class _OneTooFar(StableTop):
    """Mutant: the published rule."""

    def stability(self, counts: Counts, size: int) -> int:
        """Of one word more."""
        return super().stability(counts, size + 1)


_LOUD = StableTop(LESS_NOISE, LESS_NOISE, TEST.delta, TEST.most)
_ONCE = StableTop(Fraction(1, QUERIES), Fraction(1, QUERIES), Fraction(1, 50), 1)
JOINT_EPSILON, SENSITIVITY = Fraction(4), 2
_OTHERS, _LEVEL_COUNT = 40, 5


def lead(by: int) -> dict[bool, list[int]]:
    """A first word so far ahead of all others, of which one answer makes one the second, and takes
    from the first and the rest.
    """
    return {
        False: [_LEVEL_COUNT + by] + [_LEVEL_COUNT] * (1 + _OTHERS),
        True: [_LEVEL_COUNT + by - 1, _LEVEL_COUNT + 1] + [_LEVEL_COUNT - 1] * _OTHERS,
    }


def _joint(
    by: int, epsilon: Fraction = JOINT_EPSILON, sensitivity: int = SENSITIVITY, per_run: int = 5
) -> Trial:
    """Two words; whether the second comes first."""
    laws = {
        which: joint_law(counts, length=2, exponent=epsilon / (2 * sensitivity))
        for which, counts in lead(by).items()
    }

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([laws[which].draw(stream)[0] == 1 for _ in range(count)])

    return Trial(draw, {"the second": lambda hits: hits}, per_run=per_run)


CASES = (
    AuditCase(
        "ensemble-votes",
        f"label selected by hard votes of prompts, at delta = {DELTA:.3f}",
        EPSILON,
        _votes(_HARD),
    ).with_mutants(
        less_noise(_votes(replace(_HARD, amount=SIGMA / LESS_NOISE))),
        Mutant(
            "added-vote",
            "the noise is for an added vote, where one row changes a vote",
            _votes(replace(_HARD, row_is_voter=True)),
        ),
    ),
    AuditCase(
        "calibrated-votes",
        f"label selected by calibrated votes of prompts, at delta = {DELTA:.3f}",
        EPSILON,
        _calibrated(_HARD),
    ).with_mutants(
        less_noise(_calibrated(replace(_HARD, amount=SIGMA / LESS_NOISE))),
        Mutant(
            "pooled",
            "votes are calibrated by all prompts together, so that one row moves all of them",
            _calibrated(_HARD, _pooled),
        ),
    ),
    AuditCase(
        "ensemble-embedding",
        f"noisy sum of embedded answers, at delta = {DELTA:.3f}",
        EPSILON,
        _embedding(EmbeddingNoise(SIGMA)),
    ).with_mutants(
        less_noise(_embedding(EmbeddingNoise(SIGMA / LESS_NOISE))),
        Mutant(
            "one-radius",
            "the noise is for a movement of one radius, where an answer may move by two",
            _embedding(EmbeddingNoise(SIGMA / 2)),
        ),
        Mutant(
            "only-answer",
            "a single answer is released without noise",
            _embedding(EmbeddingNoise(None), answers=1),
        ),
    ),
    AuditCase(
        "keyed-subsets",
        "label selected by prompts of keyed subsets of a sample",
        amplified_epsilon(float(NOMINAL), RATE),
        _placed(_Keyed()),
        share=10,
    ).with_mutants(
        less_noise(_placed(_Keyed(), epsilon=NOMINAL * LESS_NOISE)),
        Mutant(
            "no-subsample",
            "every row takes part, yet amplification is claimed",
            _placed(_Keyed(rate=Fraction(1))),
        ),
        Mutant(
            "in-turn",
            "records are dealt out in turn, so that one that is inserted moves all behind it",
            _placed(_InTurn(MANY_PROMPTS), _HALVES),
        ),
    ),
    # the set of one word among two
    AuditCase(
        "keyword-test",
        f"words by propose-test-release, at delta = {float(TEST.delta):g}",
        2.0,
        _chosen(TEST, edge(TEST)),
        share=4,
    ).with_mutants(
        less_noise(_chosen(_LOUD, edge(_LOUD))),
        Mutant(
            "one-too-far",
            "the gap that is tested lies one position behind the set",
            _chosen(_OneTooFar(TEST.size_epsilon, TEST.test_epsilon, TEST.delta, 1), _LEVEL),
        ),
        Mutant(
            "delta-once",
            f"delta is charged once for {QUERIES} queries",
            _chosen(_ONCE, _LEVEL, QUERIES),
        ),
    ),
    # two words of a list, by leads at which so many draws tell most
    AuditCase(
        "keyword-joint",
        f"two of {_OTHERS + 2} words by the joint exponential mechanism",
        float(JOINT_EPSILON),
        _joint(7),
    ).with_mutants(
        less_noise(_joint(6, JOINT_EPSILON * LESS_NOISE)),
        Mutant(
            "one-way",
            "the noise is for counts that all move the same way",
            _joint(5, sensitivity=1, per_run=1),
        ),
    ),
)
