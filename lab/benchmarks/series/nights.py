"""A night's work late in a horizon beside one early in it, of 50 marginals of 968 cells: read what
is kept, count the night's rows, draw the release, add up all periods and the last thirty, fit the
model and draw rows of it. Processor time, in turn.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from dpicl.data.central.graphical_model import NoisyMarginal, graphical_model
from dpicl.ground.randomness import system_stream
from dpicl.mechanisms.continual_counts import ContinualCounts
from lab.benchmarks.figures import Figures, best_of, sized
from lab.benchmarks.series.counters import CONTRIBUTIONS, LAST, PERIODS, year

SHORT = sized(30, 8)
MARGINALS, BINS, ROWS_A_NIGHT, ROWS_DRAWN, ROUNDS = 50, sized(22, 4), 5_000, 16_384, sized(5, 1)
SIZES = (BINS,) * (MARGINALS + 1) + (2,)
CELLS = BINS * BINS * 2
PAIRS = list(pairwise(range(MARGINALS + 1)))


def _rows(chance: np.random.Generator) -> np.ndarray:
    """Of a night: each column is near the one before, the label near the last."""
    steps = np.append(
        chance.integers(BINS, size=(ROWS_A_NIGHT, 1)),
        chance.integers(-3, 4, size=(ROWS_A_NIGHT, MARGINALS)),
        axis=1,
    )
    columns = np.abs(np.cumsum(steps, axis=1)) % BINS
    return np.append(columns, columns[:, -1:] > BINS // 2, axis=1)


def _counts(rows: np.ndarray) -> np.ndarray:
    """In all cells."""
    codes = [(rows[:, one] * BINS + rows[:, other]) * 2 + rows[:, -1] for one, other in PAIRS]
    return np.concatenate([np.bincount(code, minlength=CELLS) for code in codes])


class Nights:
    """What is kept of the periods before, in files, and the night of the last one; the whole table
    is of one size in any horizon.
    """

    def __init__(self, counters: ContinualCounts, folder: Path) -> None:
        self.counters, self.folder, chance = counters, folder, np.random.default_rng(0)
        self.rows, self.spent = _rows(chance), dict[str, float]()
        self.whole = chance.poisson(_counts(_rows(chance)) * PERIODS).reshape(
            MARGINALS, BINS, BINS, 2
        )
        for period in range(1, counters.periods):
            arrived = chance.poisson(self.whole.ravel() / counters.periods)
            np.save(
                folder / f"counts-{period}.npy",
                arrived.astype(np.min_scalar_type(-int(arrived.max()) - 1)),
            )
            np.save(
                folder / f"released-{period}.npy",
                chance.integers(-(2**40), 2**40, MARGINALS * CELLS),
            )

    def _kept(self, what: str) -> Iterator[np.ndarray]:
        return (
            np.load(self.folder / f"{what}-{period}.npy")
            for period in range(1, self.counters.periods)
        )

    def night(self) -> None:
        """The last period's; the model is of the same counts in every horizon, as its time depends
        on them.
        """
        last, marks = self.counters.periods, [time.process_time()]
        arrived = _counts(self.rows)
        marks.append(time.process_time())
        released = self.counters.release(
            chain(self._kept("counts"), [arrived]), period=last, stream=system_stream()
        )
        marks.append(time.process_time())
        windows = [(1, last), (max(1, last - LAST + 1), last)]
        self.counters.windows(chain(self._kept("released"), [released]), windows)
        deviation = float(self.counters.covariance(windows)[0, 0]) ** 0.5
        marks.append(time.process_time())
        tables = zip(PAIRS, self.whole, strict=True)
        made = [
            NoisyMarginal((*pair, MARGINALS + 1), table, deviation, gaussian=True)
            for pair, table in tables
        ]
        graphical_model(SIZES, made).rows(ROWS_DRAWN, np.random.default_rng(0))
        marks.append(time.process_time())
        steps = ("count", "release", "windows", "model and rows")
        self.spent = {
            step: end - start for step, (start, end) in zip(steps, pairwise(marks), strict=True)
        }


def measure(figures: Figures) -> None:
    """How much longer the night of the last of 365 periods takes than that of the last of 30."""
    with tempfile.TemporaryDirectory() as short, tempfile.TemporaryDirectory() as long:
        nights = [
            Nights(year(CONTRIBUTIONS["any day"], MARGINALS, periods), Path(folder))
            for periods, folder in ((SHORT, short), (PERIODS, long))
        ]
        early, late = best_of([night.night for night in nights], ROUNDS, time.process_time)
    for one in nights:
        print(
            f"night {one.counters.periods}: "
            + ", ".join(f"{step} {1000 * spent:.0f} ms" for step, spent in one.spent.items())
        )
    figures.at_most(f"night-of-{PERIODS}-over-night-of-{SHORT}", late / early, 1.2, "x")
