"""What pure events cost, derived from their public parameters.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  every kind states the relation that it is priced for; another one is refused.
Guarantee   epsilon with delta = 0.
Paper       [DR14] composition; [LQS12] amplification; [KBR16] randomised response.

    (1)  sequential   sum of epsilon_i              (2)  repeated   n epsilon
    (3)  parallel     max of epsilon_i              (4)  sampled    ln(1 + q (e^epsilon - 1))
    (5)  replaced     2 epsilon                     (6)  response   ln(p / p')
    (7)  grouped      m epsilon                     (8)  unary      ln((1 - q) / q), one half for
         the truth

Symbols     p, p' the weights of the truth and of one lie; q the sampling rate; m the most rows of
            one person.
Not covered events with delta > 0: `pld` prices them.

From `discrete_gaussian` on: what discrete Gaussian noise on whole numbers costs: by its own law, or
by a continuous Gaussian.

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
            convolution (2010), with s = 2: docs/proofs.md, lemma G. Of a million sums it changes
            epsilon by less than 1e-27 and delta by as small a share, far below the pessimism of any
            grid in `pld`.
Symbols     sigma^2 the variance parameter, D the squared l2 sensitivity, both exact.
Not covered variances below 1/16; what (1) and (2) leave out: multiply sums by a whole number
            k, their variance by k^2 and D by k^2, and (2) covers them.

From `bounded_range` on: what choices of a bounded range cost together: the exact optimum over every
adaptive sequence of them, on a grid, rounded up.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  the event states the relation that its range is for. One stated for add-or-remove-one is
            priced under replace-one at twice the range, since the log-ratios of a removal and an
            addition add up; the reverse is refused.
Guarantee   an upper bound of delta at every epsilon, for any number of choices of one range,
            whatever stands between them.
Paper       [DR19] Durfee and Rogers, bounded range (arXiv 1905.04273); [DDR20] Dong, Durfee and
            Rogers, optimal composition of exponential mechanisms (1909.13830): (1) and (2); [CR21]
            Cesar and Rogers, rho = r^2 / 8 (2004.07223): (4). The grid of (3) is ours.

    (1)  range r: of neighbours' laws P and Q all log-ratios lie in some [t - r, t], 0 <= t <= r
    (2)  V_0(x) = max(0, 1 - e^x),   V_n(x) = max_t  p V_(n-1)(x - t) + (1 - p) V_(n-1)(x - t + r),
         p = (1 - e^(t - r)) / (1 - e^(-r)) is the largest hockey-stick divergence at x of n
         choices, each chosen after the outcomes of those before
    (3)  x and t on multiples of h = r / m; an atom between two of them becomes atoms at both, of
         its P and Q in all
    (4)  Rényi divergence of order a:  at most a r^2 / 8 and r for each

Why (2): for a given t the two-point pair of log-ratios t and t - r has the largest divergences of
all pairs within [t - r, t], and p is its P of the first. V is a function of the log-ratio so far,
so that the worst t is found backwards, choice by choice. The class is symmetric in P and Q: V(-x) =
1 - e^(-x) + e^(-x) V(x), and half of the line suffices. Why (3) is above (2): V is convex in e^x,
and an atom that is split in this way is a chord. Within a cell of t the chord's mean is c_0 + c_1 u
+ c_2 / u in u = e^(-t), whose maximum is at an end or at sqrt(c_2 / c_1).
Sampled at rate q, with y = ln(1 + (e^x - 1) / q):  q V(y) of a row that comes; of one that goes the
mirror image, which for x >= 0 is (1 - (1 - q) e^x) V(-ln(1 + (e^-x - 1) / q)), and 0 beyond -ln(1 -
q). Choices of several ranges: the fixed pair of one choice, (1 - e^((x - r) / 2))^2 / (1 - e^(-r)),
which (2) gives for n = 1; n copies of it lose 13 % against (2), but it does not matter in which
order what is chosen.

Symbols     r range in nats, n choices, m cells of a range, x and t privacy losses in nats.
Not covered choices that depend on which of several ranges is left: those are priced by the fixed
pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpicl.accounting.events import HORIZON_PART, leaves, number, rational, sampling_rate
from dpicl.accounting.guarantee import Event, Neighbours, amplified_epsilon
from dpicl.ground.errors import ParameterError, PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def _stated(event: Event) -> float:
    return number(event, "epsilon")


def _response(event: Event) -> float:
    """Equations (6) and (8)."""
    if event.kind == "unary-encoding":
        keep = number(event, "total") - number(event, "weight")
        lie = number(event, "weight")
    else:
        keep = number(event, "keep")
        lie = number(event, "lie")
    if number(event, "categories") == 1:
        return 0.0
    return math.log(keep / lie) if lie and keep else math.inf


LEAVES: dict[str, tuple[Neighbours | None, Callable[[Event], float]]] = {
    "pure": (None, _stated),
    "public-key": (None, lambda event: 0.0),
    # paid with its horizon: `ledger.budget.check_part` accepts no other
    HORIZON_PART: (
        None,
        lambda event: 0.0,
    ),
    "discrete-laplace": (ADD, _stated),
    "noisy-mean": (ADD, _stated),
    "noisy-sum": (ADD, _stated),
    "noisy-max": (None, _stated),
    "joint-exponential": (None, _stated),
    "sparse-vector": (ADD, _stated),
    "randomised-response": (REPLACE, _response),
    "unary-encoding": (REPLACE, _response),
}
"""Pure kinds: the relation that each is stated for (None: the event's own, else the guarantee's),
and its cost.
"""
_APPROXIMATE = ("gaussian", "discrete-gaussian", "approximate", "bounded-range")
_COMPOSITE = {
    "sequential": None,
    "repeated": None,
    "grouped": None,
    "parallel": ADD,
    "poisson-sampled": ADD,
    "replaced": REPLACE,
}
"""The relation that each is priced for, with parts that are stated for added rows; None: any, which
is that of the parts.
"""
_TIMES = {"repeated": "count", "grouped": "rows"}
"""The parameter that says how many times."""


def pure_epsilon(event: Event, neighbours: Neighbours) -> float | None:
    """The cost of an event with delta = 0; None for an event that has no such cost.
    Raises PrivacyError: the kind is unknown, or is not priced for this relation.
    """
    if event.kind in _APPROXIMATE:
        return None
    if event.kind in LEAVES:
        relation, cost = LEAVES[event.kind]
        _check_relation(event, relation or dict(event.parameters).get("neighbours"), neighbours)
        return cost(event)
    if event.kind not in _COMPOSITE:
        known = ", ".join((*LEAVES, *_APPROXIMATE, *_COMPOSITE))
        raise PrivacyError(
            f"event {event.kind!r} is unknown to the accountant; expected one of {known}"
        )
    costs = [
        pure_epsilon(part, ADD if _COMPOSITE[event.kind] else neighbours) for part in event.parts
    ]
    parts = [cost for cost in costs if cost is not None]
    is_pure = len(parts) == len(costs)
    # the one composite that `pld` prices under both relations
    if is_pure or event.kind != "poisson-sampled":
        _check_relation(event, _COMPOSITE[event.kind], neighbours)
    if not is_pure:
        return None
    if event.kind == "parallel":
        return max(parts, default=0.0)
    total = math.fsum(parts)
    if event.kind == "poisson-sampled":
        return amplified_epsilon(total, sampling_rate(event))
    return total * (
        2
        if event.kind == "replaced"
        else number(event, _TIMES[event.kind])
        if event.kind in _TIMES
        else 1
    )


def _check_relation(event: Event, stated: object, requested: Neighbours) -> None:
    if stated not in (None, requested):
        raise PrivacyError(
            f"event {event.kind!r} is priced for {stated} neighbours, not for {requested}"
        )


DISCRETE_GAUSSIAN_KIND = "discrete-gaussian"
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
        DISCRETE_GAUSSIAN_KIND,
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
    return 4 * int(squares) if _is_two_steps(event, neighbours) else int(squares)


def _is_two_steps(event: Event, neighbours: Neighbours) -> bool:
    """Whether rows are replaced, and the event is stated for one that comes or goes."""
    stated = dict(event.parameters).get("neighbours")
    if stated != ADD:
        _check_relation(event, str(stated), neighbours)
    return stated != neighbours


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
    if event.kind != DISCRETE_GAUSSIAN_KIND:
        sigma = number(event, "sigma")
        if sigma == 0:
            raise PrivacyError("event 'gaussian' states sigma=0; expected a number > 0")
        return number(event, "sensitivity") / sigma
    variance = variance_of(event)
    squares = squared_sensitivity_of(event, neighbours)
    if variance <= SMOOTHED:
        raise PrivacyError(
            f"event {event.kind!r} of variance {variance} and squared sensitivity {squares} has no "
            f"known price here; expected a variance above {SMOOTHED}: multiply the sums by a whole "
            "number and the variance by its square"
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


BOUNDED_RANGE_KIND = "bounded-range"
Curve = Callable[[np.ndarray], np.ndarray]
"""Hockey-stick divergences at privacy losses."""
_CELLS = 16
"""m: of 48, epsilon is less than 1 / 1000 smaller."""
_DEPTH = 36.0
"""Nats below 1 at which the grid ends: what lies beyond counts as much as there."""
_ROUNDING = 1e-9
"""Relative; the floating-point errors of a thousand choices are smaller."""


def bounded_range(reach: Fraction, *, neighbours: Neighbours) -> Event:
    """One choice whose log-ratios for these neighbours lie within `reach` nats of each other.
    Raises ParameterError: it is not positive.
    """
    if not reach > 0:
        raise ParameterError("range", reach, "a rational > 0")
    return Event(
        BOUNDED_RANGE_KIND, (("range", str(Fraction(reach))), ("neighbours", neighbours.value))
    )


def range_of(event: Event, neighbours: Neighbours) -> float:
    """r under the given relation. Raises PrivacyError: it is stated for replace-one and requested
    for add-or-remove-one, or not positive.
    """
    reach = float(rational(event, "range", "a rational > 0"))
    return 2 * reach if _is_two_steps(event, neighbours) else reach


@dataclass(frozen=True)
class Losses:
    """A curve of hockey-stick divergences: `delta` at losses 0, h, 2h ...; symmetric in both
    neighbours.

    Attributes:
        most: no loss is larger.
    """

    step: float
    delta: np.ndarray
    most: float

    @property
    def end(self) -> float:
        """The last loss of the grid."""
        return self.step * (len(self.delta) - 1)

    def at(self, losses: np.ndarray) -> np.ndarray:
        """An upper bound of delta at any losses: chords in e^x between the points of the grid."""
        sizes = np.abs(losses)
        left = np.minimum((sizes / self.step).astype(np.int64), len(self.delta) - 1)
        right = np.minimum(left + 1, len(self.delta) - 1)
        share = np.clip(np.expm1(sizes - left * self.step) / math.expm1(self.step), 0, 1)
        upper = self.delta[left] + share * (self.delta[right] - self.delta[left])
        upper = np.where(sizes >= self.most, 0.0, upper)
        return np.where(losses >= 0, upper, -np.expm1(-sizes) + np.exp(-sizes) * upper)

    def masses(self) -> tuple[np.ndarray, np.ndarray]:
        """Losses and Q's masses of a pair whose curve is that of `at` on the grid, and lies above
        it everywhere.
        """
        places = self.step * np.arange(1 - len(self.delta), len(self.delta))
        if self.end < self.most:
            places = np.append(places, self.most)
        with np.errstate(over="ignore"):
            slopes = np.diff(self.at(places)) / np.diff(np.exp(places))
        # of Q: how much of it lies at this loss or above
        tails = np.concatenate([[1.0], -slopes, [0.0]])
        return places, np.maximum(-np.diff(tails), 0.0)

    def sampled(self, rate: float) -> tuple[Curve, Curve]:
        """The curves of a row that comes and of one that goes, as of a Poisson sample of this
        rate.
        """
        if rate == 1:
            return self.at, self.at
        floor = math.log1p(-rate)

        def before(losses: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore"):
                small = np.log1p(np.maximum(np.expm1(np.minimum(losses, _DEPTH)) / rate, -1.0))
            return np.maximum(np.where(losses < _DEPTH, small, losses - math.log(rate)), -self.most)

        def comes(losses: np.ndarray) -> np.ndarray:
            # no curve is below it: the clamp of `before` would be
            surely = -np.expm1(np.minimum(losses, 0))
            return np.where(
                losses > floor, np.maximum(rate * self.at(before(losses)), surely), surely
            )

        def goes(losses: np.ndarray) -> np.ndarray:
            upper = np.minimum(losses, -floor)
            there = np.maximum(1 - (1 - rate) * np.exp(upper), 0) * self.at(-before(-upper))
            return np.where(
                losses >= 0,
                there,
                -np.expm1(losses) + np.exp(np.minimum(losses, 0)) * comes(-losses),
            )

        return comes, goes


@lru_cache(maxsize=256)
def losses_of(reach: float, count: int, cells: int = _CELLS) -> Losses:
    """V of equation (2) for so many choices of one range, by the grid of (3)."""
    step, rho = reach / cells, count * reach**2 / 8
    points = math.ceil(min(count * reach, rho + 2 * math.sqrt(rho * _DEPTH)) / step) + 1
    delta = np.zeros(points)
    for _ in range(count):
        delta = _one_more(delta, reach, cells)
    return Losses(step, np.minimum(delta * (1 + _ROUNDING), 1.0), count * reach)


def _one_more(delta: np.ndarray, reach: float, cells: int) -> np.ndarray:
    """One step of equation (2), from losses 0 to the end of the grid to the same."""
    ends = np.exp(-np.arange(cells + 1) * (reach / cells))
    least = math.exp(-reach)
    below = np.arange(cells, 0, -1) * (reach / cells)
    left = -np.expm1(-below) + np.exp(-below) * delta[cells:0:-1]
    # place i of the grid is place cells + i here
    whole = np.concatenate([left, delta, np.full(cells, delta[-1])])
    windows = np.lib.stride_tricks.sliding_window_view(whole, 2 * cells + 1)[: len(delta)]
    # V(x - j h) and V(x - j h + r), j = 0 .. m
    higher = windows[:, cells::-1]
    lower = windows[:, : cells - 1 : -1]
    first, last = ends[:-1], ends[1:]
    slopes = [np.diff(values, axis=1) / np.diff(ends) for values in (higher, lower)]
    starts = [
        values[:, :-1] - slope * first
        for values, slope in zip((higher, lower), slopes, strict=True)
    ]
    linear = slopes[0] - least * slopes[1]
    inverse = least * (starts[1] - starts[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        inner_best = np.where((linear < 0) & (inverse < 0), np.sqrt(inverse / linear), first)
    best = np.clip(inner_best, last, first)
    share = (best - last) / (first - last)
    mass = (1 - least / best) / -math.expm1(-reach)
    values = [part[:, 1:] + share * (part[:, :-1] - part[:, 1:]) for part in (higher, lower)]
    at_ends = ((1 - least / ends) * higher + (least / ends - least) * lower) / -math.expm1(-reach)
    return np.maximum((mass * values[0] + (1 - mass) * values[1]).max(axis=1), at_ends.max(axis=1))


def one_choice(reach: float) -> Curve:
    """The curve of a single choice, in closed form."""

    def curve(losses: np.ndarray) -> np.ndarray:
        inside = np.expm1((np.clip(losses, -reach, reach) - reach) / 2) ** 2 / -math.expm1(-reach)
        return np.where(losses < -reach, -np.expm1(np.minimum(losses, 0)), inside)

    return curve


def choices_in(event: Event, neighbours: Neighbours) -> tuple[float, int] | None:
    """Range and number of the choices that an event consists of, if they are all of one range and
    there is nothing else.
    """
    counts = leaves(event)
    if any(leaf.kind != BOUNDED_RANGE_KIND for leaf in counts):
        return None
    ranges = {range_of(leaf, neighbours) for leaf in counts}
    return (ranges.pop(), counts.total()) if len(ranges) == 1 else None
