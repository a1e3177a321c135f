"""Audits of a noisy mean, and the grids of its mutants.

The neighbours are rows of one value, and one row more far above the upper bound: a right
mean clips it to the bound, which moves sum and count as far as one row can.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_mean import Grid, Origin, noisy_means
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise, low_bits

ROWS, VALUE, LARGEST = 100, -37, 100
"""Rows of one value, in bounds -100 .. 100: no noisy mean is clipped, not even by half a
sensitivity; and 101 is prime, so that a sum over one row more rarely loses a factor to its count.
"""
BEYOND = 5
"""The row more lies at this many times the upper bound."""
_COUNTS = np.array(sorted(range(ROWS // 2, 2 * ROWS), key=lambda count: abs(count - ROWS)))
"""Noisy counts that are tried, likeliest first."""
_WHOLE = 1e-7


@dataclass(frozen=True)
class NoiseOf(Grid):
    """Mutant: clipped to its own bounds, with the noise of another grid."""

    noise: Grid

    @cached_property
    def sensitivity(self) -> int:
        """What the noise is scaled to."""
        return self.noise.sensitivity

    def units(self, values: np.ndarray) -> np.ndarray:
        """As without the mistake."""
        return plain(self).units(values)


class NoClip(Grid):
    """Mutant: values are taken as they come."""

    def units(self, values: np.ndarray) -> np.ndarray:
        """Steps from the origin, beyond the bounds too."""
        return np.rint((values - self.zero) / self.step).astype(np.int64)


def plain(grid: Grid) -> Grid:
    """The grid without the mistake of a mutant."""
    return Grid(grid.low, grid.high, grid.step, grid.origin)


def halved(grid: Grid) -> Grid:
    """Mutant: noise for half of what one row can move."""
    return NoiseOf(
        grid.low,
        grid.high,
        grid.step,
        grid.origin,
        Grid(grid.low / 2, grid.high / 2, grid.step, grid.origin),
    )


def sums_and_counts(means: np.ndarray, zero: float) -> tuple[np.ndarray, np.ndarray]:
    """What means tell of the noisy sum and count behind them: the likeliest count that gives a
    whole sum.

    Args:
        means: shape (runs,), in steps of 1; zero is what a sum counts as nothing.
    """
    sums = (means - zero)[:, np.newaxis] * _COUNTS
    first = (np.abs(sums - np.rint(sums)) < _WHOLE).argmax(axis=1)
    return np.rint(sums[np.arange(len(means)), first]), _COUNTS[first]


def points_to_more(means: np.ndarray, zero: float, more: float) -> np.ndarray:
    """Whether sum and count are at least those with a row more of the value `more`."""
    sums, counts = sums_and_counts(means, zero)
    return (sums >= (VALUE - zero) * ROWS + more - zero) & (counts >= ROWS + 1)


def _mean(grid: Grid, epsilon: Fraction = Fraction(1)) -> Trial:
    without = np.full(ROWS, float(VALUE))
    values = {False: without, True: np.append(without, float(BEYOND * LARGEST))}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return np.array(noisy_means([values[which]] * count, grid, epsilon=epsilon, stream=stream))

    events: dict[str, OutputEvent] = {
        "a row more, clipped": lambda means: points_to_more(means, grid.zero, LARGEST),
        "a row more, as it is": lambda means: points_to_more(means, grid.zero, BEYOND * LARGEST),
        "last bit": low_bits,
    }
    return Trial(draw, events)


HALVED = "halved-sensitivity", "the sum's noise is for half of what one row can move"


def _case(origin: Origin, where: str) -> AuditCase:
    grid = Grid(-LARGEST, LARGEST, 1, origin)
    return AuditCase(
        f"noisy-mean-{origin}", f"noisy mean, sums from the {where}", 1.0, _mean(grid)
    ).with_mutants(
        less_noise(_mean(grid, LESS_NOISE)),
        Mutant(*HALVED, _mean(halved(grid))),
        Mutant(
            "no-clip",
            "values are not clipped to the bounds",
            _mean(NoClip(-LARGEST, LARGEST, 1, origin)),
        ),
    )


CASES = (_case("centre", "middle"), _case("lower", "lower bound"))
