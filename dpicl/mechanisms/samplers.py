"""Exact samplers: whole numbers only between the bits and the noise; no rounding decides anything.

Trust       none of its own: mechanisms call these with a secret stream.
Unit        -
Neighbours  -
Guarantee   none spent: samplers touch no private value.
Paper       [GRS09] Ghosh, Roughgarden and Sundararajan 2009 for (1) as the two-sided geometric law
            (2); the digits of (3) follow from it.

    (1)  P[Z = z]  proportional to  exp(-|z| / scale),  z integer     discrete Laplace
    (2)  Z = G - G',  P[G = g]  proportional to  exp(-g / scale),  g = 0, 1, 2 ...
    (3)  the binary digits of G are independent, since exp(-g / scale) is the product of
         exp(-2^j / scale) over its ones:  P[digit j is 1] = 1 / (1 + exp(2^j / scale))

A digit of (3) is 1 where a uniform number U is below its probability p. U and p are compared
64 binary digits at a time, as far as they agree, so that the outcome is exact for a real p.

Symbols     scale a positive rational; j = 0, 1, 2 ...
Not covered running time depends on the noise in about one of 2^58 draws.
"""

from __future__ import annotations

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


def leading_word(rate: Fraction) -> int:
    """The first 64 binary digits of e^-rate."""
    return _leading(rate, 0, _WORD)


def goes_on_below(rate: Fraction, stream: Stream) -> bool:
    """Whether a uniform number that begins as e^-rate does, by 64 binary digits, is below it."""
    return _below(rate, 0, _WORD, stream)


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
