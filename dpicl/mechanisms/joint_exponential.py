"""The words with the most votes among a public list, all together, by the joint exponential
mechanism.

Trust       Central: the curator reads exact counts; only the words leave, in their order.
Unit        One row, or what the caller states.
Neighbours  stated by the caller, with the sensitivity D: the most by which one row moves (1). A row
            that changes one answer moves every count by at most 1, up or down, and so (1) by at
            most 2. (Counts that all move the same way have D = 1.)
Guarantee   epsilon-DP, delta = 0.
Paper       [GJMR22] Gillenwater, Joseph, Munoz Medina and Ribero, joint top-k (arXiv 2201.12333),
            as used by DP-ICL (arXiv 2305.01639). Their sampler works in floating point; (4) is
            ours.

    (1)  t(s) = max_j (c_(j) - c_(s_j)),  the error of a sequence of k different words, never below
         0
    (2)  P[s]  proportional to  exp(-epsilon t(s) / (2 D))
    (3)  N(t) = prod_j (n_j(t) - j + 1),  n_j(t) = #{w: c_w >= c_(j) - t}:  sequences of error at
         most t, since the sets that are counted contain each other
    (4)  t by the weights (N(t) - N(t-1)) exp(-epsilon t / (2 D)), rounded to whole numbers; then
         the first j whose word has error t; then words uniformly: before j of error < t, j, and any
         after

A weight is rounded by less than 2^-102 of it, so two laws differ by less than 2^-98 more than by
epsilon, which is far below the last digit of any epsilon that is stated. All else is exact.

Symbols     c_w counts, c_(j) the j-th largest, k the length, j = 1 .. k; epsilon in nats.
Not covered running time, which depends on the counts; words that are not on the list.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MIN_EMIN, Context, Decimal
from fractions import Fraction
from itertools import accumulate

from dpicl.accounting.guarantee import Guarantee, Neighbours, pure_guarantee
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream

LARGEST_EPSILON = 10_000
"""Beyond it weights would have more digits than is sensible."""
_BITS, _DIGITS = 104, 60


def joint_top(
    counts: Sequence[int],
    *,
    length: int,
    epsilon: Fraction | None,
    sensitivity: int,
    stream: Stream,
) -> tuple[int, ...]:
    """Places of so many different words by equation (2); the true ones at epsilon = infinity
    (None), equals in any order. `counts`: shape (words,), whole numbers.
    Raises ParameterError: a length that is not in 1..words, an epsilon not in (0, 10000], or a
    sensitivity below 1.
    """
    _check(epsilon, sensitivity)
    if not 1 <= length <= len(counts):
        raise ParameterError(
            "length", length, f"a whole number in 1..{len(counts)}, the number of words"
        )
    top = JointTop(length, epsilon, sensitivity)
    return top.draw(counts, stream) if epsilon is None else stream.passes(top, counts)


@dataclass(frozen=True)
class JointTop:
    """Equation (2)."""

    length: int
    epsilon: Fraction | None
    sensitivity: int

    def draw(self, exact: Sequence[int], stream: Stream) -> tuple[int, ...]:
        """Places of so many different words."""
        exponent = None if self.epsilon is None else self.epsilon / (2 * self.sensitivity)
        return joint_law(exact, length=self.length, exponent=exponent).draw(stream)


def guarantee(epsilon: Fraction | None, *, sensitivity: int, neighbours: Neighbours) -> Guarantee:
    """The cost of one `joint_top`, where one row has this sensitivity under these neighbours.
    Raises ParameterError: an epsilon not in (0, 10000], or a sensitivity below 1.
    """
    _check(epsilon, sensitivity)
    parameters = ("sensitivity", sensitivity), ("neighbours", neighbours.value)
    return pure_guarantee("joint-exponential", epsilon, *parameters, neighbours=neighbours)


@dataclass(frozen=True)
class Sequences:
    """Those of one error: n_j of equation (3) for it and for less; and in how many of them the
    first whole error is at j or before.
    """

    within: tuple[int, ...]
    below: tuple[int, ...]
    firsts: tuple[int, ...]

    def draw(self, stream: Stream) -> list[int]:
        """Ranks by falling count of one of them, all alike; (4) after t."""
        first = _drawn(self.firsts, stream)
        ranks = list[int]()
        for j, (most, less) in enumerate(zip(self.within, self.below, strict=True)):
            start = less if j == first else 0
            end = less if j < first else most
            taken = sorted(rank for rank in ranks if rank >= start)
            rank = start + stream.below(end - start - len(taken))
            for place in taken:
                rank += place <= rank
            ranks.append(rank)
        return ranks


@dataclass(frozen=True)
class JointLaw:
    """Equation (4) for some counts: places by falling count, errors that occur, their sequences,
    and the weights up to each.
    """

    places: tuple[int, ...]
    errors: tuple[int, ...]
    sequences: tuple[Sequences, ...]
    totals: tuple[int, ...]

    def draw(self, stream: Stream) -> tuple[int, ...]:
        """The places of one sequence."""
        return tuple(
            self.places[rank] for rank in self.sequences[_drawn(self.totals, stream)].draw(stream)
        )


def joint_law(counts: Sequence[int], *, length: int, exponent: Fraction | None) -> JointLaw:
    """The law of sequences by exp(-exponent t), for 1 <= length <= words; those without error
    alone, where the exponent is infinite (None).
    """
    places = sorted(range(len(counts)), key=lambda place: -counts[place])
    rising = [-operator.index(counts[place]) for place in places]
    errors = sorted(
        {other - top for top in set(rising[:length]) for other in set(rising) if other >= top}
    )
    if exponent is None:
        errors, exponent = errors[:1], Fraction(0)
    sequences = []
    for error in errors:  # words before j have less, words after it any, and no word comes twice
        within, below = (
            [bisect_right(rising, top + most) for top in rising[:length]]
            for most in (error, error - 1)
        )
        before = accumulate(
            (max(0, size - j) for j, size in enumerate(below)), operator.mul, initial=1
        )
        after = [
            *accumulate((within[j] - j for j in range(length - 1, 0, -1)), operator.mul, initial=1)
        ][::-1]
        firsts = (
            here * (most - less) * rest
            for here, most, less, rest in zip(before, within, below, after, strict=False)
        )
        sequences.append(Sequences(tuple(within), tuple(below), tuple(accumulate(firsts))))
    bits = _BITS + math.ceil(exponent * errors[-1] * Fraction(3, 2))
    context = Context(prec=_DIGITS, Emin=MIN_EMIN)
    divided = (
        context.divide(Decimal(-score.numerator), Decimal(score.denominator))
        for score in (exponent * error for error in errors)
    )
    powers = (Fraction(context.exp(quotient)) for quotient in divided)  # each up to 10^-50 of it
    weights = (
        int((sequence.firsts[-1] << bits) * power)
        for sequence, power in zip(sequences, powers, strict=True)
    )
    return JointLaw(tuple(places), tuple(errors), tuple(sequences), tuple(accumulate(weights)))


def _drawn(totals: Sequence[int], stream: Stream) -> int:
    """A place, each with the weight by which its total exceeds the one before."""
    return bisect_right(totals, stream.below(totals[-1]))


def _check(epsilon: Fraction | None, sensitivity: int) -> None:
    if epsilon is not None and not 0 < epsilon <= LARGEST_EPSILON:
        raise ParameterError(
            "epsilon", epsilon, f"a rational in (0, {LARGEST_EPSILON}], or None for infinity"
        )
    if not (isinstance(sensitivity, int) and sensitivity >= 1):
        raise ParameterError("sensitivity", sensitivity, "a whole number >= 1")
