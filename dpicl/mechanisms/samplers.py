"""Exact samplers: whole numbers only between the bits and the noise; no rounding decides anything.

Trust       none of its own: mechanisms call these with a secret stream.
Unit        -
Neighbours  -
Guarantee   none spent: samplers touch no private value but the exponents of a noisy maximum.
Paper       [GRS09] Ghosh, Roughgarden and Sundararajan 2009 for (1) as the two-sided geometric law
            (2); the digits of (3) follow from it. [CKS20] Canonne, Kamath and Steinke 2020,
            algorithms 1 to 3, for (4) to (6), which are drawn many at once.

    (1)  P[Z = z]  proportional to  exp(-|z| / scale),  z integer     discrete Laplace
    (2)  Z = G - G',  P[G = g]  proportional to  exp(-g / scale),  g = 0, 1, 2 ...
    (3)  the binary digits of G are independent, since exp(-g / scale) is the product of
         exp(-2^j / scale) over its ones:  P[digit j is 1] = 1 / (1 + exp(2^j / scale))
    (4)  Bernoulli(exp(-x)), 0 <= x <= 1: the first k at which Bernoulli(x / k) fails is odd
    (5)  Bernoulli(exp(-x)), x = n + y: a uniform number is below e^-n, and (4) of y
    (6)  P[Z = z]  proportional to  exp(-z^2 / (2 sigma^2)),  z integer: a discrete Laplace draw
         of scale t = floor(sigma) + 1, kept with probability exp(-(|z| - sigma^2 / t)^2 / (2
         sigma^2))

A digit of (3) is 1 where a uniform number U is below its probability p. U and p are compared
64 binary digits at a time, as far as they agree, so that the outcome is exact for a real p; so are
a uniform number and e^-n in (5). The geometric draws of (6) have ratio 1/e.

A uniform word w of b bits decides Bernoulli(p) unless w = floor(p 2^b); then one more exact draw
does, of probability p 2^b - floor(p 2^b). So p is met exactly, whatever b.

Symbols     scale and sigma^2 positive rationals; x a rational >= 0; j = 0, 1, 2 ...; k = 1, 2, ...
Not covered running time depends on the noise, in (1) in about one of 2^58 draws, and, in (5), on
            the exponents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream

_WORD = 64
SMALLEST_POWER = 45
"""e^-45 < 2^-64: the first word of a probability this small is nothing but zeros."""
_WIDEST = 62
"""Digits that a signed machine word holds with room for a difference."""


def discrete_laplaces(scale: Fraction, count: int, stream: Stream) -> list[int]:
    """`count` independent integers of law (1), by equation (2). Raises ParameterError: the scale is
    not positive.
    """
    if scale.numerator <= 0:
        raise ParameterError("scale", scale, "a positive rational")
    drawn = geometrics(scale, 2 * count, stream)
    return [up - down for up, down in zip(drawn[:count], drawn[count:], strict=True)]


def geometrics(scale: Fraction, count: int, stream: Stream) -> list[int]:
    """`count` independent draws of G by equation (3): one word for every digit, and a last one for
    all that lies beyond these digits.
    """
    first, worths = _first_words(scale)
    words = stream.words(count * len(first), np.uint64).reshape(count, len(first))
    drawn: list[int] = ((words < first)[:, :-1] @ worths).tolist()
    undecided = words == first
    if undecided.any():
        for row, digit in np.argwhere(undecided).tolist():
            drawn[row] += _undecided(scale, digit, digit == len(worths), stream) << digit
    return drawn


def _undecided(scale: Fraction, digit: int, is_last: bool, stream: Stream) -> int:
    """A digit of which the first word did not decide; for the last word the number that all digits
    from here on make.
    """
    if not is_last:
        return int(_below(_rate(scale, digit), 1, _WORD, stream))
    number, agreed = 0, _WORD
    while _below(_rate(scale, digit), 0, agreed, stream):
        number, agreed = number + 1, 0
    return number


@lru_cache(maxsize=256)
def _first_words(scale: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """The first word of every digit's probability, of which the last is zero; and what the other
    digits are worth.
    """
    digits = 0
    while _rate(scale, digits) < SMALLEST_POWER:
        digits += 1
    words = [*(_leading(_rate(scale, digit), 1, _WORD) for digit in range(digits)), 0]
    worths = np.array(
        [1 << digit for digit in range(digits)], dtype=np.int64 if digits <= _WIDEST else object
    )
    return np.array(words, dtype=np.uint64), worths


def _rate(scale: Fraction, digit: int) -> Fraction:
    return (1 << digit) / scale


def _below(rate: Fraction, plus: int, agreed: int, stream: Stream) -> bool:
    """Whether a uniform number is below 1 / (plus + e^rate), whose first `agreed` digits it has."""
    while True:
        agreed += _WORD
        word = int(stream.words(1, np.uint64)[0])
        digits = _leading(rate, plus, agreed) % (1 << _WORD)
        if word != digits:
            return word < digits


def _leading(rate: Fraction, plus: int, digits: int) -> int:
    """The leading binary digits of 1 / (plus + e^rate), plus 0 or 1: rounded down without doubt."""
    if rate >= digits:
        return 0
    precision = digits
    while True:
        low, high = (
            (1 << digits) // (plus + power) for power in exponential_bounds(rate, precision)
        )
        if low == high:
            return low
        precision *= 2


def exponential_bounds(exponent: Fraction, precision: int) -> tuple[Fraction, Fraction]:
    """Numbers of so many decimal digits on both sides of e^exponent, upper first; `decimal` rounds
    quotients as given and e^x to the nearest.
    """
    powers = []
    for rounding in (ROUND_CEILING, ROUND_FLOOR):
        context = Context(prec=precision, rounding=rounding)
        power = context.exp(
            context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
        )
        powers.append(
            Fraction(
                context.next_plus(power) if rounding == ROUND_CEILING else context.next_minus(power)
            )
        )
    return powers[0], powers[1]


LARGEST_VARIANCE = 1 << 80
"""Beyond it a draw might not fit into 64 bits."""
_BITS = 62
_INT64_BITS = 63
_BLOCK = 1 << 14


def bernoulli_exps(
    numerators: Sequence[int] | np.ndarray, denominator: int, stream: Stream, *, bits: int = _BITS
) -> np.ndarray:
    """True with probability exp(-numerator / denominator) each, independently; equations (4) and
    (5).

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
        below[tie] = _below(Fraction(int(wholes[tie])), 0, _WORD, stream)
    return below


@lru_cache(maxsize=1)
def _powers() -> np.ndarray:
    """The first 64 binary digits of e^-n, n = 1, 2, ...; from `SMALLEST_POWER` on all are zero. The
    place of 0 is never asked for.
    """
    return np.array(
        [0, *(_leading(Fraction(n), 0, _WORD) for n in range(1, SMALLEST_POWER)), 0],
        dtype=np.uint64,
    )


def _bernoulli_exps_below_one(
    rests: np.ndarray, denominator: int, stream: Stream, bits: int
) -> np.ndarray:
    """Equation (4) for rests / denominator in 0..1; floor(floor(a) / k) = floor(a / k) saves a
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
    """Independent whole numbers of law (6), sigma^2 = `variance`; shape (count,), int64.
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
