"""Prices at a delta: the loss distributions of pieces, composed by dp-accounting.

Guarantee   an upper bound on every grid: dp-accounting rounds up.
Paper       [DGKKM22] connect the dots (arXiv 2207.04380), as implemented in dp-accounting.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from dp_accounting import NeighboringRelation  # type: ignore[import-untyped]
from dp_accounting.pld import pld_pmf  # type: ignore[import-untyped]
from dp_accounting.pld import privacy_loss_distribution as distributions

from dpicl.recompute import choices
from dpicl.recompute.pieces import Choices, Normal, Piece, TwoPoints, WholeNormal
from dpicl.recompute.stated import REPLACE, NotRecomputed

TOLERANCE = 1e-6
"""Nats by which a recomputed price may lie above the stated one."""
_INTERVAL, _FINER, _GRIDS = 4e-4, 3.1, 4
"""First interval as a share of what is stated; step to the next one, and how many are tried."""
_TOO_LITTLE = 0.1
"""Grids are no longer refined where that gains less than this share of what is too much."""
_COARSE_PLACES, _MOST_PLACES = 200_000, 1_500_000
_COARSE = 0.01
"""An interval of more than this share of a price proves no excess."""


def price(
    pieces: Mapping[Piece, int], neighbours: str, delta: float, stated: float
) -> tuple[float, float]:
    """Epsilon at this delta, and the interval of its grid, in nats: the first that is at most what
    is stated, on ever finer grids, or else the least of all.
    Raises NotRecomputed: no grid is fine enough to tell, or there are too many choices.
    """
    if not 0 < delta < 1:
        raise NotRecomputed(f"noise with a delta has no price at delta={delta:g}")
    pieces = _merged(pieces)
    reach = max((_reach(piece, neighbours) for piece in pieces), default=0.0)
    coarsest = max(_INTERVAL * min(stated, 50.0), reach / _COARSE_PLACES, 1e-7)
    least, at = math.inf, coarsest
    for grid in range(_GRIDS):
        interval = coarsest / _FINER**grid
        if reach / interval > _MOST_PLACES:
            break
        epsilon = float(_composed(pieces, neighbours, interval).get_epsilon_for_delta(delta))
        gain, excess = least - epsilon, epsilon - stated
        if gain > 0:
            least, at = epsilon, interval
        if excess <= TOLERANCE or gain < _TOO_LITTLE * excess:
            break
    if least > stated + TOLERANCE and at > _COARSE * least:
        raise NotRecomputed(
            f"losses reach {reach:.3g} nats, and {stated:.3g} is stated: more than a grid of "
            f"{_MOST_PLACES:,} places can tell"
        )
    return least, at


def _merged(pieces: Mapping[Piece, int]) -> dict[Piece, int]:
    """The same, where Gaussians one after another on all rows are one Gaussian."""
    merged = dict(pieces)
    gaussians = [
        (piece, merged.pop(piece))
        for piece in pieces
        if isinstance(piece, Normal) and piece.rate == 1
    ]
    if gaussians:
        precision = math.fsum(count / piece.noise**2 for piece, count in gaussians)
        merged[Normal(1 / math.sqrt(precision), 1.0)] = 1
    return merged


def _composed(
    pieces: Mapping[Piece, int], neighbours: str, interval: float
) -> distributions.PrivacyLossDistribution:
    whole = distributions.identity(interval)
    for piece, count in pieces.items():
        whole = whole.compose(_distribution(piece, neighbours, interval).self_compose(count))
    return whole


def _distribution(
    piece: Piece, neighbours: str, interval: float
) -> distributions.PrivacyLossDistribution:
    match piece:
        case Normal(noise, rate):
            return distributions.from_gaussian_mechanism(
                noise,
                value_discretization_interval=interval,
                sampling_prob=rate,
                neighboring_relation=NeighboringRelation.REPLACE_ONE
                if neighbours == REPLACE
                else NeighboringRelation.ADD_OR_REMOVE_ONE,
            )
        case TwoPoints(epsilon, delta):
            return _of_two_points(epsilon, delta, interval)
        case WholeNormal(variance, squared_movement):
            return _largest(
                [
                    _whole_normal(math.sqrt(variance), roots, interval)
                    for roots in _squares(squared_movement, squared_movement)
                ],
                interval,
            )
        case Choices():
            return _of_choices(piece, interval)


def _of_two_points(
    epsilon: float, delta: float, interval: float
) -> distributions.PrivacyLossDistribution:
    """The worst (epsilon, delta)-DP answer, on the places beside -epsilon and epsilon."""
    places = sorted(
        {way(end / interval) for end in (-epsilon, epsilon) for way in (math.floor, math.ceil)}
    )
    losses = np.array(places) * interval
    tails = np.where(
        losses < -epsilon,
        -np.expm1(losses),
        np.maximum(-np.expm1(losses - epsilon), 0.0) / (1 + math.exp(-epsilon)),
    )
    return distributions.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, places, delta + (1 - delta) * tails)
    )


def _whole_normal(
    sigma: float, roots: tuple[int, ...], interval: float
) -> distributions.PrivacyLossDistribution:
    """Discrete Gaussian noise on sums that move by these whole numbers."""
    whole = distributions.identity(interval)
    for root, count in Counter(roots).items():
        coordinate = distributions.from_discrete_gaussian_mechanism(
            sigma,
            sensitivity=root,
            value_discretization_interval=interval,
            use_connect_dots=True,
        )
        whole = whole.compose(coordinate.self_compose(count))
    return whole


def _squares(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Whole numbers, falling, at most `largest`, whose squares add up to `total`."""
    if total == 0:
        yield ()
    for root in range(min(math.isqrt(total), largest), 0, -1):
        for others in _squares(total - root**2, root):
            yield (root, *others)


