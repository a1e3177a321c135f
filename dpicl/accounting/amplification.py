"""Privacy amplification by Poisson subsampling.

Trust       central: the curator draws the subsample and keeps it secret.
Unit        as the amplified guarantee's.
Neighbours  ADD_OR_REMOVE_ONE; the theorem is refused for replace-one.
Guarantee   equation (1), pure; delta scales by q.
Paper       [LQS12] Li, Qardaji and Su 2012; DP-TabICL theorem 3 (arXiv 2403.05681).

    (1)  epsilon' = ln(1 + q (e^epsilon - 1)),   delta' = q delta

Symbols     q the public rate at which every row enters the sample on its own.
Not covered samples of a fixed size; rates that depend on the data.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.errors import ParameterError, PrivacyError

_LARGEST_EXPONENT = 700.0
"""e to this power is still a double; the other form of (1) would cancel at small rates."""


def amplified_epsilon(epsilon: float, sampling_rate: float | Fraction) -> float:
    """Equation (1), stable for large epsilon. Raises ParameterError: epsilon is negative or NaN, or
    the rate is outside (0, 1].
    """
    q = float(sampling_rate)
    if not epsilon >= 0:
        raise ParameterError("epsilon", epsilon, "a number >= 0, or inf")
    if not 0 < q <= 1:
        raise ParameterError("sampling_rate", sampling_rate, "a number in (0, 1]")
    if q == 1 or math.isinf(epsilon):
        return epsilon
    if epsilon < _LARGEST_EXPONENT:
        return math.log1p(q * math.expm1(epsilon))
    return epsilon + math.log(q + (1 - q) * math.exp(-epsilon))


def epsilon_before(amplified: float, sampling_rate: float | Fraction) -> float:
    """The epsilon that equation (1) brings down to `amplified`; never one that it brings down to
    more. Raises ParameterError: epsilon is negative or NaN, or the rate is outside (0, 1].
    """
    amplified_epsilon(amplified, sampling_rate)  # refuses parameters out of range
    q = float(sampling_rate)
    small = amplified < _LARGEST_EXPONENT
    before = (
        math.log1p(math.expm1(amplified) / q)
        if small
        else amplified - math.log(q) + math.log1p((q - 1) * math.exp(-amplified))
    )
    while math.isfinite(before) and amplified_epsilon(before, q) > amplified:
        before = math.nextafter(before, 0)
    return before


def amplify(guarantee: Guarantee, sampling_rate: Fraction) -> Guarantee:
    """The guarantee of the same mechanism run on a Poisson subsample.
    Raises PrivacyError: the guarantee is not stated for add-or-remove-one; ParameterError: the rate
    is outside (0, 1].
    """
    if guarantee.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(
            "amplification by Poisson subsampling is stated for add-or-remove-one neighbours only"
        )
    event = Event("poisson-sampled", (("sampling_rate", str(sampling_rate)),), (guarantee.event,))
    epsilon = amplified_epsilon(guarantee.epsilon, sampling_rate)
    return Guarantee(
        epsilon, float(sampling_rate) * guarantee.delta, guarantee.neighbours, guarantee.unit, event
    )
