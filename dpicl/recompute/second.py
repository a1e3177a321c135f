"""Bounds on a price by a second library, Microsoft's prv-accountant, where that is installed.

Paper       [GLW21] Gopi, Lee and Wutschitz, numerical composition (arXiv 2106.02848).
Not covered what has no random variable there: choices, the discrete Gaussian's own law, samples
            where rows are replaced; large costs, whose mesh would not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from dpicl.recompute.pieces import Normal, Piece, TwoPoints
from dpicl.recompute.stated import REPLACE

IS_INSTALLED = find_spec("prv_accountant") is not None
_ERROR = 5e-3
"""Of epsilon, as a share of what is stated."""
_DELTA_ERROR = 1e-3
"""The same of delta."""
_MOST_POINTS = 1_000_000


def bounds(
    pieces: Mapping[Piece, int], neighbours: str, delta: float, stated: float
) -> tuple[float, float] | None:
    """A lower and an upper bound on epsilon at this delta, in nats; None where the library is not
    installed, or has no answer for these pieces.
    """
    if not (IS_INSTALLED and pieces and stated):
        return None
    variables = [_variable(piece, neighbours) for piece in pieces]
    if None in variables:
        return None
    return _bounds(variables, list(pieces.values()), delta, _ERROR * min(stated, 10.0))


def _bounds(
    variables: list[Any], counts: list[int], delta: float, error: float
) -> tuple[float, float] | None:
    from prv_accountant import PRVAccountant
    from prv_accountant.accountant import compute_safe_domain_size

    tail = _DELTA_ERROR * delta
    try:
        half = compute_safe_domain_size(variables, counts, error, tail)
        mesh = error / math.sqrt(sum(counts) / 2 * math.log(12 / tail))
        if not 2 * half / mesh <= _MOST_POINTS:
            return None
        accountant = PRVAccountant(
            prvs=variables, max_self_compositions=counts, eps_error=error, delta_error=tail
        )
        low, _, high = accountant.compute_epsilon(delta=delta, num_self_compositions=counts)
    except (RuntimeError, ValueError):  # its own checks of the mesh
        return None
    return max(0.0, float(low)), max(0.0, float(high))


def _variable(piece: Piece, neighbours: str) -> Any:
    from prv_accountant import (
        ApproximateDPMechanism,
        GaussianMechanism,
        PoissonSubsampledGaussianMechanism,
        PureDPMechanism,
    )

    match piece:
        case TwoPoints(epsilon, 0.0):
            return PureDPMechanism(epsilon)
        case TwoPoints(epsilon, delta):
            return ApproximateDPMechanism(epsilon, delta)
        case Normal(noise, 1.0):
            return GaussianMechanism(noise / (2 if neighbours == REPLACE else 1))
        case Normal(noise, rate) if neighbours != REPLACE:
            return PoissonSubsampledGaussianMechanism(
                sampling_probability=rate, noise_multiplier=noise
            )
    return None
