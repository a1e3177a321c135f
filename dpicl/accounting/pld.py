"""The epsilon of Gaussian, subsampled and approximate events together, by privacy loss
distributions.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantees composed.
Neighbours  both. Under replace-one a Gaussian of noise multiplier sigma (for what one added row
            moves) is priced at twice the sensitivity: sigma = 1, delta = 1e-5 costs 9.997, against
            4.377 under add-or-remove-one.
Guarantee   an upper bound at every discretisation; refined until it moves by < 1/1000.
Paper       [KJH20] privacy loss distributions; [DGKKM22] connect the dots (arXiv 2207.04380),
            both as implemented in Google's dp_accounting.

    (1)  Gaussians in sequence are one Gaussian:  1/sigma^2 = sum 1/sigma_i^2
    (2)  a pure event has the curve  delta(x) = (1 - e^(x - eps)) / (1 + e^-eps),  |x| <= eps
    (3)  parts on disjoint rows, and rows that can do one of several things, have the
         curve  delta(x) = max_i delta_i(x)
    (4)  choices of one bounded range have the curve of `bounded_range`, together with others too:
         given the losses of what is fixed, they are the last; choices of several ranges are fixed
         pairs each

Symbols     x the privacy loss in nats; the distribution lives on multiples of an interval.
Not covered samples of a fixed size; subsampling of anything but one Gaussian (discrete or not) or
pure event, or choices of one range.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation  # type: ignore[import-untyped]
from dp_accounting.pld import pld_pmf  # type: ignore[import-untyped]
from dp_accounting.pld import privacy_loss_distribution as distributions

from dpicl.accounting import pure
from dpicl.accounting.events import leaves, number, sampling_rate
from dpicl.accounting.guarantee import Event, Neighbours, amplified_epsilon
from dpicl.accounting.pure import (
    ADD,
    DISCRETE_GAUSSIAN_KIND,
    has_own_price,
    noise_ratio,
    pure_epsilon,
    squared_sensitivity_of,
    sums_of_squares,
    variance_of,
)
from dpicl.ground.errors import PrivacyError

COARSEST = 1e-2
"""First interval tried, in nats."""
FINEST = 1e-6
_FINER = 2.9
"""Step to the next interval; no integer, or the next grid would hold all points of this one."""
TOLERANCE, _SHARE = 1e-3, 2e-3
"""Refining stops when epsilon moves by less than the one and the interval is less than the other,
both as shares of it.
"""
_COARSE_POINTS, _MOST_POINTS = 50_000, 400_000
"""Grid sizes: of the first try for very little noise, and where refining stops."""
_TAIL = 1e-13


@lru_cache(maxsize=512)
def epsilon_at(
    events: frozenset[tuple[Event, int]], neighbours: Neighbours, delta: float
) -> tuple[float, float]:
    """Smallest epsilon found at this delta for events with their counts, and the interval that gave
    it. Raises PrivacyError: an event is unknown or cannot be priced under this relation.
    """
    # a set's order differs between processes, and with it the last digits of a price
    counts = dict(sorted(events, key=repr))
    reach = max((_reach(event, neighbours) for event in counts), default=0.0)
    if math.isinf(reach):
        return math.inf, COARSEST
    finer = max(COARSEST, reach / _COARSE_POINTS)
    epsilon = math.inf
    while True:
        interval, coarser = finer, epsilon
        epsilon = min(
            epsilon, float(_composed(counts, neighbours, interval).get_epsilon_for_delta(delta))
        )
        is_exact = coarser - epsilon <= TOLERANCE * epsilon and interval <= _SHARE * epsilon
        finer = interval / _FINER
        if (
            is_exact
            or not 0 < epsilon < math.inf
            or finer < FINEST
            or (reach + epsilon) / finer > _MOST_POINTS
        ):
            return epsilon, interval


def epsilon_on_one_grid(
    events: Mapping[Event, int], neighbours: Neighbours, delta: float, interval: float
) -> float:
    """A quick upper bound: on the grid of this interval, or of a coarser one for very little noise.
    Raises PrivacyError: as `epsilon_at`.
    """
    reach = max((_reach(event, neighbours) for event in events), default=0.0)
    if math.isinf(reach):
        return math.inf
    return float(
        _composed(events, neighbours, max(interval, reach / _COARSE_POINTS)).get_epsilon_for_delta(
            delta
        )
    )


def _composed(counts: Mapping[Event, int], neighbours: Neighbours, interval: float) -> Any:
    whole = distributions.identity(interval)
    ratios = {
        event: noise_ratio(event, neighbours)
        for event in counts
        if event.kind == "gaussian"
        or (event.kind == DISCRETE_GAUSSIAN_KIND and not has_own_price(event, neighbours))
    }
    if ratios:
        ratio = math.sqrt(math.fsum(counts[event] * single**2 for event, single in ratios.items()))
        whole = whole.compose(_gaussian(ratio, 1.0, neighbours, interval))
    choices = _together(counts, neighbours)
    if choices is not None:
        whole = whole.compose(_of_curves((choices.at, choices.at), choices.end, interval))
    for event, count in counts.items():
        if event not in ratios and not (choices and event.kind == pure.BOUNDED_RANGE_KIND):
            whole = whole.compose(_of_leaf(event, neighbours, interval).self_compose(count))
    return whole


def _together(counts: Mapping[Event, int], neighbours: Neighbours) -> pure.Losses | None:
    """Equation (4), where all choices are of one range."""
    choices = {
        event: pure.range_of(event, neighbours)
        for event in counts
        if event.kind == pure.BOUNDED_RANGE_KIND
    }
    if len({*choices.values()}) != 1:
        return None
    return pure.losses_of(next(iter(choices.values())), sum(counts[event] for event in choices))


@lru_cache(maxsize=32)
def _of_leaf(event: Event, neighbours: Neighbours, interval: float) -> Any:
    cost = pure_epsilon(event, neighbours)
    if cost is not None:
        return _two_points(cost, 0.0, interval)
    if event.kind == "approximate":
        return _two_points(number(event, "epsilon"), number(event, "delta"), interval)
    if event.kind == "poisson-sampled":
        return _sampled(event, neighbours, interval)
    if event.kind == "parallel":
        return _largest(
            [_composed(leaves(part), neighbours, interval) for part in dict.fromkeys(event.parts)],
            interval,
        )
    if event.kind == DISCRETE_GAUSSIAN_KIND:
        return _own_law(event, neighbours, interval)
    if event.kind == pure.BOUNDED_RANGE_KIND:
        reach = pure.range_of(event, neighbours)
        return _of_curves((pure.one_choice(reach),) * 2, reach, interval)
    raise PrivacyError(
        f"event {event.kind!r} holds a part with delta > 0, for which no price is known"
    )


def _sampled(event: Event, neighbours: Neighbours, interval: float) -> Any:
    rate, (part,) = sampling_rate(event), event.parts
    if part.kind in ("gaussian", DISCRETE_GAUSSIAN_KIND):
        return _gaussian(noise_ratio(part, ADD), float(rate), neighbours, interval)
    if part.kind == "approximate" and neighbours is ADD:
        epsilon = amplified_epsilon(number(part, "epsilon"), rate)
        return _two_points(epsilon, float(rate) * number(part, "delta"), interval)
    choices = pure.choices_in(part, neighbours) if neighbours is ADD else None
    if choices is not None:
        losses = pure.losses_of(*choices)
        return _of_curves(
            losses.sampled(float(rate)), amplified_epsilon(losses.end, rate), interval
        )
    raise PrivacyError(
        f"a Poisson sample of {part.kind!r} is not priced under {neighbours} neighbours"
    )


def _own_law(event: Event, neighbours: Neighbours, interval: float) -> Any:
    """The largest curve of all that one row can do to the sums; `dp_accounting` cuts off tails of
    1e-30.
    """
    sigma = math.nextafter(math.sqrt(variance_of(event)), 0)
    curves = []
    for roots in sums_of_squares(squared_sensitivity_of(event, neighbours)):
        whole = distributions.identity(interval)
        for root, count in Counter(roots).items():
            single = distributions.from_discrete_gaussian_mechanism(
                sigma,
                sensitivity=root,
                value_discretization_interval=interval,
                use_connect_dots=True,
            )
            whole = whole.compose(single.self_compose(count))
        curves.append(whole)
    return _largest(curves, interval)


def _gaussian(ratio: float, rate: float, neighbours: Neighbours, interval: float) -> Any:
    """Of sensitivity over noise `ratio`; dp_accounting doubles it under replace-one."""
    relation = NeighboringRelation[neighbours.name]
    return distributions.from_gaussian_mechanism(
        1 / ratio,
        value_discretization_interval=interval,
        sampling_prob=rate,
        neighboring_relation=relation,
    )


def _two_points(epsilon: float, delta: float, interval: float) -> Any:
    """Equation (2), read at the grid points around -epsilon and epsilon: connect the dots."""
    places = np.unique(
        [way(end / interval) for end in (-epsilon, epsilon) for way in (math.floor, math.ceil)]
    )
    losses = places * interval
    inside = np.clip(-np.expm1(losses - epsilon), 0, 1) / (1 + math.exp(-epsilon))
    curve = np.where(losses <= -epsilon, -np.expm1(np.minimum(losses, 0)), inside)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, places, delta + (1 - delta) * curve)
    return distributions.PrivacyLossDistribution(pmf)


def _of_curves(curves: tuple[pure.Curve, pure.Curve], end: float, interval: float) -> Any:
    """Of a row that comes and of one that goes, where no loss is beyond the end."""
    last = math.ceil(end / interval) + 1
    losses = np.arange(-last, last + 1) * interval
    pmfs = [
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, -last, last, np.minimum.accumulate(np.clip(curve(losses), 0, 1))
        )
        for curve in curves
    ]
    return distributions.PrivacyLossDistribution(*pmfs)


def _largest(parts: Sequence[Any], interval: float) -> Any:
    """Equation (3); the largest curve of both directions stands for both."""
    if len(parts) == 1:
        return parts[0]
    ends = [
        part.get_epsilon_for_delta(min(part.get_delta_for_epsilon(math.inf) + _TAIL, 1.0))
        for part in parts
    ]
    last = math.ceil(max(ends) / interval) + 1
    losses = np.arange(-last, last + 1) * interval
    curve = np.clip(np.max([part.get_delta_for_epsilon(losses) for part in parts], axis=0), 0, 1)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, -last, last, np.minimum.accumulate(curve)
    )
    return distributions.PrivacyLossDistribution(pmf)


def _reach(event: Event, neighbours: Neighbours) -> float:
    """About the largest privacy loss of one event: what the grid's size depends on; infinite
    without any noise.
    """
    if event.kind in ("gaussian", DISCRETE_GAUSSIAN_KIND):
        if event.kind == DISCRETE_GAUSSIAN_KIND:
            ratio = math.sqrt(squared_sensitivity_of(event, neighbours) / variance_of(event))
        else:
            ratio = noise_ratio(event, neighbours) * (1 if neighbours is ADD else 2)
        return ratio**2 / 2 + 20 * ratio
    cost = (
        number(event, "epsilon") if event.kind == "approximate" else pure_epsilon(event, neighbours)
    )
    if cost is None:
        return max((_reach(part, neighbours) for part in event.parts), default=0.0)
    return cost