def _largest(
    candidates: list[distributions.PrivacyLossDistribution], interval: float
) -> distributions.PrivacyLossDistribution:
    """One whose delta is at least that of every candidate at every loss."""
    if len(candidates) == 1:
        return candidates[0]
    end = max(
        candidate.get_epsilon_for_delta(candidate.get_delta_for_epsilon(math.inf) + 1e-13)
        for candidate in candidates
    )
    losses = _grid(end, interval)
    curves = [np.asarray(candidate.get_delta_for_epsilon(losses)) for candidate in candidates]
    return _of_curve(np.max(curves, axis=0), interval)


def _of_choices(piece: Choices, interval: float) -> distributions.PrivacyLossDistribution:
    try:
        losses = _grid(choices.largest_loss(piece.reach, piece.count, piece.rate), interval)
        curve = choices.divergences(losses, piece.reach, piece.count, piece.rate)
    except choices.TooManyError:
        raise NotRecomputed(
            f"{piece.count:,} choices of a range of {piece.reach:.3g} would take minutes"
        ) from None
    return _of_curve(curve, interval)


def _grid(end: float, interval: float) -> np.ndarray:
    last = math.ceil(end / interval) + 1
    return np.arange(-last, last + 1) * interval


def _of_curve(deltas: np.ndarray, interval: float) -> distributions.PrivacyLossDistribution:
    """Of the delta at each place of a grid around 0; the same in both orders."""
    last = len(deltas) // 2
    return distributions.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, -last, last, np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
        )
    )


def _reach(piece: Piece, neighbours: str) -> float:
    """About the largest loss of one piece, by which a grid's size goes."""
    match piece:
        case TwoPoints(epsilon):
            return epsilon
        case Choices():
            return piece.reach * piece.count
        case Normal(noise):
            ratio = (2 if neighbours == REPLACE else 1) / noise
        case WholeNormal(variance, squared_movement):
            ratio = math.sqrt(squared_movement / variance)
    return ratio**2 / 2 + 20 * ratio
