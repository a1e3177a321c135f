"""The mean of a bounded column from a noisy sum and a noisy count.

Trust       Central: the curator reads the column; only the noisy mean leaves.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   epsilon-DP, delta = 0: half for the count, half for the sum.
Paper       DP-TabICL section V-E, "Numerical", mended: the sum is taken of clipped values
            shifted to an origin inside the bounds, else its sensitivity is max(|low|, |high|).

    (1)  u_i = round((clip(x_i, low, high) - origin) / step)           integers
    (2)  S = sum u_i + Z,  Z discrete Laplace of scale 2 D / epsilon,  D = max |u|
    (3)  n = sum 1 + Z',   Z' discrete Laplace of scale 2 / epsilon; a row without a value is in
         neither sum
    (4)  mean = clip(origin + step * S / max(n, 1), low, high)

Symbols     low, high, step public; origin the lower bound (`lower`, D the whole width) or
            the middle step (`centre`, D half of it); epsilon in nats.
Not covered rounding to the grid (bias at most step / 2); replace-one (twice the cost).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from dpicl.accounting.guarantee import Guarantee, Neighbours, pure_guarantee
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_count import noisy_counts

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
            raise ParameterError(
                "step",
                self.step,
                f"a positive number that splits the bounds' width into 1 to {_MAX_STEPS} steps",
            )

    @cached_property
    def zero(self) -> float:
        """The value that a sum counts as nothing; a whole number of steps from the lower bound."""
        steps = 0 if self.origin == "lower" else round((self.high - self.low) / self.step / 2)
        return self.low + self.step * steps

    @cached_property
    def sensitivity(self) -> int:
        """D of equation (2): the largest |u| that a clipped value can have."""
        return max(abs(round((bound - self.zero) / self.step)) for bound in (self.low, self.high))

    def units(self, values: np.ndarray) -> np.ndarray:
        """Equation (1): int64, of the same shape; 0 of a missing value, NaN."""
        wide = values.astype(np.int64, copy=False) if values.dtype.kind in "iu" else values
        known = np.where(np.isnan(wide), self.zero, wide)
        clipped = np.minimum(np.maximum(known, self.low), self.high)
        units = np.rint((clipped - self.zero) / self.step).astype(np.int64)
        return np.minimum(np.maximum(units, -self.sensitivity), self.sensitivity)

    def total(self, values: np.ndarray) -> int:
        """The exact sum of `units`; of whole numbers in short types on whole steps without a copy
        of them in doubles.
        """
        is_whole = self.step == 1 and all(
            float(bound).is_integer() and abs(bound) <= 2**53 for bound in (self.low, self.high)
        )
        if is_whole and values.dtype.kind in "iu" and values.dtype.itemsize <= 4:
            shortest = np.iinfo(values.dtype).min
            longest = np.iinfo(values.dtype).max
            if shortest <= self.high and self.low <= longest:
                clipped = np.clip(
                    values, max(int(self.low), shortest), min(int(self.high), longest)
                )
                return int(clipped.sum(dtype=np.int64)) - len(values) * int(self.zero)
        units = self.units(values)
        return (int((units >> 32).sum()) << 32) + int((units & 0xFFFFFFFF).sum())


def noisy_mean(
    values: np.ndarray, grid: Grid, *, epsilon: Fraction | None, stream: Stream
) -> float:
    """Equations (1) to (4); the exact mean of clipped values at epsilon = infinity (None).

    An empty column gives the origin plus noise, clipped to the bounds.
    """
    return noisy_means([values], grid, epsilon=epsilon, stream=stream)[0]


def noisy_means(
    columns: Sequence[np.ndarray], grid: Grid, *, epsilon: Fraction | None, stream: Stream
) -> list[float]:
    """`noisy_mean` of every column, each at the cost of epsilon; columns may differ in length, and
    NaN is a missing value.
    """
    units = grid.units(np.concatenate(columns))
    lengths = [len(column) for column in columns]
    counts = [int(np.count_nonzero(~np.isnan(column))) for column in columns]
    # in two halves: a sum that wraps round at 2^64 would have no bounded sensitivity
    upper = np.zeros(len(counts), np.int64)
    lower = np.zeros(len(counts), np.int64)
    owners = np.repeat(np.arange(len(counts)), lengths)
    np.add.at(upper, owners, units >> 32)
    np.add.at(lower, owners, units & 0xFFFFFFFF)
    totals = [(high << 32) + low for high, low in zip(upper.tolist(), lower.tolist(), strict=True)]
    return noised_means(totals, counts, grid, epsilon=epsilon, stream=stream)


def noised_means(
    totals: Sequence[int],
    counts: Sequence[int],
    grid: Grid,
    *,
    epsilon: Fraction | None,
    stream: Stream,
) -> list[float]:
    """`noisy_means` of columns of which the exact sums of units, and the rows that have a value,
    are known already.
    """
    if epsilon is not None:
        totals = noisy_counts(
            totals, epsilon=epsilon / 2, stream=stream, sensitivity=grid.sensitivity
        )
        counts = noisy_counts(counts, epsilon=epsilon / 2, stream=stream)
    return [mean_of(total, count, grid) for total, count in zip(totals, counts, strict=True)]


def means_over(
    totals: Sequence[int],
    counts: Sequence[int],
    grid: Grid,
    *,
    epsilon: Fraction | None,
    stream: Stream,
) -> list[float]:
    """Equations (2) and (4) with all of epsilon for the sum, over noisy counts that are paid for
    elsewhere.
    """
    noisy = (
        totals
        if epsilon is None
        else noisy_counts(totals, epsilon=epsilon, stream=stream, sensitivity=grid.sensitivity)
    )
    return [mean_of(total, count, grid) for total, count in zip(noisy, counts, strict=True)]


def mean_of(total: float, count: float, grid: Grid) -> float:
    """Equation (4)."""
    largest = grid.sensitivity * max(count, 1)
    mean = grid.zero + grid.step * (min(max(total, -largest), largest) / max(count, 1))
    return float(min(max(mean, grid.low), grid.high))


def sum_guarantee(grid: Grid, epsilon: Fraction | None) -> Guarantee:
    """The cost of one mean of `means_over`: equation (2)."""
    return pure_guarantee(
        "noisy-sum",
        epsilon,
        ("sum_sensitivity", grid.sensitivity),
        neighbours=Neighbours.ADD_OR_REMOVE_ONE,
    )


def guarantee(grid: Grid, epsilon: Fraction | None) -> Guarantee:
    """The cost of one mean: equations (2) and (3) in sequence."""
    sensitivities = ("sum_sensitivity", grid.sensitivity), ("count_sensitivity", 1)
    return pure_guarantee(
        "noisy-mean", epsilon, *sensitivities, neighbours=Neighbours.ADD_OR_REMOVE_ONE
    )
