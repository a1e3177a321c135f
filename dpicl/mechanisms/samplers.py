"""Exact samplers: integer arithmetic only, no floating point between the bits and the noise.

Trust       none of its own: mechanisms call these with a secret stream.
Unit        -
Neighbours  -
Guarantee   none spent: samplers touch no private value.
Paper       [CKS20] Canonne, Kamath and Steinke 2020, algorithms 1 and 2.

    (1)  P[Z = z]  proportional to  exp(-|z| / scale),  z integer     discrete Laplace
    (2)  Bernoulli(exp(-x)) for rational 0 <= x <= 1 by the alternating series

Symbols     scale a positive rational.
Not covered running time, which depends on the noise (not on the data).
"""

from __future__ import annotations

from fractions import Fraction

from dpicl.errors import ParameterError
from dpicl.randomness import Stream

CITATIONS = ("canonne2020discrete",)


def bernoulli_exp(numerator: int, denominator: int, stream: Stream) -> bool:
    """True with probability exp(-numerator / denominator), 0 <= fraction <= 1; equation (2)."""
    k = 1
    while stream.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def discrete_laplace(scale: Fraction, stream: Stream) -> int:
    """One integer of law (1).

    Raises:
        ParameterError: the scale is not positive.
    """
    if scale <= 0:
        raise ParameterError("scale", scale, "a positive rational")
    t, s = scale.numerator, scale.denominator
    while True:
        fine = stream.below(t)
        if not bernoulli_exp(fine, t, stream):
            continue
        coarse = 0
        while bernoulli_exp(1, 1, stream):
            coarse += 1
        magnitude = (fine + t * coarse) // s
        if stream.below(2):
            return magnitude
        if magnitude:
            return -magnitude
