"""The mean of a bounded column from a noisy sum and a noisy count.

Trust       Central: the curator reads the column; only the noisy mean leaves.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   epsilon-DP, delta = 0: half for the count, half for the sum.
Paper       DP-TabICL section V-E, "Numerical", mended: the sum is taken of clipped values
            shifted to an origin inside the bounds, else its sensitivity is max(|low|, |high|).

    (1)  u_i = round((clip(x_i, low, high) - origin) / step)           integers
    (2)  S = sum u_i + Z,  Z discrete Laplace of scale 2 D / epsilon,  D = max |u|
    (3)  n = sum 1 + Z',   Z' discrete Laplace of scale 2 / epsilon
    (4)  mean = clip(origin + step * S / max(n, 1), low, high)

Symbols     low, high, step public; origin the lower bound (`lower`, D the whole width) or
            the middle step (`centre`, D half of it); epsilon in nats.
Not covered rounding to the grid (bias at most step / 2); replace-one (twice the cost).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.errors import ParameterError
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.mechanisms.samplers import discrete_laplace
from dpicl.randomness import Stream

CITATIONS = ("carey2024dptabicl", "ghosh2009universally")
Origin = Literal["lower", "centre"]
_MAX_STEPS = 2**60
"""Steps between the bounds; whole numbers of 64 bits hold every clipped value."""


@dataclass(frozen=True)
class Grid:
    """Public bounds and step of a column, and the origin that sums are taken from."""

    low: float
    high: float
    step: float
    origin: Origin

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError("bounds", [self.low, self.high], "finite numbers with low < high")
        if not (0 < self.step <= self.high - self.low <= self.step * _MAX_STEPS):
            raise ParameterError("step", self.step, f"a positive number that parts the bounds' width into 1 to {_MAX_STEPS} steps")

    @property
    def zero(self) -> float:
        """The value that a sum counts as nothing; a whole number of steps from the lower bound."""
        steps = 0 if self.origin == "lower" else round((self.high - self.low) / self.step / 2)
        return self.low + self.step * steps

    @property
    def sensitivity(self) -> int:
        """D of equation (2): the largest |u| that a clipped value can have."""
        return max(abs(round((bound - self.zero) / self.step)) for bound in (self.low, self.high))

    def units(self, values: np.ndarray) -> np.ndarray:
        """Equation (1): shape (rows,), int64; NaN counts as the origin."""
        clipped = np.clip(np.nan_to_num(values.astype(np.float64), nan=self.zero), self.low, self.high)
        units = np.rint((clipped - self.zero) / self.step).astype(np.int64)
        return np.clip(units, -self.sensitivity, self.sensitivity)


def noisy_mean(values: np.ndarray, grid: Grid, *, epsilon: Fraction | None, stream: Stream) -> float:
    """Equations (1) to (4); the exact mean of clipped values at epsilon = infinity (None).

    An empty column gives the origin plus noise, clipped to the bounds.
    """
    total, count = _exact_sum(grid.units(values)), len(values)
    if epsilon is not None:
        total += discrete_laplace(2 * grid.sensitivity / epsilon, stream)
        count = noisy_counts([count], epsilon=epsilon / 2, stream=stream)[0]
    largest = grid.sensitivity * max(count, 1)
    mean = grid.zero + grid.step * (min(max(total, -largest), largest) / max(count, 1))
    return float(min(max(mean, grid.low), grid.high))


def _exact_sum(units: np.ndarray) -> int:
    """In two halves: a sum that wraps round at 2^64 would have no bounded sensitivity."""
    return (int((units >> 32).sum()) << 32) + int((units & 0xFFFFFFFF).sum())


def guarantee(grid: Grid, epsilon: Fraction | None, *, unit: str = "row") -> Guarantee:
    """The cost of one mean: equations (2) and (3) in sequence."""
    cost = math.inf if epsilon is None else float(epsilon)
    event = Event("noisy-mean", (("epsilon", cost), ("sum_sensitivity", grid.sensitivity), ("count_sensitivity", 1)))
    return Guarantee(cost, 0.0, Neighbours.ADD_OR_REMOVE_ONE, unit, event)
