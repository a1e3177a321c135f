"""Counts with discrete Laplace noise, and the most frequent category by a noisy histogram.

Trust       Central: the curator reads exact counts; only noisy ones leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row more or less moves one count by one.
Guarantee   epsilon-DP, delta = 0, for a whole histogram over public categories: every
            category gets noise whether or not it occurs. The argmax is post-processing.
Paper       [GRS09] the geometric mechanism; DP-TabICL section V-E, "Categorical".

    (1)  released_v = count_v + Z_v,   Z_v discrete Laplace of scale 1 / epsilon

Symbols     v runs over the contract's categories; epsilon in nats.
Not covered replace-one (two counts move: twice the cost); ties, broken by contract order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from dpicl.accounting.guarantee import Guarantee, Neighbours, pure_guarantee
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.samplers import discrete_laplaces


def exact_epsilon(epsilon: float | Fraction) -> Fraction | None:
    """The epsilon as a rational that is not larger; None stands for infinity. Raises
    ParameterError: epsilon is NaN or not positive.
    """
    if not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number > 0, or inf")
    return None if math.isinf(epsilon) else Fraction(epsilon)


@dataclass(frozen=True)
class LaplaceCounts:
    """Equation (1) for counts that one row moves by `sensitivity` at most, added up."""

    epsilon: Fraction
    sensitivity: int = 1

    def draw(self, exact: Sequence[int], stream: Stream) -> list[int]:
        """Noisy counts, as many."""
        noise = discrete_laplaces(self.sensitivity / self.epsilon, len(exact), stream)
        return [count + more for count, more in zip(exact, noise, strict=True)]


def noisy_counts(
    counts: Sequence[int], *, epsilon: Fraction | None, stream: Stream, sensitivity: int = 1
) -> list[int]:
    """Equation (1) on every count, all at the cost of epsilon; exact counts at epsilon = infinity
    (None). `sensitivity`: by how much one row moves them, added up. Raises TypeError: a count is no
    whole number, and noise would leave its fraction as it is.
    """
    if epsilon is None:
        return list(counts)
    return stream.passes(LaplaceCounts(epsilon, sensitivity), [*map(operator.index, counts)])


def noisy_modes(
    histograms: Sequence[Sequence[int]], *, epsilon: Fraction | None, stream: Stream
) -> list[int]:
    """Index of the largest noisy count of every histogram, the first of equals; each at the cost of
    epsilon.
    """
    noisy = iter(
        noisy_counts(
            [count for counts in histograms for count in counts], epsilon=epsilon, stream=stream
        )
    )
    modes = []
    for counts in histograms:
        largest = list(islice(noisy, len(counts)))
        modes.append(largest.index(max(largest)))
    return modes


def guarantee(epsilon: Fraction | None) -> Guarantee:
    """The cost of one histogram (or one count)."""
    return pure_guarantee(
        "discrete-laplace",
        epsilon,
        ("sensitivity", 1),
        neighbours=Neighbours.ADD_OR_REMOVE_ONE,
    )
