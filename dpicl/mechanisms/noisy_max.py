"""Report noisy max: the candidate with the most votes after noise; only its index leaves.

Trust       Central: the curator reads exact votes; only an index leaves.
Unit        One row, or what the caller states.
Neighbours  stated by the caller, with what one row can do to the votes. For `exponential_max` that
            is the spread: the most by which one row moves the difference of two candidates. A row
            that adds 1 to any of the votes has spread 1; one that moves a vote, or replaces a row
            that adds 1, has spread 2.
Guarantee   `exponential_max`: epsilon-DP, delta = 0. `gaussian_max`: that of `discrete_gaussian`,
            of which it is the post-processing. `bounded_range_max`: range epsilon, the least and
            the largest log-ratio of neighbours' probabilities being at most epsilon apart;
            `noisy_steps` says what that costs.
Paper       [DR19] Durfee and Rogers, bounded range (arXiv 1905.04273), for (4). [MS20] McKenna and
            Sheldon, permute-and-flip (arXiv 2010.12603); [DKSSWXZ21] Ding et al. (arXiv
            2105.07260): it is equal in law to the argmax after exponential noise (2).

    (1)  P[heads_i] = exp(-epsilon (max_j v_j - v_i) / spread), independently; the winner is
         uniform among the heads
    (2)  argmax_i v_i + E_i,  E_i exponential of mean spread / epsilon
    (3)  argmax_i v_i + Z_i,  Z_i discrete Gaussian; uniform among equals
    (4)  P[i] proportional to exp(-epsilon (max_j v_j - v_i) / spread):  a uniform candidate, again
         until its coin (1) shows heads

Permute-and-flip visits candidates in random order and stops at the first heads. Coins do not
depend on the order, so that is a uniform choice among the heads, of which there is always one.
(1) loses epsilon at most: in (2) i wins where E_i > t, t = max_(j != i) (v_j + E_j) - v_i; one row
moves t by at most the spread, and P[E_i > t + spread] >= e^-epsilon P[E_i > t].

At epsilon = infinity each is its own limit: no noise, uniform among the largest.

(4) has range epsilon: a log-ratio is epsilon / spread times what one row moves v_i by, and a term
    that is the same for all i.

Symbols     v_i votes, or probabilities scaled to whole numbers; epsilon in nats.
Not covered running time, which in `exponential_max` and `bounded_range_max` depends on the votes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

import numpy as np

from dpicl.accounting.guarantee import Guarantee, Neighbours, pure_guarantee
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.samplers import bernoulli_exps, uniforms, uniforms_below

_BITS, _INT64_BITS, _FEWEST_BITS = 62, 63, 12
"""Of the words that decide a coin: most, most beside a denominator in 64 bits, and fewest that are
worth it.
"""
_LARGEST = (1 << _INT64_BITS) - 1
_TRIED_FIRST, _TRIED_MOST = 64, 1024
"""Candidates of (4) that are tossed for at once; twice as many in each further round."""


def exponential_max(
    votes: Iterable[int], *, epsilon: Fraction | None, spread: int, stream: Stream
) -> int:
    """Index of the winner by equation (1); epsilon = infinity is None.
    `votes`: shape (candidates,), whole numbers of any size and sign.
    Raises ParameterError: no candidates, epsilon <= 0, or the spread is no whole number >= 1.
    """
    return int(exponential_maxima([votes], epsilon=epsilon, spread=spread, stream=stream)[0])


def exponential_maxima(
    candidate_sets: Iterable[Iterable[int]],
    *,
    epsilon: Fraction | None,
    spread: int,
    stream: Stream,
) -> np.ndarray:
    """`exponential_max` of every candidate set, each at the full epsilon.
    `candidate_sets`: votes, shape (sets, candidates). Returns shape (sets,), int64.
    """
    votes = _whole(candidate_sets)
    _check(epsilon, spread)
    if epsilon is None:
        return _largest(votes, stream)
    return stream.passes(PermuteAndFlip(epsilon, spread), votes)


@dataclass(frozen=True)
class PermuteAndFlip:
    """Equation (1), for every row of votes of shape (sets, candidates)."""

    epsilon: Fraction
    spread: int

    def draw(self, exact: np.ndarray, stream: Stream) -> np.ndarray:
        """Index of every winner: shape (sets,), int64."""
        gaps = (exact.max(axis=1, keepdims=True) - exact) * self.epsilon.numerator
        heads = bernoulli_exps(gaps.ravel(), self.epsilon.denominator * self.spread, stream)
        return _one_of(heads.reshape(exact.shape), stream)


def _largest(votes: np.ndarray, stream: Stream) -> np.ndarray:
    """The column of a uniform choice among the largest of every row; shape (rows,)."""
    return _one_of(np.asarray(votes == votes.max(axis=1, keepdims=True), dtype=bool), stream)


def _one_of(heads: np.ndarray, stream: Stream) -> np.ndarray:
    """The column of a uniform choice among the heads of every row; shape (rows,)."""
    counts = heads.sum(axis=1)
    chosen = np.zeros(len(heads), dtype=np.int64)
    for count in np.unique(counts):
        chosen[counts == count] = uniforms(int(count), int((counts == count).sum()), stream)
    return (heads.cumsum(axis=1) > chosen[:, np.newaxis]).argmax(axis=1)


def gaussian_max(votes: Iterable[int], *, variance: Fraction | None, stream: Stream) -> int:
    """Index of the winner by equation (3); epsilon = infinity is a variance of None.
    Raises ParameterError: no candidates, or the variance is not positive, or larger than 2^80.
    """
    return int(gaussian_maxima([votes], variance=variance, stream=stream)[0])


def gaussian_maxima(
    candidate_sets: Iterable[Iterable[int]], *, variance: Fraction | None, stream: Stream
) -> np.ndarray:
    """`gaussian_max` of every candidate set: shape (sets, candidates) to (sets,), int64."""
    votes = _whole(candidate_sets)
    noisy = noisy_sums(votes.ravel(), variance=variance, stream=stream)
    return _largest(np.array(noisy, dtype=object).reshape(votes.shape), stream)


def bounded_range_max(
    votes: Iterable[int], *, epsilon: Fraction | None, spread: int, stream: Stream
) -> int:
    """Index of the winner by equation (4); epsilon = infinity is None.
    Raises ParameterError: no candidates, epsilon <= 0, or the spread is no whole number >= 1.
    """
    return int(bounded_range_maxima([votes], epsilon=epsilon, spread=spread, stream=stream)[0])


def bounded_range_maxima(
    candidate_sets: Iterable[Iterable[int]],
    *,
    epsilon: Fraction | None,
    spread: int,
    stream: Stream,
) -> np.ndarray:
    """`bounded_range_max` of every candidate set, each at the full epsilon; sets may be of
    different lengths. Returns shape (sets,), int64.
    """
    _check(epsilon, spread)
    sets = [
        votes if _is_whole(votes) and len(votes) else _whole([votes])[0] for votes in candidate_sets
    ]
    if epsilon is None:
        return np.array(
            [int(_largest(votes[np.newaxis], stream)[0]) for votes in sets], dtype=np.int64
        )
    return stream.passes(BoundedRange(epsilon, spread), sets)


@dataclass(frozen=True)
class BoundedRange:
    """Equation (4), for every set of votes."""

    epsilon: Fraction
    spread: int

    def draw(self, exact: Sequence[np.ndarray], stream: Stream) -> np.ndarray:
        """Index of every winner: shape (sets,), int64."""
        gaps, denominator, bits = _exponents(exact, self.epsilon, self.spread)
        sizes = np.array([len(votes) for votes in exact], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        chosen = np.zeros(len(exact), dtype=np.int64)
        waiting = np.arange(len(exact))
        count = _TRIED_FIRST
        # the first success of independent tries: how many are made at once changes nothing
        while len(waiting):
            tried = uniforms_below(sizes[waiting], count, stream)
            heads = bernoulli_exps(
                gaps[starts[waiting, np.newaxis] + tried].ravel(), denominator, stream, bits=bits
            ).reshape(tried.shape)
            won = heads.any(axis=1)
            chosen[waiting[won]] = tried[won, heads[won].argmax(axis=1)]
            waiting, count = waiting[~won], min(2 * count, _TRIED_MOST)
        return chosen


def _exponents(
    sets: Sequence[np.ndarray], epsilon: Fraction, spread: int
) -> tuple[np.ndarray, int, int]:
    """Of (4), for all candidates of one set after another: numerators, their denominator, and the
    bits of the words that toss for them.
    """
    bounds = [(int(votes.max()), int(votes.min())) for votes in sets]
    denominator = epsilon.denominator * spread
    widest = max((most - least for most, least in bounds), default=0)
    bits = _INT64_BITS - denominator.bit_length()
    fits = max(widest, 1) * epsilon.numerator <= _LARGEST and all(
        least >= -_LARGEST and most <= _LARGEST for most, least in bounds
    )
    # small numbers are compared faster; ties of few bits are settled exactly
    kind, bits = (np.int64, min(bits, _BITS)) if fits and bits >= _FEWEST_BITS else (object, _BITS)
    gaps = [
        (most - votes.astype(kind)) * epsilon.numerator
        for (most, _), votes in zip(bounds, sets, strict=True)
    ]
    return np.concatenate([np.zeros(0, dtype=kind), *gaps]), denominator, bits


def exponential_guarantee(
    epsilon: Fraction | None, *, spread: int, neighbours: Neighbours
) -> Guarantee:
    """The cost of one `exponential_max`, where one row has this spread under these neighbours.
    Raises ParameterError: epsilon <= 0, or the spread is no whole number >= 1.
    """
    _check(epsilon, spread)
    return pure_guarantee(
        "noisy-max",
        epsilon,
        ("spread", spread),
        ("neighbours", neighbours.value),
        neighbours=neighbours,
    )


def _whole(candidate_sets: Iterable[Iterable[int]]) -> np.ndarray:
    rows = [
        votes.tolist() if _is_whole(votes) else [operator.index(vote) for vote in votes]
        for votes in candidate_sets
    ]
    candidates = {len(row) for row in rows} or {0}
    if len(candidates) > 1 or 0 in candidates:
        raise ParameterError(
            "candidates", sorted(candidates), "at least one, and as many in every set"
        )
    return np.array(rows, dtype=object)


def _is_whole(votes: Iterable[int]) -> TypeGuard[np.ndarray]:
    """Whether they are an array of whole numbers, whose items need not be looked at."""
    return isinstance(votes, np.ndarray) and votes.ndim == 1 and votes.dtype.kind in "iu"


def _check(epsilon: Fraction | None, spread: int) -> None:
    if epsilon is not None and not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a rational > 0, or None for infinity")
    if not (isinstance(spread, int) and spread >= 1):
        raise ParameterError("spread", spread, "a whole number >= 1")
