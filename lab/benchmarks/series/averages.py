"""Errors of group averages in a year of nightly releases, beside one release of the whole table
with the same kind of noise at the same (epsilon, delta), beside nights that share that budget out,
and beside GDP-TabICL's own release of the table, with Laplace noise and no subsample.

Rows of adult and bank arrive on 365 days; persons with at most three rows are protected. An error
is of a number's mean, in widths of its bounds, over all groups and numbers; beside it the share of
categories that are not the true mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.data.central import aggregate
from dpicl.data.central.aggregate import assign, partition
from dpicl.data.central.group_vectors import GroupVectors
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable, ReleasedGroups
from dpicl.mechanisms import discrete_gaussian
from dpicl.mechanisms.continual_counts import Contribution
from dpicl.mechanisms.noisy_steps import GaussianTotal
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.gdp_series import GroupSeries
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import at_hand, real_table
from lab.benchmarks.series.counters import (
    ADD,
    CONTRIBUTIONS,
    DELTA,
    EPSILON,
    LAST,
    PERIODS,
    ROWS,
    TABLES,
)
from lab.in_memory import averages

SHOTS, SEEDS, MOST = 4, sized(30, 6), 3.3
"""Groups; draws of one release; and how many times its error the last night's may be."""


@dataclass(frozen=True)
class Year:
    """A table's rows by the night that counts them."""

    name: str
    table: PrivateTable
    vectors: GroupVectors
    history: list[np.ndarray]

    @staticmethod
    def of(name: str) -> Year:
        """Of a real table."""
        contract, split = real_table(name)
        groups, rng = partition(contract, SHOTS), np.random.default_rng(0)
        vectors, table = GroupVectors(contract, groups, "centre"), split.train
        days, members = rng.integers(PERIODS, size=table.row_count), assign(table, contract, SHOTS)
        nights = [np.flatnonzero(days == day) for day in range(PERIODS)]
        return Year(
            name, table, vectors, [vectors.exact(table, rows, members[rows]) for rows in nights]
        )

    def errors(self, shown: ReleasedGroups, rows: np.ndarray) -> tuple[float, float]:
        """Of averages beside those of the exact sums of some nights."""
        contract, truth = self.vectors.contract, self.vectors.averages(rows.astype(np.float64))
        numbers: list[np.ndarray] = []
        categories: list[np.ndarray] = []
        for one, true in zip(shown.groups, truth.groups, strict=True):
            for name, value in one.values.items():
                column = contract.columns[name]
                errors = numbers if name in contract.numbers else categories
                errors.append(column.distance(*column.coded([value, true.values[name]])))
        return float(np.mean(numbers)), float(np.mean(categories))


def measure(figures: Figures) -> None:
    """By table: nights, one release, a split budget, and Laplace noise."""
    for name in TABLES if at_hand() else ():
        year = Year.of(name)
        whole = np.sum(year.history, axis=0)
        once, split = (
            _mean(year.errors(one, whole) for one in _once(year, whole, share))
            for share in (1, PERIODS)
        )
        laplace = _mean(year.errors(one, whole) for one in _laplace(year))
        print(
            f"{name}: {year.table.row_count:,} rows, {SHOTS} groups, {year.vectors.size} cells; "
            f"error of means in widths, share of wrong categories"
        )
        for way, (error, wrong) in (
            ("one release", once),
            (f"a budget split by {PERIODS}", split),
            ("one release, Laplace", laplace),
        ):
            print(f"  {way:34}{error:9.5f}{wrong:8.3f}")
        for way, contribution in CONTRIBUTIONS.items():
            nights, recent = _nights(
                year, Contribution(contribution.rows, contribution.per_period, signed=1)
            )
            print(
                f"  {f'last {LAST} nights, rows on {way}':34}{nights[0]:9.5f}{nights[1]:8.3f}   "
                f"{nights[0] / once[0]:.2f} x; a window of {LAST}: {recent[0]:.5f}"
            )
            if way == "any day":
                figures.at_most(
                    f"error-of-averages-over-one-release-{name}", nights[0] / once[0], MOST, "x"
                )
                figures.at_least(
                    f"error-of-averages-of-a-split-budget-over-nights-{name}",
                    split[0] / nights[0],
                    2.0,
                    "x",
                )


def _mean(errors: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Over releases."""
    numbers, categories = np.mean(list(errors), axis=0)
    return float(numbers), float(categories)


def _nights(
    year: Year, contribution: Contribution
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of all rows until each of the last nights, over draws of a year; and of the last nights' rows
    alone.
    """
    series = GroupSeries(
        year.vectors,
        SHOTS,
        PERIODS,
        contribution,
        GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, unit="person"),
    )
    prefixes, all_nights, recent = np.cumsum(year.history, axis=0), [], []
    for seed in range(SEEDS // 6):
        released: list[Arrays] = []
        for period in range(1, PERIODS + 1):
            released.append(
                series.draw(
                    year.history[:period], released, stream(seed, "bench", year.name, str(period))
                )
            )
        all_nights += [
            year.errors(series.window(released, 1, last), prefixes[last - 1])
            for last in range(PERIODS - LAST + 1, PERIODS + 1)
        ]
        recent.append(
            year.errors(
                series.window(released, PERIODS - LAST + 1, PERIODS),
                prefixes[-1] - prefixes[-LAST - 1],
            )
        )
    return _mean(all_nights), _mean(recent)


def _once(year: Year, whole: np.ndarray, share: int) -> Iterable[ReleasedGroups]:
    """Of the whole table at this part of the budget: the same sums, with Gaussian noise for a
    person's three rows.
    """
    amount = (
        GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, rows=ROWS)
        .budget.times(Fraction(1, share))
        .amount
    )
    assert amount is not None
    for seed in range(SEEDS):
        noisy = discrete_gaussian.noisy_sums(
            whole,
            variance=year.vectors.squared_norm / amount,
            stream=stream(seed, "bench", "once", ""),
        )
        yield year.vectors.averages(np.array(noisy, dtype=np.float64))


def _laplace(year: Year) -> Iterable[ReleasedGroups]:
    """As GDP-TabICL releases a table: in pure epsilon, of which each of a person's rows has a
    third.
    """
    contract, groups, options = (
        year.vectors.contract,
        year.vectors.groups,
        aggregate.AggregateOptions("shared-count", "centre"),
    )
    members = assign(year.table, contract, SHOTS)
    for seed in range(SEEDS):
        noise = stream(seed, "bench", "laplace", "")
        yield averages(
            year.table,
            members,
            groups,
            contract,
            epsilon=EPSILON / ROWS,
            options=options,
            stream=noise,
        )
