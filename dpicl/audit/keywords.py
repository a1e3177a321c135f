"""Audits of words chosen among the answers of an ensemble of prompts, where one row changes one answer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, Trial, less_noise
from dpicl.mechanisms.joint_exponential import joint_law
from dpicl.mechanisms.stable_top import SPREAD, Counts, StableTop
from dpicl.randomness import Stream

TEST = StableTop(Fraction(1), Fraction(1), Fraction(1, 1_000), 2)
QUERIES = 5
WordCounts = dict[bool, Counts]


def edge(rule: StableTop) -> WordCounts:
    """One word is one answer from the threshold, and two words are the likelier choice by as much as an answer takes away."""
    first = 2 * rule.threshold - 1
    second = first + SPREAD
    return {False: {"a": first + second, "b": second, "c": 0}, True: {"a": first + second + 1, "b": second - 1, "c": 1}}


_LEVEL: WordCounts = {True: {"a": 40, "b": 39, "c": 0}, False: {"a": 39, "b": 40, "c": 0}}
"""The first word changes with one answer, while the third is far behind."""


def _chosen(rule: StableTop, counts: WordCounts, queries: int = 1) -> Trial:
    """Whether `a` alone is released, in any of the queries."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        words = rule.choose_all([counts[which]] * (count * queries), stream, stream)
        return np.any(np.array([one == ("a",) for one in words]).reshape(count, queries), axis=1)

    return Trial(draw, {"the first word": lambda hits: hits, "not the first word": lambda hits: ~hits}, delta=float(rule.delta))


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
    """A first word so far ahead of all others, of which one answer makes one the second, and takes from the first and the rest."""
    return {
        False: [_LEVEL_COUNT + by] + [_LEVEL_COUNT] * (1 + _OTHERS),
        True: [_LEVEL_COUNT + by - 1, _LEVEL_COUNT + 1] + [_LEVEL_COUNT - 1] * _OTHERS,
    }


def _joint(by: int, epsilon: Fraction = JOINT_EPSILON, sensitivity: int = SENSITIVITY, per_run: int = 5) -> Trial:
    """Two words; whether the second comes first."""
    laws = {which: joint_law(counts, length=2, exponent=epsilon / (2 * sensitivity)) for which, counts in lead(by).items()}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array([laws[which].draw(stream)[0] == 1 for _ in range(count)])

    return Trial(draw, {"the second": lambda hits: hits}, per_run=per_run)


CASES = (
    # the set of one word among two
    AuditCase(
        "keyword-test", f"words by propose-test-release, at delta = {float(TEST.delta):g}", 2.0, _chosen(TEST, edge(TEST)), share=4
    ).with_mutants(
        less_noise(_chosen(_LOUD, edge(_LOUD))),
        Mutant(
            "one-too-far",
            "the gap that is tested lies one position behind the set",
            _chosen(_OneTooFar(TEST.size_epsilon, TEST.test_epsilon, TEST.delta, 1), _LEVEL),
        ),
        Mutant("delta-once", f"delta is charged once for {QUERIES} queries", _chosen(_ONCE, _LEVEL, QUERIES)),
    ),
    # two words of a list, by leads at which so many draws tell most
    AuditCase(
        "keyword-joint", f"two of {_OTHERS + 2} words by the joint exponential mechanism", float(JOINT_EPSILON), _joint(7)
    ).with_mutants(
        less_noise(_joint(6, JOINT_EPSILON * LESS_NOISE)),
        Mutant("one-way", "the noise is for counts that all move the same way", _joint(5, sensitivity=1, per_run=1)),
    ),
)
