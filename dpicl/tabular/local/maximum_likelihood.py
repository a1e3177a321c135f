"""Maximum likelihood by accelerated expectation maximisation, stopped early.

Guarantee   none spent: post-processing of epsilon-LDP reports.
Paper       [ABK13] iterative Bayesian update; [VR08] Varadhan and Roland 2008, squared steps (SQUAREM, S3).

    (1)  M(pi) = pi * gradient of the log-likelihood / reports       one step of expectation maximisation
    (2)  r = M(pi) - pi,  v = M(M(pi)) - M(pi) - r,  a = -|r| / |v|
         pi <- M( max(pi - 2 a r + a^2 v, 0) )                       where that is no less likely, else M(M(pi))

Converged estimates explain the noise too. So there is an end, not a tolerance.

Symbols     pi shares of cells, started from equal ones.
Not covered many columns: the work is that of all cells.
"""

from __future__ import annotations

from math import prod

import numpy as np

from dpicl.tabular.local.moments import analyse, synthesise
from dpicl.tabular.local.observed import Observed

STEPS = 20
"""Squared steps, each of which counts three of (1)."""


def maximum_likelihood(observed: Observed, *, steps: int = STEPS) -> np.ndarray:
    """Equations (1) and (2): shares of cells, shape `sizes`, not negative, of sum 1."""
    shares = np.full(observed.sizes, 1 / prod(observed.sizes))
    for _ in range(steps):
        once, _ = _step(shares, observed)
        twice, _ = _step(once, observed)
        first, second = once - shares, twice - 2 * once + shares
        length = float(np.linalg.norm(second))
        if not length:
            shares = twice
            continue
        stride = -float(np.linalg.norm(first)) / length
        leapt = np.maximum(shares - 2 * stride * first + stride**2 * second, 0)
        after, likelihood = _step(leapt / leapt.sum(), observed)
        shares = after if likelihood >= _step(twice, observed)[1] else twice
    return shares


def _step(shares: np.ndarray, observed: Observed) -> tuple[np.ndarray, float]:
    """Equation (1), and the log-likelihood before it."""
    value, slope = observed.likelihood(analyse(shares).reshape(-1))
    after = np.maximum(shares * synthesise(slope.reshape(observed.sizes)) / observed.count, 0)  # restated counts may be negative
    return after / after.sum(), value
