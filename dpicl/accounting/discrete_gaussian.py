"""What discrete Gaussian noise on whole numbers costs: by its own law, or by a continuous Gaussian.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  the event states the relation that its sensitivity is for. One stated for
            add-or-remove-one is priced under replace-one too, at twice the sensitivity; the reverse
            is refused.
Guarantee   an upper bound, for adaptive composition too. Never "as the continuous one":

    (1)  variance <= 10,000 and D <= 16, no sampling: the loss distribution is that of the
         discrete Gaussian itself. A row moves the sums by whole numbers v with |v|^2 <= D.
         Coordinates are independent, so v costs what shifts of |v_1|, |v_2|, ... cost together;
         a coordinate more never costs less, so that |v|^2 = D is the worst. The curve is the
         largest over all ways to write D as a sum of squares.
    (2)  else, variance > 4: a continuous Gaussian of variance sigma^2 - 4 bounds it.

Paper       [CKS20] Canonne, Kamath and Steinke 2020, section 3. (2) is a case of Peikert's
            convolution (2010): let X ~ N(m, sigma^2 - s^2), m whole, and Y given X = x be
            discrete Gaussian around x, of scale s. By Poisson's summation the normaliser
            of Y given x is s sqrt(2 pi) (1 + c), |c| <= h = 2 sum_k exp(-2 pi^2 s^2 k^2), so that
            P[Y = y] is the density of N(m, sigma^2) at y, up to factors 1 / (1 + h) .. 1 / (1 - h),
            and the discrete Gaussian around m is that density up to 1 / (1 + h) .. 1. So noise on
            d sums is the post-processing Y of continuous noise up to a factor of at most
            ((1 + h) / (1 - h))^d: it adds less than 8 d h to epsilon, also when composed or on a
            sample. Here s = 2, h < 2e-34; a million sums add 1e-27, far below the pessimism of
            any grid in `pld`.
Symbols     sigma^2 the variance parameter, D the squared l2 sensitivity, both exact.
Not covered variances below 1/16; what (1) and (2) leave out: multiply sums by a whole number
            k, their variance by k^2 and D by k^2, and (2) covers them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from dpicl.accounting.events import number, rational
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.errors import ParameterError, PrivacyError

KIND = "discrete-gaussian"
SMALLEST_VARIANCE = Fraction(1, 16)
SMOOTHED = 4
"""s^2 of the convolution."""
_OWN_VARIANCE, _OWN_SQUARES = 10_000, 16


def discrete_gaussian(
    *, variance: Fraction, squared_sensitivity: int, neighbours: Neighbours
) -> Event:
    """Independent discrete Gaussian noise on whole sums that one row moves by an l2 norm of at most
    sqrt(squared_sensitivity). Raises ParameterError: the variance is below 1/16, or the sensitivity
    is no whole number >= 1.
    """
    if not variance >= SMALLEST_VARIANCE:
        raise ParameterError("variance", variance, f"a rational >= {SMALLEST_VARIANCE}")
    if not (isinstance(squared_sensitivity, int) and squared_sensitivity >= 1):
        raise ParameterError("squared_sensitivity", squared_sensitivity, "a whole number >= 1")
    return Event(
        KIND,
        (
            ("variance", str(Fraction(variance))),
            ("squared_sensitivity", squared_sensitivity),
            ("neighbours", neighbours.value),
        ),
    )


def variance_of(event: Event) -> Fraction:
    """The variance parameter of a `discrete-gaussian` event, which must be priced."""
    return rational(
        event, "variance", f"a rational >= {SMALLEST_VARIANCE}", least=SMALLEST_VARIANCE
    )


def squared_sensitivity_of(event: Event, neighbours: Neighbours) -> int:
    """D under the given relation.
    Raises PrivacyError: D is stated for replace-one and requested for add-or-remove-one, or is no
    whole number >= 1.
    """
    squares = number(event, "squared_sensitivity")
    if squares < 1 or squares != int(squares):
        raise PrivacyError(
            f"event {event.kind!r} states squared_sensitivity={squares}; expected a whole number "
            f">= 1"
        )
    stated = dict(event.parameters).get("neighbours")
    if stated == neighbours.value:
        return int(squares)
    if stated != Neighbours.ADD_OR_REMOVE_ONE.value:
        raise PrivacyError(
            f"event {event.kind!r} is priced for {stated} neighbours, not for {neighbours}"
        )
    return 4 * int(squares)


def has_own_price(event: Event, neighbours: Neighbours) -> bool:
    """Whether rule (1) applies."""
    return (
        variance_of(event) <= _OWN_VARIANCE
        and squared_sensitivity_of(event, neighbours) <= _OWN_SQUARES
    )


def noise_ratio(event: Event, neighbours: Neighbours) -> float:
    """Sensitivity over noise of a `gaussian` event, or of the continuous Gaussian of rule (2).

    The sensitivity is for add-or-remove-one, as always; under replace-one `pld` and `renyi` double
    it. Raises PrivacyError: there is no noise, or the variance is not above 4.
    """
    if event.kind != KIND:
        sigma = number(event, "sigma")
        if sigma == 0:
            raise PrivacyError("event 'gaussian' states sigma=0; expected a number > 0")
        return number(event, "sensitivity") / sigma
    variance, squares = variance_of(event), squared_sensitivity_of(event, neighbours)
    if variance <= SMOOTHED:
        raise PrivacyError(
            f"event {event.kind!r} of variance {variance} and squared sensitivity {squares} has "
            f"no known price here; "
            f"expected a variance above {SMOOTHED}: multiply the sums by a whole number and the "
            f"variance by its square"
        )
    halved = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    return (
        math.nextafter(math.sqrt(squares), math.inf)
        / halved
        / math.nextafter(math.sqrt(variance - SMOOTHED), 0)
    )


def sums_of_squares(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as a sum of squares: their positive roots, descending."""
    if total == 0:
        yield ()
        return
    for root in range(min(math.isqrt(total), largest or total), 0, -1):
        for rest in sums_of_squares(total - root * root, root):
            yield (root, *rest)
