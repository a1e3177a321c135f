"""Counts of a table that grows: noisy sums over all periods so far, or any window of them, under
one budget for the whole horizon.

Trust       Central: the curator keeps every period's exact counts; only y_1, y_2, ... leave, and no
            noise is kept from one period to the next.
Unit        One row (k = c = 1); one person's rows of a period (k = c); of w periods (k = c w); or
            all of a person's rows: at most k in the whole horizon, c in a period. Noise that is
            calibrated for one of them costs what `guarantee` of another one says.
Neighbours  Histories, the deliveries of all periods in order: that unit's rows are in one and not
            in the other (ADD_OR_REMOVE_ONE), or in both and different ones, in whichever periods
            (REPLACE_ONE). How many rows a period has is not public; that it passed is.
Guarantee   (epsilon, delta)-DP of all releases of the horizon together, charged once: that of
            `accounting.discrete_gaussian` at D of (4). It holds for adaptive streams: deliveries,
            and in which periods that unit takes part, may depend on earlier releases.
Paper       [HKU25] Henzinger, Kalinin and Upadhyay, normalised square root (arXiv 2509.14334); the
            square root: [FHU23] Fichtenberger, Henzinger and Upadhyay (2202.11205), [HUU23]
            Henzinger, Upadhyay and Upadhyay (2211.05006). Several rows: [CC23] Choquette-Choo,
            McMahan, Rush and Thakurta (2211.06530). Adaptive streams: [DMRST22] Denisov et al.
            (2202.08312). Whole numbers and (4) are ours.

    (1)  C[t, s] = round( 2^b r_(t-s) / |(r_0, ..., r_(T-1-s))| ),  s <= t,    r_j = binom(2j, j) /
         4^j
    (2)  y_t = sum_(s <= t) C[t, s] x_s + Z_t,    Z_t discrete Gaussian of variance sigma^2, drawn
         in period t
    (3)  x_a + ... + x_z  =  w y - w Z,    w C = (0, .., 0, 1, .., 1, 0, .., 0):  deviation sigma
         |w|, independent from cell to cell
    (4)  D = M sum_ij u_i u_j g_|i-j|,    u = (c, ..., c, k mod c),    g_d the largest product of
         two columns of C that are >= d apart

C is invertible: no other linear estimate than (3) is unbiased, and later releases say nothing more
of a window. For T = 365 a prefix's noise is at most 2.76 times that of one release of the whole
table at the same cost (the last one's 2.39), of the square root's 2.94; for no matrix of real
numbers the largest is below 2.64.

Proofs of (4) and of what follows: docs/proofs.md, lemmas A and B. A row that is taken back in a
later period counts as a row. Of a replaced unit the releases move by 2 D (1 + S / M), where a row's
vector has a squared length of at most S in the cells whose numbers may be negative: 2 D where
nothing is negative, 4 D where rows are taken back. Counts that are cut off move no further. A unit
may choose its periods by what was released: the bound holds on every path, and all releases are one
Gaussian of mu^2 = D / (sigma^2 - 4) (lemmas C and G); in zCDP, sum |d_t|^2 / (2 sigma^2) <= D / (2
sigma^2), by a filter that never has to stop.

Symbols     T periods, x_s whole counts of period s (int, shape (cells,)), the sum of its rows'
            vectors, each of squared length M at most: m where a row is in one cell of each of m
            marginals; b bits.
Not covered more rows of a unit than k and c: the caller lets no more in, by that unit's rows alone.
Whole periods of everybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpicl.accounting.calibration import rational_above
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.pure import SMOOTHED, has_own_price
from dpicl.contract.periods import MOST_PERIODS
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms import discrete_gaussian
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.mechanisms.samplers import LARGEST_VARIANCE

BITS = 16
"""b, with which rounding costs a hundred-thousandth of the noise."""
_LARGEST_COUNT = 2**40
"""Of a cell in a period; larger ones are cut off there, which moves no two counts apart. A row of C
adds up to less than 2^21 in any horizon, so that sums and their noise fit into 64 bits.
"""
_PRECISE = 64
Windows = Sequence[tuple[int, int]]
"""The first and the last period of each, counted from 1."""


@lru_cache(maxsize=16)
def matrix(periods: int, bits: int = BITS) -> np.ndarray:
    """C of equation (1): shape (periods, periods), int64, lower triangular; in whole numbers, so
    that every machine has the same one.
    """
    root = [1 << _PRECISE]
    for j in range(1, periods):
        root.append(root[-1] * (2 * j - 1) // (2 * j))
    squares = 0
    columns = np.zeros((periods, periods), dtype=np.int64)
    for length in range(1, periods + 1):
        squares += root[length - 1] ** 2
        norm = math.isqrt(squares)
        columns[periods - length :, periods - length] = [
            ((entry << bits) + norm // 2) // norm for entry in root[:length]
        ]
    columns.flags.writeable = False
    return columns


@lru_cache(maxsize=16)
def products(periods: int, bits: int = BITS) -> tuple[int, ...]:
    """g_0, g_1, ... of equation (4), exact: no product, nor a partial sum of it, is above 2^53."""
    columns = matrix(periods, bits).astype(np.float64)
    gram = columns.T @ columns
    largest = [int(np.diagonal(gram, distance).max()) for distance in range(periods)]
    return tuple(int(square) for square in np.maximum.accumulate(largest[::-1])[::-1])


@dataclass(frozen=True)
class Contribution:
    """What a unit of protection may put in: k rows in the whole horizon, c in a period. `signed` is
    S / M: 1 where a row may take another back, and is a row itself; a part of it where values of
    some cells lie on both sides of zero.
    """

    rows: int
    per_period: int
    signed: Fraction | int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.per_period <= self.rows:
            raise ParameterError(
                "contribution",
                [self.rows, self.per_period],
                "whole numbers: rows >= rows per period >= 1",
            )
        if not 0 <= self.signed <= 1:
            raise ParameterError("signed", self.signed, "a part of a row's squared length, 0 to 1")


@dataclass(frozen=True)
class ContinualCounts:
    """The counters of one horizon. `variance` is sigma^2 of equation (2), None no noise;
    `squared_norm` is M; the rest as in the head.
    """

    periods: int
    squared_norm: int
    contribution: Contribution
    neighbours: Neighbours
    variance: Fraction | None
    bits: int = BITS

    def __post_init__(self) -> None:
        whole = (
            ("periods", self.periods, 1, MOST_PERIODS),
            ("squared_norm", self.squared_norm, 1, 1 << 40),
            ("bits", self.bits, 0, BITS),
        )
        for name, value, least, most in whole:
            if not least <= value <= most:
                raise ParameterError(name, value, f"a whole number, {least} to {most}")
        if self.variance is not None and not SMOOTHED < self.variance <= LARGEST_VARIANCE:
            raise ParameterError(
                "variance", self.variance, f"a rational > {SMOOTHED}, at most 2^80"
            )

    @staticmethod
    def of(
        epsilon: float,
        *,
        delta: float,
        periods: int,
        squared_norm: int,
        contribution: Contribution,
        neighbours: Neighbours,
    ) -> ContinualCounts:
        """Of the least noise that costs at most (epsilon, delta) for all periods together.
        Raises ParameterError: a parameter is out of range; PrivacyError: no noise costs this much.
        """
        budget = GaussianTotal.of(
            epsilon, delta=delta, neighbours=Neighbours.ADD_OR_REMOVE_ONE
        ).budget
        return ContinualCounts.spending(budget, periods, squared_norm, contribution, neighbours)

    @staticmethod
    def spending(
        budget: GaussianBudget,
        periods: int,
        squared_norm: int,
        contribution: Contribution,
        neighbours: Neighbours,
        bits: int = BITS,
    ) -> ContinualCounts:
        """Of the least noise that costs at most this part of a Gaussian budget, mu^2 of one unit
        under these neighbours.
        """
        exact = ContinualCounts(periods, squared_norm, contribution, neighbours, None, bits)
        amount = budget.amount
        variance = (
            None
            if amount is None
            else rational_above(exact.squared_sensitivity / amount + SMOOTHED)
        )
        return replace(exact, variance=variance)

    @property
    def squared_sensitivity(self) -> int:
        """D of equation (4) for these neighbours."""
        distances = products(self.periods, self.bits)
        most = self.contribution.per_period
        full, rest = divmod(min(self.contribution.rows, most * self.periods), most)
        pairs = sum((full - distance) * distances[distance] for distance in range(1, full))
        added = most**2 * (full * distances[0] + 2 * pairs)
        if rest:
            added += rest**2 * distances[0] + 2 * most * rest * sum(distances[1 : full + 1])
        if self.neighbours is Neighbours.REPLACE_ONE:
            return (
                2
                * added
                * (self.squared_norm + math.ceil(self.contribution.signed * self.squared_norm))
            )
        return added * self.squared_norm

    def guarantee(self, *, delta: float, unit: str) -> Guarantee:
        """What all releases of the horizon cost together, at this delta.
        Raises PrivacyError: of so few bits noise is priced by its own law, which says nothing of
        adaptive streams.
        """
        stated = discrete_gaussian.guarantee(
            self.variance,
            squared_sensitivity=self.squared_sensitivity,
            neighbours=self.neighbours,
            delta=delta,
            unit=unit,
        )
        if self.variance is not None and has_own_price(stated.event, self.neighbours):
            raise PrivacyError(
                f"counters of bits={self.bits} have no price that holds for adaptive streams; "
                f"expected more bits, as {BITS}"
            )
        return stated

    def release(self, history: Iterable[np.ndarray], *, period: int, stream: Stream) -> np.ndarray:
        """y_t of equation (2) in period t, counted from 1: shape (cells,), int64.

        `history`: the exact counts of periods 1 to t, in order, one after another read once; zeros
        where nothing came. Each has shape (cells,), signed whole numbers of any width, the shorter
        the faster. Raises ParameterError: the horizon has no such period, `history` has more or
        fewer, or its counts differ in shape.
        """
        total = np.zeros(0, dtype=np.int64)
        for number, (coefficient, counts) in enumerate(_pairs(self._row(period), history)):
            total = total if number else np.zeros(counts.shape, dtype=np.int64)
            if counts.shape != total.shape or counts.dtype.kind != "i":
                raise ParameterError(
                    "history",
                    f"{counts.dtype} {counts.shape}",
                    f"signed whole numbers of shape {total.shape} everywhere",
                )
            total += coefficient * (
                counts
                if counts.dtype.itemsize < 8
                else np.clip(counts, -_LARGEST_COUNT, _LARGEST_COUNT)
            )
        return np.array(
            discrete_gaussian.noisy_sums(total, variance=self.variance, stream=stream),
            dtype=np.int64,
        )

    def weights(self, first: int, last: int) -> np.ndarray:
        """w of equation (3) for the periods `first` to `last`, counted from 1: shape (last,),
        float64. Raises ParameterError: there are no such periods.
        """
        if not 1 <= first <= last <= self.periods:
            raise ParameterError(
                "window",
                [first, last],
                f"the first and last of some of the horizon's {self.periods} periods, counted "
                f"from 1",
            )
        return np.linalg.solve(
            matrix(self.periods, self.bits)[:last, :last].T, np.arange(1, last + 1) >= first
        )

    def windows(self, releases: Iterable[np.ndarray], windows: Windows) -> np.ndarray:
        """Equation (3) from y_1, y_2, ..., y_last: noisy counts of the rows of some periods,
        (first, last) of each window, at no further cost.

        `releases`: up to the last period of any window, in order, one after another read once.
        Returns shape (windows, cells), float64.
        """
        totals: list[np.ndarray] = []
        for weights, released in _pairs(self._weights(windows).T, releases):
            totals = totals or [np.zeros(released.shape) for _ in windows]
            for total, weight in zip(totals, weights, strict=True):
                total += weight * released
        return np.array(totals)

    def covariance(self, windows: Windows) -> np.ndarray:
        """Of the noise of equation (3) in any one cell, between windows (first, last): shape
        (windows, windows), float64.
        """
        weights = self._weights(windows)
        return float(self.variance or 0) * (weights @ weights.T)

    def _weights(self, windows: Windows) -> np.ndarray:
        """Of each window, up to the last period of any: shape (windows, periods)."""
        longest = max(last for _, last in windows)
        return np.array(
            [np.pad(self.weights(first, last), (0, longest - last)) for first, last in windows]
        )

    def _row(self, period: int) -> np.ndarray:
        if not 1 <= period <= self.periods:
            raise ParameterError(
                "period", period, f"one of the horizon's {self.periods}, counted from 1"
            )
        return matrix(self.periods, self.bits)[period - 1, :period]


def _pairs(weights: np.ndarray, arrays: Iterable[np.ndarray]) -> Iterator[tuple[Any, np.ndarray]]:
    """Each array with its weight. Raises ParameterError: there are more of the one than of the
    other.
    """
    given = iter(arrays)
    wrong = ParameterError(
        "periods", "another number of arrays", f"one for each of {len(weights)} periods"
    )
    for weight in weights:
        if (array := next(given, None)) is None:
            raise wrong
        yield weight, array
    if next(given, None) is not None:
        raise wrong
