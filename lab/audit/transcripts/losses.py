"""How much a forced step tells of two neighbours: the exact log-ratio of its output, and how far it
is from what the step states of one row.

Guarantee   none is spent: rows are made up.
Paper       [MS20] McKenna and Sheldon, permute-and-flip; [DR19] Durfee and Rogers, bounded range;
            [GJMR22] Gillenwater et al., joint exponential. The laws are written here once more,
            from their equations: nothing is called that draws.

    (1)  discrete Laplace      ln P[o | x] = -|o - x|_1 / scale + c
    (2)  discrete Gaussian     no ratio is looked at, but the movement |x - x'|^2 / variance
    (3)  permute and flip      P[i] = p_i E[1 / (1 + K)],  K the heads among the others
    (4)  exponential choice    P[i] proportional to exp(epsilon v_i / spread)
    (5)  sparse vector         the sum over the noise of the threshold, which never leaves
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from itertools import permutations
from typing import Any

import numpy as np
from scipy import special, stats

from dpicl.accounting.pure import SMOOTHED
from dpicl.ground.randomness import Law
from dpicl.mechanisms.discrete_gaussian import GaussianSums
from dpicl.mechanisms.joint_exponential import JointTop
from dpicl.mechanisms.noisy_count import LaplaceCounts
from dpicl.mechanisms.noisy_max import BoundedRange, PermuteAndFlip
from dpicl.mechanisms.randomised_response import Response
from dpicl.mechanisms.sparse_vector import AreBelow, ThresholdNoises
from dpicl.mechanisms.stable_top import StableSets
from dpicl.mechanisms.unary_encoding import Unary
from lab.audit.transcripts.clients import HIDDEN, ratio
from lab.audit.transcripts.record import Diverged, ForcedStep

_TERMS = 1 << 16
_FEW_WORDS = 6
"""Of which all sequences are looked at."""
_FAR = 45
"""Scales of threshold noise beyond which there is next to none."""


@dataclass(frozen=True)
class Loss:
    """What one step, or several that are looked at together, tell.

    Attributes:
        ratio: ln P[o | x] - ln P[o | x'], in nats; 0 of Gaussian noise.
        squared: mu^2 of Gaussian noise on this movement, or of a choice of this range; else 0.
        movement: |x - x'|^2 of Gaussian noise, else 0.
        variance: of Gaussian noise, else infinite.
        part: of what the step states of one row, how much it tells: at most 1. 0 where it states
            nothing by itself.
        failed: the probability of an output that the neighbour never has.
    """

    ratio: float = 0.0
    squared: float = 0.0
    movement: float = 0.0
    variance: float = math.inf
    part: float = 0.0
    failed: float = 0.0


def losses(steps: Sequence[ForcedStep]) -> list[Loss]:
    """Of every step; those of one threshold together, and all that is sent of one answer. Raises
    Diverged: inputs of neighbours are of different shapes.
    """
    tests: dict[bytes, list[ForcedStep]] = {}
    hidden = [step for step in steps if step.stream == HIDDEN]
    if hidden:
        return [Loss(ratio(hidden[0], steps[len(hidden) :]))]
    found = []
    for step in steps:
        if isinstance(step.law, AreBelow):
            secret = repr((step.law, step.exact[1].tolist(), len(step.exact[0]))).encode()
            tests.setdefault(secret, []).append(step)
        else:
            if type(step.law) not in _loss.registry:  # a subclass may draw otherwise
                raise Diverged(
                    f"{step.law} on stream {step.stream!r}: a law that is not known here"
                )
            found.append(_loss(step.law, step))
    return [*found, *(_of_tests(group) for group in tests.values())]


@singledispatch
def _loss(law: Law[Any, Any], step: ForcedStep) -> Loss:
    raise Diverged(f"{law} on stream {step.stream!r}: no law that is known here")


@_loss.register
def _(law: LaplaceCounts, step: ForcedStep) -> Loss:
    exact, other, output = (
        [operator.index(total) for total in totals]
        for totals in (step.exact, step.other, step.output)
    )
    _same(len(exact), len(other), step)
    apart = sum(
        abs(out - there) - abs(out - here)
        for here, there, out in zip(exact, other, output, strict=True)
    )
    moved = sum(abs(here - there) for here, there in zip(exact, other, strict=True))
    # in whole numbers: sums of one column may be beyond what a float holds
    return Loss(
        float(apart * law.epsilon / law.sensitivity), part=float(Fraction(moved, law.sensitivity))
    )


@_loss.register
def _(law: GaussianSums, step: ForcedStep) -> Loss:
    _same(len(step.exact), len(step.other), step)
    movement = sum(
        (int(here) - int(there)) ** 2 for here, there in zip(step.exact, step.other, strict=True)
    )
    variance = float(law.variance)
    if law.variance <= SMOOTHED:
        return Loss(
            squared=math.inf if movement else 0.0, movement=float(movement), variance=variance
        )
    squared = float(movement / (law.variance - SMOOTHED))
    return Loss(squared=squared, movement=float(movement), variance=variance)


@_loss.register
def _(law: PermuteAndFlip, step: ForcedStep) -> Loss:
    _same(step.exact.shape, step.other.shape, step)
    ratio, part = 0.0, 0.0
    for here, there, place in zip(step.exact, step.other, step.output.tolist(), strict=True):
        part = max(part, _turn(here, there) / law.spread)
        ratio += _flipped(here, place, law) - _flipped(there, place, law)
    return Loss(ratio, part=part)


def _flipped(votes: np.ndarray, place: int, law: PermuteAndFlip) -> float:
    """Logarithm of equation (3)."""
    most = max(votes)
    heads = [math.exp(-float((most - vote) * law.epsilon / law.spread)) for vote in votes]
    law_of_heads = np.ones(1)
    for other, chance in enumerate(heads):
        if other != place:
            law_of_heads = np.convolve(law_of_heads, [1 - chance, chance])
    mean = float((law_of_heads / (1 + np.arange(len(law_of_heads)))).sum())
    return -float((most - votes[place]) * law.epsilon / law.spread) + math.log(mean)


@_loss.register
def _(law: BoundedRange, step: ForcedStep) -> Loss:
    _same([len(votes) for votes in step.exact], [len(votes) for votes in step.other], step)
    ratio, part = 0.0, 0.0
    for here, there, place in zip(step.exact, step.other, step.output.tolist(), strict=True):
        part = max(part, _turn(here, there) / law.spread)
        ratio += _chosen(here, place, law) - _chosen(there, place, law)
    # the corner of the trade-off function, by the normal distribution
    mu = 2 * stats.norm.ppf(special.expit(float(law.epsilon) / 2))
    return Loss(ratio, squared=float(mu) ** 2 if part else 0.0, part=part)


def _chosen(votes: np.ndarray, place: int, law: BoundedRange) -> float:
    """Logarithm of equation (4)."""
    most = max(int(vote) for vote in votes)
    below = np.array([-float((most - int(vote)) * law.epsilon / law.spread) for vote in votes])
    return float(below[place] - special.logsumexp(below))


def _turn(here: np.ndarray, there: np.ndarray) -> int:
    """The most by which the difference of two candidates moves."""
    moved = [int(one) - int(other) for one, other in zip(here, there, strict=True)]
    return max(moved) - min(moved)


@_loss.register
def _(law: Response, step: ForcedStep) -> Loss:
    _same(len(step.exact), len(step.other), step)
    changed = int(np.count_nonzero(step.exact != step.other))
    truthful = int(np.count_nonzero(step.output == step.exact)) - int(
        np.count_nonzero(step.output == step.other)
    )
    ratio = truthful * math.log(law.keep / law.lie) if law.lie else truthful * math.inf
    return Loss(ratio, part=abs(ratio) / (changed * law.epsilon) if changed else 0.0)


@_loss.register
def _(law: Unary, step: ForcedStep) -> Loss:
    _same(len(step.exact), len(step.other), step)
    bit = math.log((law.total - law.weight) / law.weight)
    rows = np.flatnonzero(step.exact != step.other)
    # the two bits of the two truths: each is one half where it is the truth's
    said = step.output[rows, step.exact[rows]].astype(int) - step.output[
        rows, step.other[rows]
    ].astype(int)
    ratio = float(said.sum()) * bit
    return Loss(ratio, part=abs(ratio) / (len(rows) * law.epsilon) if len(rows) else 0.0)


@_loss.register
def _(law: JointTop, step: ForcedStep) -> Loss:
    _same(len(step.exact), len(step.other), step)
    assert law.epsilon is not None
    ratio = _sequence(step.exact, step.output, law) - _sequence(step.other, step.output, law)
    part = abs(ratio) / float(law.epsilon)
    if len(step.exact) <= _FEW_WORDS:
        moved = (
            abs(_error(step.exact, places, law) - _error(step.other, places, law))
            for places in permutations(range(len(step.exact)), law.length)
        )
        part = max(part, max(moved) / law.sensitivity)
    return Loss(ratio, part=part)


def _error(counts: Sequence[int], places: Sequence[int], law: JointTop) -> int:
    """How far a sequence is from the largest counts."""
    tops = sorted((int(count) for count in counts), reverse=True)[: law.length]
    return max(top - int(counts[place]) for top, place in zip(tops, places, strict=True))


def _sequence(counts: Sequence[int], places: Sequence[int], law: JointTop) -> float:
    """Logarithm of a sequence's probability, by counting those of every error."""
    assert law.epsilon is not None
    falling = sorted((int(count) for count in counts), reverse=True)
    tops = falling[: law.length]
    within: Counter[int] = Counter()
    for error in sorted({max(0, top - count) for top in tops for count in falling}):
        ways = 1
        for place, top in enumerate(tops):
            ways *= max(0, sum(count >= top - error for count in falling) - place)
        within[error] = ways
    rate = float(law.epsilon / (2 * law.sensitivity))
    terms, before = [], 0
    for error, ways in within.items():
        if ways > before:
            terms.append(math.log(ways - before) - rate * error)
        before = ways
    return -rate * _error(counts, places, law) - float(special.logsumexp(terms))


@_loss.register
def _(law: StableSets, step: ForcedStep) -> Loss:
    _same(len(step.exact), len(step.other), step)
    assert law.top.test_epsilon is not None
    epsilon, ratio, part, failed = float(law.top.test_epsilon), 0.0, 0.0, 0.0
    for (words, here), (others, there), said in zip(
        step.exact, step.other, step.output, strict=True
    ):
        least = law.top.threshold
        if said is None:
            mine = math.log1p(-_tail(least - here, epsilon)) - math.log1p(
                -_tail(least - there, epsilon)
            )
        elif words == others:
            mine = math.log(_tail(least - here, epsilon)) - math.log(_tail(least - there, epsilon))
        else:
            mine, failed = 0.0, failed + _tail(least - here, epsilon)
        ratio += mine
        part = max(part, abs(mine) / epsilon, failed / float(law.top.delta))
    return Loss(ratio, part=part, failed=failed)


@_loss.register
def _(law: ThresholdNoises, step: ForcedStep) -> Loss:
    _same(step.exact, step.other, step)
    return Loss()


def _of_tests(steps: Sequence[ForcedStep]) -> Loss:
    """Equation (5), of tests under the noise of one threshold."""
    law = steps[0].law
    assert isinstance(law, AreBelow) and law.vector.epsilon is not None
    epsilon = float(law.vector.epsilon) / (2 * law.vector.spread)
    far = math.ceil(_FAR / epsilon)
    # piecewise exponentials in between: coarser sums of many thousand terms are as exact as floats
    noises = np.arange(-far, far + 1, max(1, far // _TERMS))
    ratio = 0.0
    for sign, which in ((1, "exact"), (-1, "other")):
        logs = -epsilon * np.abs(noises)
        for step in steps:
            _same(len(step.exact[0]), len(step.other[0]), step)
            for total, below in zip(getattr(step, which)[0], step.output.tolist(), strict=True):
                least = law.threshold + noises - int(total)
                logs = logs + _log_tails(least, epsilon, below=below)
        ratio += sign * float(special.logsumexp(logs))
    return Loss(ratio, part=abs(ratio) / float(law.vector.epsilon))


def _tail(least: int, epsilon: float) -> float:
    """P[Z >= least] of discrete Laplace noise of scale 1 / epsilon."""
    return float(np.exp(_log_tails(np.array([least]), epsilon, below=False))[0])


def _log_tails(least: np.ndarray, epsilon: float, *, below: bool) -> np.ndarray:
    """Logarithms of P[Z < least], or else of P[Z >= least]."""
    # the one is the other's mirror image: P[Z < t] = P[Z >= 1 - t]
    start = 1 - least if below else least
    outer = -epsilon * np.abs(np.where(start >= 0, start, 1 - start)) - math.log1p(
        math.exp(-epsilon)
    )
    return np.where(start >= 0, outer, np.log1p(-np.exp(np.minimum(outer, -1e-300))))


def _same(here: object, there: object, step: ForcedStep) -> None:
    if here != there:
        raise Diverged(f"stream {step.stream!r}: inputs of {here} and of {there} on a neighbour")
