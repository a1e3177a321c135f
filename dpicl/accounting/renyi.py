"""Rényi divergences of events at a fixed grid of orders: what the privacy filter adds up.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  both; every bound covers both directions of a pair. The sensitivity of a Gaussian is
            what one added or removed row moves; a replaced row moves it twice.
Guarantee   upper bounds at every order, also under adaptive composition: every numerical step
            rounds up.
Paper       [M17] Mironov, Rényi differential privacy (arXiv 1702.07476); [CKS20] proposition 5,
            discrete Gaussian; [KOV15] Kairouz, Oh and Viswanath, two points dominate; [ZDW22] Zhu,
            Dong and Wang, dominating pairs of Poisson samples. (5) is ours; Google's RDP accountant
            has no such curve.

    (1)  pure epsilon        P, Q = randomised response of log-ratios epsilon, -epsilon
    (2)  Gaussian            a s^2 / 2;  discrete Gaussian  a D / (2 sigma^2);  under replace-one 4
         times that
    (3)  sampled pure        (1-q) Q + q P  and  Q  of (1), in both orders
    (4)  sampled, add/remove (1-q) N(0) + q N(s)  and  N(0), in both orders
    (5)  sampled, replace    (1-q) N(0) + q N(s)  and  (1-q) N(0) + q N(-s)
    (6)  sequence: sums;  disjoint rows: the largest, order by order;  group of m rows: (1) at m
         epsilon, part by part
    (7)  (epsilon, delta)    (1) outside an event of probability delta; sampled: (3) outside one of
         q delta
    (8)  bounded range r     a r^2 / 8, at most r;  n of them sampled: (1-q) Q + q P and Q of
         `bounded_range`, in both orders,
                             and at most what they are without a sample

Why (5) dominates: let rows v, v' move the sum by at most s. For gamma >= 1 the hockey-stick
divergence is the largest of q N_v(A) - gamma q N_v'(A) - (gamma - 1)(1 - q) N_0(A) over sets A.
Where N_v(A) = p, Neyman and Pearson bound N_0(A) >= F(F^-1(p) - s) and N_v'(A) >= F(F^-1(p) - 2s),
F the normal distribution function, and with v = s, v' = -s half-lines reach both at once. For gamma
< 1 the two change places. The sample of the others is a mixture of such pairs, and hockey-stick
divergences are jointly convex. They bound every f-divergence, so every Rényi divergence. Why (7):
by [KOV15] two points and a revealed event of probability delta dominate; of their sample only the
share q of that event is one-sided, and what is left of it is the same on both sides.

Quadrature of (4) and (5): with r = P / Q and f(r) = r^a - 1 - a (r - 1) >= 0, the moment E_Q[r^a]
is 1 + E_Q[f(r)]. f is convex and r rises along the line, so on a cell f lies below its chord, and
the chord's mean needs only P and Q of the cell: an upper bound on any grid. Beyond the last cell a
Gaussian integral bounds the rest.

Symbols     a order, s sensitivity over noise, q sampling rate, D squared l2 sensitivity.
Not covered samples of anything but one Gaussian or pure event, or choices of one range; samples of
a fixed size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpicl.accounting import pure
from dpicl.accounting.events import leaves, number, sampling_rate, sequential
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.accounting.pure import (
    ADD,
    DISCRETE_GAUSSIAN_KIND,
    REPLACE,
    noise_ratio,
    pure_epsilon,
    squared_sensitivity_of,
    variance_of,
)
from dpicl.ground.errors import PrivacyError

ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0),
    *(
        14.0,
        16.0,
        20.0,
        24.0,
        28.0,
        32.0,
        40.0,
        48.0,
        64.0,
        80.0,
        96.0,
        128.0,
        192.0,
        256.0,
        512.0,
        1024.0,
    ),
)
"""Never change them: what a ledger has stored is summed order by order."""
_ROUNDING = 2.0**-30
"""Relative; floating-point errors of one curve are below a thousandth of it."""
_STEP, _MOST_CELLS, _NEGLIGIBLE = 0.05, 4096, 40.0
"""Width of a cell in standard deviations, cells of a grid, and how far below the moment its tails
end, in nats.
"""
_SMALL = 1e-5
_LARGEST_EXPONENT = 700.0
"""e to this power is still a double; beyond it, epsilon itself bounds every order."""
_MASS_ROUNDING = 1e-12
"""Of moments of masses that are differences of a curve."""
_Mixture = tuple[tuple[float, float], ...]
"""Weights and means of unit Gaussians."""


@dataclass(frozen=True)
class Curve:
    """Rényi divergence bounds at `ORDERS`, outside an event of probability `delta`."""

    renyi: tuple[float, ...]
    delta: Fraction = Fraction(0)

    def times(self, count: int) -> Curve:
        """The same, `count` times on the same rows."""
        return Curve(tuple(count * bound for bound in self.renyi), count * self.delta)


def curve_of(event: Event, neighbours: Neighbours) -> Curve:
    """The bounds of an event; equations (1) to (8). Raises PrivacyError: the event is unknown, or
    has no curve under this relation.
    """
    return _sum(_of_leaf(leaf, neighbours).times(count) for leaf, count in leaves(event).items())


def _sum(curves: Iterable[Curve]) -> Curve:
    parts = list(curves)
    sums = (
        tuple(math.fsum(ones) for ones in zip(*(part.renyi for part in parts), strict=True))
        if parts
        else (0.0,) * len(ORDERS)
    )
    return Curve(sums, sum((part.delta for part in parts), Fraction(0)))


@lru_cache(maxsize=1024)
def _of_leaf(event: Event, neighbours: Neighbours) -> Curve:
    if event.kind in _KINDS:
        return _KINDS[event.kind](event, neighbours)
    epsilon = pure_epsilon(event, neighbours)
    if epsilon is None:
        raise _unknown(event, neighbours)
    return _two_points(epsilon, 1.0)


def _gaussian(event: Event, neighbours: Neighbours) -> Curve:
    """Equation (2); of discrete noise by shifts of whole numbers, coordinates one by one, for every
    variance.
    """
    if event.kind == DISCRETE_GAUSSIAN_KIND:
        squares = float(squared_sensitivity_of(event, neighbours) / variance_of(event))
    else:
        squares = (noise_ratio(event, neighbours) * (2 if neighbours is REPLACE else 1)) ** 2
    return _at_orders(lambda order: order * squares / 2)


def _approximate(event: Event, neighbours: Neighbours, rate: float = 1.0) -> Curve:
    """Equation (7)."""
    return Curve(
        _two_points(number(event, "epsilon"), rate).renyi, Fraction(number(event, "delta"))
    )


def _sampled(event: Event, neighbours: Neighbours) -> Curve:
    """Equations (3), (4), (5), (7) and (8)."""
    rate, (part,) = sampling_rate(event), event.parts
    if rate == 1:
        return _of_leaf(part, neighbours)
    if part.kind in ("gaussian", DISCRETE_GAUSSIAN_KIND):
        ratio = noise_ratio(part, ADD)
        # Equations (4) and (5), turned so that P / Q rises; (5) is its own mirror image.
        rest = (1 - float(rate), 0.0)
        upper = (rest, (float(rate), ratio))
        lower = (rest, (float(rate), -ratio))
        nothing = ((1.0, 0.0),)
        pairs: list[tuple[_Mixture, _Mixture]] = (
            [(upper, lower)] if neighbours is REPLACE else [(upper, nothing), (nothing, lower)]
        )
        return _at_orders(
            lambda order: (
                max(log_moment(order, upper, lower) for upper, lower in pairs) / (order - 1)
            )
        )
    if part.kind == "approximate" and neighbours is ADD:
        whole = _approximate(part, neighbours, float(rate))
        return Curve(whole.renyi, rate * whole.delta)
    choices = pure.choices_in(part, neighbours) if neighbours is ADD else None
    if choices is not None:
        return _sampled_choices(*choices, float(rate))
    if pure_epsilon(event, neighbours) is None:
        raise _unknown(event, neighbours)
    return _two_points(pure_epsilon(part, ADD) or 0.0, float(rate))


def _choice(event: Event, neighbours: Neighbours) -> Curve:
    """Equation (8)."""
    reach = pure.range_of(event, neighbours)
    return _at_orders(lambda order: min(order * reach**2 / 8, reach))


def _sampled_choices(reach: float, count: int, rate: float) -> Curve:
    """Equation (8): masses of Q on the grid of the curve, of which the last loss is the largest
    there can be.
    """
    losses, masses = pure.losses_of(reach, count).masses()
    ratios = np.log1p(rate * np.expm1(np.minimum(losses, _LARGEST_EXPONENT)))

    def bound(order: float) -> float:
        moments = (
            math.log1p(float(masses @ np.expm1(np.minimum(power * ratios, _LARGEST_EXPONENT))))
            for power in (order, 1 - order)
        )
        whole = count * min(order * reach**2 / 8, reach)
        if losses[-1] < _LARGEST_EXPONENT / order:
            return min(whole, (max(moments) + _MASS_ROUNDING) / (order - 1))
        return whole

    return _at_orders(bound)


def _composite(event: Event, neighbours: Neighbours) -> Curve:
    """Equation (6): a row is in one of the `parallel` parts; those of `grouped` and `replaced`
    events must be pure.
    """
    if event.kind == "parallel" and neighbours is ADD:
        curves = [curve_of(part, neighbours) for part in dict.fromkeys(event.parts)] or [_sum([])]
        return Curve(
            tuple(max(ones) for ones in zip(*(curve.renyi for curve in curves), strict=True)),
            max(curve.delta for curve in curves),
        )
    if event.kind == "parallel" or pure_epsilon(event, neighbours) is None:
        raise _unknown(event, neighbours)
    rows, inner = (2.0, ADD) if event.kind == "replaced" else (number(event, "rows"), neighbours)
    parts = leaves(sequential(event.parts)).items()
    return _sum(
        _two_points(rows * (pure_epsilon(part, inner) or 0.0), 1.0).times(count)
        for part, count in parts
    )


_KINDS: dict[str, Callable[[Event, Neighbours], Curve]] = {
    "gaussian": _gaussian,
    DISCRETE_GAUSSIAN_KIND: _gaussian,
    "approximate": _approximate,
    pure.BOUNDED_RANGE_KIND: _choice,
    "poisson-sampled": _sampled,
    "parallel": _composite,
    "grouped": _composite,
    "replaced": _composite,
}
"""All others are pure, or refused."""


def _unknown(event: Event, neighbours: Neighbours) -> PrivacyError:
    return PrivacyError(f"event {event.kind!r} has no Rényi curve under {neighbours} neighbours")


def _at_orders(bound: Callable[[float], float]) -> Curve:
    bounds = tuple(bound(order) * (1 + _ROUNDING) for order in ORDERS)
    return Curve(tuple(math.inf if math.isnan(bound) else bound for bound in bounds))


@lru_cache(maxsize=1024)
def _two_points(epsilon: float, rate: float) -> Curve:
    """Equations (1) and (3): log-ratios ln(1 + q (e^epsilon - 1)) and ln(1 + q (e^-epsilon - 1)),
    and their negatives.
    """
    if math.isinf(epsilon):
        return Curve((math.inf,) * len(ORDERS))
    if epsilon > _LARGEST_EXPONENT:
        return _at_orders(lambda order: epsilon)
    ratios = (
        np.log1p(rate * np.expm1([epsilon, -epsilon]))
        if rate < 1
        else np.array([epsilon, -epsilon])
    )
    masses = -np.logaddexp(0, [epsilon, -epsilon])

    def moment(order: float) -> float:
        sides = ((ratios, masses), (-ratios, masses + ratios))
        return max(
            float(np.logaddexp.reduce([0.0, *(mass + _log_convex(order, ratio))]))
            for ratio, mass in sides
        )

    return _at_orders(lambda order: moment(order) / (order - 1))


def log_moment(order: float, upper: _Mixture, lower: _Mixture) -> float:
    """An upper bound of ln E_Q[(P / Q)^order] for mixtures P and Q whose ratio rises along the
    line.
    """
    upper, lower = (
        tuple((weight, mean) for weight, mean in mixture if weight > 0)
        for mixture in (upper, lower)
    )
    # log-ratios at minus and plus infinity: of the parts that lie farthest out there, if they lie
    # equally far
    farthest = []
    for side in (-1, 1):
        (here, share), (there, other) = (
            max((side * mean, weight) for weight, mean in mixture) for mixture in (upper, lower)
        )
        farthest.append(
            math.log(share / other) if here == there else math.copysign(math.inf, here - there)
        )
    low, high = farthest
    depth = _NEGLIGIBLE - 2 * math.log(min(weight for weight, _ in (*upper, *lower)))
    first = min(mean for _, mean in lower) - math.sqrt(2 * depth)
    last = math.sqrt(2 * depth)
    beyond = -math.inf
    if math.isinf(high):
        last, beyond = _tail(order, upper, lower)
    step = min(_STEP, 2 * _STEP / (order * max(abs(mean) for _, mean in (*upper, *lower))))
    edges = np.linspace(first, last, 2 + min(_MOST_CELLS, max(1, math.ceil((last - first) / step))))
    ends = [] if math.isinf(high) else [math.inf]
    places = np.concatenate([[-math.inf], edges, ends])
    above, below = (
        np.logaddexp.reduce(
            [math.log(weight) + mean * edges - mean**2 / 2 for weight, mean in mixture]
        )
        for mixture in (upper, lower)
    )
    losses = np.concatenate([[low], above - below, [high] if ends else []])
    parts = _chords(order, losses, _log_masses(places, upper), _log_masses(places, lower))
    return float(np.logaddexp.reduce(np.concatenate([[0.0, beyond], parts])))


def _chords(order: float, losses: np.ndarray, upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Of each cell, the logarithm of the chord's mean under Q."""
    low = losses[:-1]
    high = np.maximum(losses[1:], losses[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        right = 1 - np.expm1(np.minimum(upper - lower - high, 0)) / np.expm1(low - high)
        right = np.clip(np.where(np.isnan(right), 1.0, right), 0, 1)
        ends = _log_convex(order, losses)
        return lower + np.logaddexp(np.log1p(-right) + ends[:-1], np.log(right) + ends[1:])


def _log_convex(order: float, losses: np.ndarray) -> np.ndarray:
    """ln f(e^loss); near 0 by  f <= a (a - 1) loss^2 / 2 e^(a |loss|),  as a series would
    cancel.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = (
            math.log(order * (order - 1) / 2) + 2 * np.log(np.abs(losses)) + order * np.abs(losses)
        )
        bounded = np.minimum(losses, 40.0 / order)
        middle = np.log(np.maximum(np.expm1(order * bounded) - order * np.expm1(bounded), 0))
        far = order * losses
    return np.where(
        np.abs(order * losses) < _SMALL, near, np.where(order * losses > 30, far, middle)
    )


def _tail(order: float, upper: _Mixture, lower: _Mixture) -> tuple[float, float]:
    """Where the grid ends, and ln of a bound of E_Q[r^a] beyond: there P is below its farthest
    part, and Q above each of its own.
    """
    from scipy.special import log_ndtr  # a third of a second to import: only where it is called

    weight, shift = min(weight for weight, _ in upper), max(mean for _, mean in upper)
    centres = [order * shift + (1 - order) * mean for _, mean in lower]
    depths = [
        _NEGLIGIBLE - order * math.log(weight) - (order - 1) * math.log(share) for share, _ in lower
    ]
    last = max(
        shift,
        min(centre + math.sqrt(2 * depth) for centre, depth in zip(centres, depths, strict=True)),
    )
    bounds = [
        (1 - order) * math.log(share)
        + order * (order - 1) * (shift - mean) ** 2 / 2
        + float(log_ndtr(centre - last))
        for (share, mean), centre in zip(lower, centres, strict=True)
    ]
    return last, min(bounds)


def _log_masses(places: np.ndarray, mixture: _Mixture) -> np.ndarray:
    """The logarithm of the probability of each cell, precise in both tails."""
    from scipy.special import log_ndtr

    parts = []
    for weight, mean in mixture:
        low = places[:-1] - mean
        high = places[1:] - mean
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
        top = log_ndtr(high)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(math.log(weight) + top + np.log(-np.expm1(log_ndtr(low) - top)))
    return np.logaddexp.reduce(parts)
