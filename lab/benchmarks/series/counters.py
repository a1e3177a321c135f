"""Noise of the counters of a year beside one release of the whole table at the same (epsilon,
delta), for persons with at most three rows.

By formulas for every way, and drawn for ours: adult's and bank's rows arrive on 365 days at random,
many or few, and every night is released. The binary tree and the naive splits have what is theirs
in pure epsilon too, against one release with Laplace noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.ground.randomness import stream
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution
from dpicl.mechanisms.noisy_steps import GaussianTotal
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import at_hand, real_table

PERIODS, LAST = sized(365, 24), sized(30, 3)
EPSILON, DELTA, ROWS = 2.0, 1e-6, 3
CONTRIBUTIONS = {"any day": Contribution(ROWS, ROWS), "one a day": Contribution(ROWS, 1)}
ADD = Neighbours.ADD_OR_REMOVE_ONE
TABLES = ("adult", "bank")


def year(contribution: Contribution, marginals: int = 1, periods: int = PERIODS) -> ContinualCounts:
    """The counters of a year at the budget."""
    return ContinualCounts.of(
        EPSILON,
        delta=DELTA,
        periods=periods,
        squared_norm=marginals,
        contribution=contribution,
        neighbours=ADD,
    )


def once(marginals: int = 1) -> float:
    """Deviation of one release of the whole table, in every cell."""
    return (
        GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, rows=ROWS)
        .budget.times(Fraction(1, marginals))
        .deviation
    )


def _prefixes(counters: ContinualCounts) -> np.ndarray:
    """Deviations after 1, 2, ... periods."""
    return np.sqrt(
        np.diagonal(counters.covariance([(1, last) for last in range(1, counters.periods + 1)]))
    )


def measure(figures: Figures) -> None:
    """By formulas, then drawn."""
    _by_formulas(figures)
    if at_hand():
        for name in TABLES:
            _drawn(figures, name)


def _by_formulas(figures: Figures) -> None:
    print(
        f"deviation of a prefix's counts over that of one release, {PERIODS} periods, {ROWS} rows "
        f"of a person"
    )
    print(f"{'':44}{'last':>8}{'mean of last ' + str(LAST):>18}{'largest':>9}")
    for name, contribution in CONTRIBUTIONS.items():
        ratios = _prefixes(year(contribution)) / once()
        _print(f"ours, rows on {name}", ratios)
        if name == "any day":
            figures.at_most(
                f"deviation-over-one-release-last-of-{PERIODS}", float(ratios[-1]), 3.3, "x"
            )
            figures.at_most(
                f"deviation-over-one-release-largest-of-{PERIODS}", float(ratios.max()), 3.3, "x"
            )
        window = year(contribution).covariance([(PERIODS - LAST + 1, PERIODS)])[0, 0]
        print(f"{f'  the last {LAST} periods alone':44}{math.sqrt(window) / once():8.2f}")
    nodes = np.array([number.bit_count() for number in range(1, PERIODS + 1)])
    levels, square_root = PERIODS.bit_length(), np.cumsum(_root(PERIODS) ** 2)
    _print("square root, as printed", np.sqrt(square_root * square_root[-1]))
    _print("binary tree, Gaussian", np.sqrt(levels * nodes))
    _print("binary tree, pure epsilon", levels * np.sqrt(nodes))
    _print("every night anew, Gaussian", np.full(PERIODS, math.sqrt(PERIODS)))
    _print("every night anew, pure epsilon", np.full(PERIODS, float(PERIODS)))


def _print(name: str, ratios: np.ndarray) -> None:
    print(
        f"{name:44}{ratios[-1]:8.2f}{np.mean(ratios[-LAST:]):18.2f}{ratios.max():9.2f}", flush=True
    )


def _root(periods: int) -> np.ndarray:
    """binom(2j, j) / 4^j."""
    j = np.arange(1, periods)
    return np.cumprod(np.append(1.0, (2 * j - 1) / (2 * j)))


@dataclass(frozen=True)
class _Cells:
    """Where each row falls in every marginal of a table, the marginals one after another: columns
    with the label, and pairs of neighbours.
    """

    places: np.ndarray
    count: int

    @staticmethod
    def of(codes: np.ndarray, sizes: tuple[int, ...]) -> _Cells:
        label, starts, places = len(sizes) - 1, 0, []
        scopes: list[tuple[int, ...]] = [(column,) for column in range(label)]
        for scope in [*scopes, *pairwise(range(label))]:
            cell = codes[:, label].astype(np.int64)
            for column in scope:
                cell = cell * sizes[column] + codes[:, column]
            places.append(starts + cell)
            starts += math.prod(sizes[column] for column in (*scope, label))
        return _Cells(np.stack(places, axis=1), starts)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Of these rows, in all cells."""
        return np.bincount(self.places[rows].ravel(), minlength=self.count)


def _drawn(figures: Figures, name: str) -> None:
    contract, split = real_table(name)
    cells = _Cells.of(row_bins(split.train, contract), tuple(row_encoding(contract).sizes))
    rng, rows, marginals = np.random.default_rng(0), split.train.row_count, cells.places.shape[1]
    # some days bring many rows, one in ten none
    busy = rng.gamma(1.0, size=PERIODS) * (rng.random(PERIODS) < 0.9)
    days = rng.choice(PERIODS, size=rows, p=busy / busy.sum())
    history = [cells.counts(np.flatnonzero(days == day)) for day in range(PERIODS)]
    counters, noise = year(CONTRIBUTIONS["any day"], marginals), stream(0, "bench", name, "series")
    releases = [
        counters.release(history[:period], period=period, stream=noise)
        for period in range(1, PERIODS + 1)
    ]
    whole = GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, rows=ROWS).budget.times(
        Fraction(1, marginals)
    )
    exact = np.cumsum(history, axis=0)
    nights = range(PERIODS - LAST + 1, PERIODS + 1)
    errors = np.abs(
        counters.windows(releases, [(1, last) for last in nights]) - exact[-LAST:]
    ).mean(axis=1)
    single = np.abs(np.array(whole.counts(exact[-1].tolist(), noise)) - exact[-1]).mean()
    print(
        f"{name}: {rows:,} rows, {marginals} marginals of {cells.count:,} cells; mean error of a "
        f"cell {errors[-1]:.1f}, in one release {single:.1f}"
    )
    figures.at_most(
        f"error-of-marginals-over-one-release-{name}", float(errors[-1] / single), 3.3, "x"
    )
    figures.at_most(
        f"error-of-marginals-over-one-release-mean-of-last-{LAST}-{name}",
        float(np.mean(errors) / single),
        3.3,
        "x",
    )
