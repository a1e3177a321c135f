"""Where in its bin a number lies, as far as shares of whole bins tell it.

    (1)  between bins   shares below each edge, and edges, are monotone cubics F and x of the number
         of the edge, so that every bin has its mass exactly
    (2)  at both ends   an exponential that falls from the edge towards the bound: in a last bin
         [a, b) of mass p the density p l e^(-l (x - a)) / (1 - e^(-l (b - a))), l such that it
         begins as the two bins before it let expect, their logarithms being on a line, or midway
         between them where the nearer one is a single number that more rows have; uniform where
         that is below the mean density of the bin, p / (b - a)
    (3)  a number       x(F^-1(F(low) + share (F(high) - F(low))))

Bounds are often far away from all values, so that numbers drawn evenly from a last bin are far too
large: (2) is for these.

Guarantee   none spent: post-processing of released shares.
Paper       [FC80] Fritsch and Carlson, monotone piecewise cubic interpolation, by scipy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_STEPS = 32
"""Of each bin, between which (3) of (1) is linear."""
_STEEPEST = 1e6
"""l (b - a) of (2), at most."""


@dataclass(frozen=True)
class Inside:
    """Where numbers lie in the bins of a column.

    Attributes:
        curve: (3) of (1) at 0, 1/32 … 1 of the mass of every bin, shape (bins, 33).
        rates: l (b - a) of the first and of the last bin; 0 where it is uniform.
    """

    curve: np.ndarray
    rates: tuple[float, float]

    def drawn(self, bins: np.ndarray, share: np.ndarray) -> np.ndarray:
        """How far each number is on its way through its bin, where this share of the bin's mass is
        below it: shape (rows,), in [0, 1).
        """
        at = share * _STEPS
        step = np.minimum(at.astype(np.int64), _STEPS - 1)
        low, high = self.curve[bins, step], self.curve[bins, step + 1]
        way = low + (at - step) * (high - low)
        first, last = self.rates
        if first:
            way = np.where(bins == 0, 1 - _fallen(1 - share, first), way)
        if last:
            way = np.where(bins == len(self.curve) - 1, _fallen(share, last), way)
        return np.clip(way, 0, 1 - 2.0**-40)


@lru_cache(maxsize=512)
def inside(edges: tuple[float, ...], shares: tuple[float, ...], grain: float = 0.0) -> Inside:
    """Of the bins between rising edges, one more than bins, that hold these shares of all rows;
    those that hold none are uniform.

    Args:
        grain: how far neighbouring numbers are apart, 0 where any number is possible.
    """
    widths = np.diff(edges).tolist()
    steps = np.linspace(0, 1, _STEPS + 1)
    curve = np.tile(steps, (len(shares), 1))
    if len(shares) < 2 or min(widths) <= 0:  # of real numbers a bin may hold the upper bound alone
        return Inside(curve, (0.0, 0.0))
    from scipy.interpolate import PchipInterpolator  # only where numbers are drawn

    below = np.concatenate([[0.0], np.cumsum(shares)])
    number = np.arange(len(edges))
    of_mass, of_edge = PchipInterpolator(number, below), PchipInterpolator(number, edges)
    for place in np.flatnonzero(shares).tolist():
        mass = (of_mass(place + steps) - below[place]) / shares[place]
        through = (of_edge(place + steps) - edges[place]) / widths[place]
        mass, through = (np.maximum.accumulate(np.clip(way, 0, 1)) for way in (mass, through))
        curve[place] = np.interp(steps, mass, through)
    curve[[0, -1]] = steps
    curve[:, [0, -1]] = 0.0, 1.0
    ends = (
        _rate(widths[:3][::-1], shares[:3][::-1], grain),
        _rate(widths[-3:], shares[-3:], grain),
    )
    return Inside(curve, ends)


def _rate(widths: Sequence[float], shares: Sequence[float], grain: float) -> float:
    """Equation (2): l (b - a) of the last of two or three bins."""
    *before, beside, mass = shares
    *wide, width, last = widths
    if not (beside > 0 and mass > 0):
        return 0.0
    begins = near = math.log(beside / width)
    if before and before[0] > 0:
        slope = 2 * (near - math.log(before[0] / wide[0])) / (wide[0] + width)
        begins = near + min(slope, 0.0) * width / 2
        if width <= grain:
            begins = near - abs(slope) * width / 2
    ratio = math.exp(min(begins + math.log(last / mass), 700.0))
    low, high = 0.0, _STEEPEST
    # l (b - a) / (1 - e^(-l (b - a))) rises with l, from 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / -math.expm1(-middle) < ratio else (low, middle)
    return low


def _fallen(share: np.ndarray, rate: float) -> np.ndarray:
    """(3) of (2); all of a share is the bin's other edge."""
    below = np.minimum(share, 1 - 2.0**-53)
    return np.asarray(-np.log1p(below * math.expm1(-rate)) / rate)
