"""The smallest noise whose cost stays within a target epsilon.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that will carry the event.
Neighbours  both; a noise multiplier is stated against what one added or removed row moves.
Guarantee   what `accountant.price` says of the noise found is at most the target, and at least
            0.995 of it.
Paper       [DGKKM22] connect the dots, by `pld`; parameters as in Table 9 of arXiv 2309.11765.

    (1)  cost(sigma) falls as sigma grows. Brent's method, on a logarithmic scale, finds where its
         bound on a coarse grid meets the target; from there a finer grid corrects it along the
         slope; the price decides
    (2)  count ln(1 + q (e^epsilon0 - 1)) = epsilon   has the root
         epsilon0 = ln(1 + (e^(epsilon / count) - 1) / q)

Every grid gives an upper bound, so the noise found is never too small; a coarse grid only finds too
much.

Symbols     sigma the noise multiplier: the noise's standard deviation over the l2 movement of a sum
            by one row; q the sampling rate; count how often the step happens; epsilon0 what one
            step may cost.
Not covered a delta so large that next to no noise meets the target: refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian, leaves, poisson_sampled, pure, repeated
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.ground.errors import ParameterError, PrivacyError

LEAST_SHARE = 0.995
"""The noise found costs at least this share of the target."""
LEAST_NOISE, MOST_NOISE = 2.0**-6, 2.0**20
"""Where noise is looked for."""
MOST_EPSILON = 10_000.0
"""A grid whose steps are a share of so much can still be composed in doubles."""
MOST_PURE_EPSILON = 500.0
"""e to this power over any sampling rate in use is still a double."""
_AIM = 0.9975
"""Of the target: the middle of what is accepted."""
_COARSE, _FINE = 0.02, 0.004
"""Intervals of the grids, as shares of the target."""
_EASY, _CLOSER = 0.5, 5
"""A target so large is looked for from any noise; a smaller one from the noise of one that is so
many times larger.
"""
_LONG_STEP, _STEP = math.log(2), 0.01
_LOOSE, _TIGHT = 5e-3, 1e-4
"""Steps and tolerances in ln sigma; the cost moves up to ten times as much."""
_FARTHEST, _FLATTEST = 0.1, -0.25
"""A correction moves ln sigma by at most the one, and the slope is at least as steep as the
other.
"""
_STEEPEST = 50.0
"""Stands for the logarithm of a cost of zero or infinity."""
_BITS = 24
_ROUNDING = 2.0**-48


def calibrate(
    event_at: Callable[[float], Event], *, epsilon: float, delta: float, neighbours: Neighbours
) -> float:
    """The smallest noise multiplier for which the event costs at most `epsilon` at `delta`;
    equation (1).

    `event_at` gives the event of a multiplier; its cost must fall as the multiplier grows.
    The result has 24 significant bits, so that `Fraction(result)` is short and exact.
    Raises ParameterError: epsilon is outside (0, 10000], or delta outside (0, 1);
    PrivacyError: no multiplier from 1/64 to 2^20 costs this much, or the event cannot be priced.
    """
    if not 0 < epsilon <= MOST_EPSILON:
        raise ParameterError("epsilon", epsilon, f"a number in (0, {MOST_EPSILON:g}]")
    if not 0 < delta < 1:
        raise ParameterError("delta", delta, "a number in (0, 1)")
    search = _Search(event_at, epsilon, delta, neighbours)
    place, slope = search.rough()
    for excess in (
        partial(search.on_grid, _FINE * epsilon, epsilon),
        search.priced,
        search.priced,
        None,
    ):
        if excess is None:
            place = search.root(search.priced, place, _STEP, _TIGHT)
        else:
            place -= max(-_FARTHEST, min(_FARTHEST, excess(place) / slope))
        if LEAST_SHARE * epsilon <= search.price(place) <= epsilon:
            return _noise(place)
    raise PrivacyError(
        f"no noise was found that costs between {LEAST_SHARE:g} and 1 times epsilon={epsilon:g} "
        f"at delta={delta:g}"
    )


def calibrate_pure(epsilon: float, sampling_rate: Fraction | float, count: int) -> float:
    """What each of `count` steps on Poisson samples may cost, if all together may cost `epsilon` at
    delta = 0; equation (2).

    Under add-or-remove-one. Rounded down to 24 significant bits: `Fraction(result)` is below the
    root. Raises ParameterError: epsilon is outside (0, 500], the rate outside (0, 1], or the count
    below 1.
    """
    if not 0 < epsilon <= MOST_PURE_EPSILON:
        raise ParameterError("epsilon", epsilon, f"a number in (0, {MOST_PURE_EPSILON:g}]")
    # refuses parameters out of range
    repeated(poisson_sampled(sampling_rate, pure(epsilon)), count)
    root = math.log1p(math.expm1(epsilon / count) / float(sampling_rate))
    return float(rational_below(root * (1 - _ROUNDING)))


def subsampled_gaussian(sigma: float, sampling_rate: Fraction | float, count: int) -> Event:
    """`count` times Gaussian noise of multiplier `sigma`, each on a Poisson sample of its own; at
    rate 1 on all rows. Raises ParameterError: sigma is not finite and positive, the rate outside
    (0, 1], or the count below 1.
    """
    once = gaussian(sigma=sigma)
    return repeated(once if sampling_rate == 1 else poisson_sampled(sampling_rate, once), count)


def rational_above(value: float | Fraction) -> Fraction:
    """The next fraction of 24 significant bits: for noise, which may only grow. `value` is
    positive.
    """
    return -rational_below(-value)


def rational_below(value: float | Fraction) -> Fraction:
    """The last fraction of 24 significant bits: for an epsilon, which may only shrink. `value` is
    positive.
    """
    step = Fraction(2) ** (math.frexp(value)[1] - _BITS)
    return math.floor(Fraction(value) / step) * step


def _noise(place: float) -> float:
    return float(rational_above(math.exp(place)))


@dataclass(frozen=True)
class _Search:
    """Places are ln sigma; an excess is the logarithm of a cost over what is aimed at, positive
    where there is too little noise.
    """

    event_at: Callable[[float], Event]
    epsilon: float
    delta: float
    neighbours: Neighbours

    def rough(self) -> tuple[float, float]:
        """A place near the target on a coarse grid, and the slope of the excess there."""
        # With far too little noise for so many steps, or for so small a target, a grid would hold
        # millions of losses.
        steps = leaves(self.event_at(1.0)).total()
        place = math.log(min(max(1.0, math.sqrt(steps) / 10), MOST_NOISE))
        targets = [self.epsilon]
        while _CLOSER * targets[-1] <= _EASY:
            targets.append(_CLOSER * targets[-1])
        for target in reversed(targets):
            excess = cache(partial(self.on_grid, _COARSE * target, target))
            place = self.root(excess, place, _LONG_STEP, _LOOSE)
        return place, min(_FLATTEST, (excess(place + _STEP) - excess(place)) / _STEP)

    def on_grid(self, interval: float, target: float, place: float) -> float:
        """The excess over a target on one grid, an upper bound."""
        from dpicl.accounting.pld import epsilon_on_one_grid

        return _log_ratio(
            epsilon_on_one_grid(
                leaves(self.event_at(math.exp(place))), self.neighbours, self.delta, interval
            ),
            target,
        )

    def priced(self, place: float) -> float:
        """The excess by the accountant's price."""
        return _log_ratio(self.price(place), self.epsilon)

    def price(self, place: float) -> float:
        """What the noise at this place costs, by the accountant."""
        return price(
            self.event_at(_noise(place)), neighbours=self.neighbours, unit="row", delta=self.delta
        ).epsilon

    def root(
        self, excess: Callable[[float], float], place: float, step: float, tolerance: float
    ) -> float:
        """Steps away from a place, longer and longer, until the excess has changed its sign, then
        Brent's method. Raises PrivacyError: it changes its sign nowhere.
        """
        from scipy.optimize import brentq

        least = math.log(LEAST_NOISE)
        most = math.log(MOST_NOISE)
        upwards, there = excess(place) > 0, place
        while (excess(there) > 0) == upwards:
            if there == (most if upwards else least):
                raise PrivacyError(
                    f"no noise multiplier from {LEAST_NOISE:g} to {MOST_NOISE:g} costs "
                    f"epsilon={self.epsilon:g} at delta={self.delta:g}; "
                    f"expected {'a larger' if upwards else 'a smaller'} epsilon or delta"
                )
            place, there = there, max(least, min(most, there + (step if upwards else -step)))
            step *= 1.5
        return brentq(excess, place, there, xtol=tolerance)


def _log_ratio(cost: float, target: float) -> float:
    ratio = cost / (_AIM * target)
    return max(-_STEEPEST, min(_STEEPEST, math.log(ratio))) if ratio > 0 else -_STEEPEST
