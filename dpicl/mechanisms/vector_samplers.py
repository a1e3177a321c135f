"""Exact samplers that draw many at once: whole numbers only between the bits and the noise.

Trust       none of its own: mechanisms call these with a secret stream.
Unit        -
Neighbours  -
Guarantee   none spent: samplers touch no private value but the exponents of a noisy maximum.
Paper       [CKS20] Canonne, Kamath and Steinke 2020, algorithms 1 to 3.

    (1)  Bernoulli(exp(-x)), 0 <= x <= 1: the first k at which Bernoulli(x / k) fails is odd
    (2)  Bernoulli(exp(-x)), x = n + y: a uniform number is below e^-n, and (1) of y
    (3)  P[Z = z]  proportional to  exp(-z^2 / (2 sigma^2)),  z integer: a discrete Laplace draw
         of scale t = floor(sigma) + 1, kept with probability exp(-(|z| - sigma^2 / t)^2 / (2
         sigma^2))

A uniform word w of b bits decides Bernoulli(p) unless w = floor(p 2^b); then one more exact draw
does, of probability p 2^b - floor(p 2^b). So p is met exactly, whatever b. For e^-n the further
digits of both numbers are compared, see `samplers`, as are those of the geometric draws of ratio
1/e in (3).

Symbols     sigma^2 a positive rational; x a rational >= 0; k = 1, 2, ...
Not covered running time, which depends on the noise and, in (2), on the exponents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.samplers import SMALLEST_POWER, geometrics, goes_on_below, leading_word

LARGEST_VARIANCE = 1 << 80
"""Beyond it a draw might not fit into 64 bits."""
_BITS = 62
_INT64_BITS = 63
_BLOCK = 1 << 14


def bernoulli_exps(
    numerators: Sequence[int] | np.ndarray, denominator: int, stream: Stream, *, bits: int = _BITS
) -> np.ndarray:
    """True with probability exp(-numerator / denominator) each, independently; equations (1) and
    (2).

    Args:
        numerators: shape (draws,), whole numbers >= 0 of any size; as int64, where denominator and
            bits fit 63 bits together, all is int64.
        bits: of the words that decide all but ties, 1 to 62; the law does not depend on it.
    Returns shape (draws,), bool.
    """
    is_small = (
        isinstance(numerators, np.ndarray)
        and numerators.dtype == np.int64
        and denominator.bit_length() + bits <= _INT64_BITS
    )
    exact = np.asarray(numerators) if is_small else np.array(numerators, dtype=object)
    wholes = exact // denominator
    rests = exact % denominator
    outcomes = _bernoulli_exps_below_one(rests, denominator, stream, bits)
    large = np.flatnonzero(outcomes & (wholes > 0))
    outcomes[large] = _bernoulli_exps_of_wholes(wholes[large], stream)
    return outcomes


def _bernoulli_exps_of_wholes(wholes: np.ndarray, stream: Stream) -> np.ndarray:
    """True with probability e^-n each, n = 1, 2, ... of any size: shape (draws,), bool."""
    limits = _powers()[np.minimum(wholes, SMALLEST_POWER).astype(np.int64)]
    words = stream.words(len(wholes), np.uint64)
    below: np.ndarray = words < limits
    for tie in np.flatnonzero(words == limits):
        below[tie] = goes_on_below(Fraction(int(wholes[tie])), stream)
    return below


@lru_cache(maxsize=1)
def _powers() -> np.ndarray:
    """The first 64 binary digits of e^-n, n = 1, 2, ...; from `SMALLEST_POWER` on all are zero. The
    place of 0 is never asked for.
    """
    return np.array(
        [0, *(leading_word(Fraction(n)) for n in range(1, SMALLEST_POWER)), 0], dtype=np.uint64
    )


def _bernoulli_exps_below_one(
    rests: np.ndarray, denominator: int, stream: Stream, bits: int
) -> np.ndarray:
    """Equation (1) for rests / denominator in 0..1; floor(floor(a) / k) = floor(a / k) saves a
    division of large numbers.
    """
    # rests << bits is below denominator << bits
    scaled = ((rests << bits) // denominator).astype(np.int64)
    odd = np.ones(len(rests), dtype=bool)
    alive = np.arange(len(rests))
    k = 1
    while len(alive):
        words = (stream.words(len(alive), np.uint64) >> np.uint64(64 - bits)).astype(np.int64)
        limits = scaled[alive] // k
        goes_on = words < limits
        for tie in np.flatnonzero(words == limits):
            goes_on[tie] = stream.below(denominator * k) < (int(rests[alive[tie]]) << bits) % (
                denominator * k
            )
        odd[alive[~goes_on]] = k % 2 == 1
        alive, k = alive[goes_on], k + 1
    return odd


def uniforms(bound: int, count: int, stream: Stream) -> np.ndarray:
    """Exactly uniform in 0..bound-1, bound at most 2^63; shape (count,), int64."""
    bits = (bound - 1).bit_length()
    if bits == 0:
        return np.zeros(count, dtype=np.int64)
    drawn = np.zeros(0, dtype=np.int64)
    while len(drawn) < count:
        words = (stream.words(count, np.uint64) >> np.uint64(64 - bits)).astype(np.int64)
        drawn = np.concatenate([drawn, words[words < bound]])
    return drawn[:count]


def uniforms_below(bounds: np.ndarray, count: int, stream: Stream) -> np.ndarray:
    """Exactly uniform in 0..bound-1, so many for each of these bounds, 1 to 2^62; shape (bounds,
    count), int64.
    """
    shifts = np.repeat(
        np.array(
            [64 - max(1, (bound - 1).bit_length()) for bound in bounds.tolist()], dtype=np.uint64
        ),
        count,
    )
    limits = np.repeat(bounds, count)
    drawn = np.zeros(len(limits), dtype=np.int64)
    missing = np.arange(len(limits))
    while len(missing):
        words = (stream.words(len(missing), np.uint64) >> shifts[missing]).astype(np.int64)
        below = words < limits[missing]
        drawn[missing[below]], missing = words[below], missing[~below]
    return drawn.reshape(-1, count)


def discrete_gaussians(variance: Fraction, count: int, stream: Stream) -> np.ndarray:
    """Independent whole numbers of law (3), sigma^2 = `variance`; shape (count,), int64.
    Raises ParameterError: the variance is not positive, or larger than 2^80.
    """
    if not 0 < variance <= LARGEST_VARIANCE:
        raise ParameterError("variance", variance, "a positive rational, at most 2^80")
    n, d = variance.numerator, variance.denominator
    t = math.isqrt(n // d) + 1
    accepted = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing > 0:
        # algorithm 2: what is accepted of so many tries at scale t
        fine = uniforms(t, min(3 * missing + 8, _BLOCK), stream)
        fine = fine[bernoulli_exps(fine, t, stream)]
        magnitudes = fine + t * np.array(geometrics(Fraction(1), len(fine), stream), dtype=np.int64)
        negative = uniforms(2, len(fine), stream) == 1
        values = np.where(negative, -magnitudes, magnitudes)[~(negative & (magnitudes == 0))]
        excess = np.abs(values).astype(object) * (d * t) - n
        accepted.append(values[bernoulli_exps(excess * excess, 2 * n * d * t * t, stream)])
        missing -= len(accepted[-1])
    return np.concatenate(accepted)[:count]
