"""Whole-number sums with discrete Gaussian noise.

Trust       Central: the curator reads exact sums; only noisy ones leave.
Unit        One row, or what the caller states.
Neighbours  stated by the caller, with the sensitivity that goes with them: one row more adds 1
            to one vote (D = 1) or moves one vote to another (D = 2).
Guarantee   (epsilon, delta)-DP, epsilon from the accountant: by the discrete Gaussian's own loss
            distribution, or by a continuous Gaussian that is shown to bound it
            (`accounting.discrete_gaussian` says which and why).
Paper       [CKS20] Canonne, Kamath and Steinke 2020.

    (1)  released_i = sum_i + Z_i,   P[Z_i = z]  proportional to  exp(-z^2 / (2 sigma^2))

Symbols     sigma^2 an exact rational; D a whole number, at least |sum - sum'|^2 for all neighbours.
Not covered sums that are not whole: scale and round them first, each row's part on its own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpicl.accounting.accountant import price
from dpicl.accounting.events import pure
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.pure import discrete_gaussian
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.samplers import discrete_gaussians


@dataclass(frozen=True)
class GaussianSums:
    """Equation (1)."""

    variance: Fraction

    def draw(self, exact: Sequence[int], stream: Stream) -> list[int]:
        """Noisy sums, as many."""
        noise = discrete_gaussians(self.variance, len(exact), stream).tolist()
        return [total + more for total, more in zip(exact, noise, strict=True)]


def noisy_sums(sums: Iterable[int], *, variance: Fraction | None, stream: Stream) -> list[int]:
    """Equation (1) on every sum; the exact sums at epsilon = infinity (None).
    `sums`: whole numbers of any size, Python's or numpy's.
    Raises ParameterError: the variance is not positive, or larger than 2^80.
    """
    exact = [operator.index(total) for total in sums]
    return exact if variance is None else stream.passes(GaussianSums(variance), exact)


def guarantee(
    variance: Fraction | None,
    *,
    squared_sensitivity: int,
    neighbours: Neighbours,
    delta: float,
    unit: str = "row",
) -> Guarantee:
    """The cost of one release of all sums together, at this delta; `squared_sensitivity` is D.
    Raises ParameterError: the variance is below 1/16 or D no whole number >= 1; PrivacyError: delta
    is outside (0, 1), or no price is known.
    """
    if variance is None:
        return Guarantee(math.inf, 0.0, neighbours, unit, pure(math.inf))
    event = discrete_gaussian(
        variance=variance, squared_sensitivity=squared_sensitivity, neighbours=neighbours
    )
    return price(event, neighbours=neighbours, unit=unit, delta=delta)
