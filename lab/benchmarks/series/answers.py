"""What a year of nightly releases costs in AUC: logistic regression on rows of the last thirty
nights' models, of all that had arrived, beside one release of the whole table with the same kind of
noise at the same (epsilon, delta), and beside nights that share that budget out.

Rows of adult, of bank and of a table that drifts arrive on 365 days; persons with at most three
rows, one a day, are protected. Noise is seeded; asked are rows that nobody drew from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dpicl.data.central.exact_counts import ExactCounts, row_bins, row_encoding
from dpicl.data.central.graphical_model import NoisyMarginal, graphical_model
from dpicl.data.central.spanning_tree import joining_pairs, pair_scores
from dpicl.data.central.spanning_tree import measure as measure_once
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.mst_series import Series, chosen_pairs
from lab.benchmarks.answers.chosen_counts import Codes, rows_of, scored
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

SEEDS = sized(5, 1)
"""Of one release, and nights of the naive splitting that are looked at."""
_DRIFTING_ROWS, _COLUMNS, _BINS = sized(40_000, 4_000), 8, 6


def measure(figures: Figures) -> None:
    """Mean AUC by table and way."""
    for name, codes, arrived in _years():
        total = GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, unit="person")
        series = Series(
            codes.sizes, PERIODS, CONTRIBUTIONS["one a day"], total, max(1, PERIODS // 12)
        )
        released = _nights(series, codes, arrived)
        nightly = [
            _auc(codes, series.window(released, 1, night).marginals, night)
            for night in range(PERIODS - LAST + 1, PERIODS + 1)
        ]
        recent = _auc(codes, series.window(released, PERIODS - LAST + 1, PERIODS).marginals, 0)
        chosen = [
            _by_choice(series, released, codes, arrived, first) for first in (1, PERIODS - LAST + 1)
        ]
        whole = ExactCounts.of(PrivateCodes(codes.train), codes.sizes)
        ways = {
            part: [_once(codes, whole, Fraction(1, part), seed) for seed in range(SEEDS)]
            for part in (1, PERIODS)
        }
        pairs = len(chosen_pairs(released[series.structure - 1]) or [])
        print(
            f"{name}: {len(codes.train):,} rows, {pairs} pairs; AUC of the last {LAST} nights "
            f"{np.mean(nightly):.4f} (least {min(nightly):.4f}), "
            f"of one release {np.mean(ways[1]):.4f}, of a budget split by {PERIODS} "
            f"{np.mean(ways[PERIODS]):.4f}, "
            f"of a window of {LAST} {recent:.4f}, of true rows "
            f"{scored(codes.train.astype(np.int64), codes, 'LR')[1]:.4f}",
            flush=True,
        )
        for what, (once, none, anew) in zip(
            ("all nights", f"the last {LAST}"), chosen, strict=True
        ):
            print(
                f"  {what}: pairs chosen once {once:.4f}, no pairs {none:.4f}, pairs chosen anew "
                f"at no cost {anew:.4f}",
                flush=True,
            )
        figures.at_most(
            f"auc-gained-by-pairs-chosen-anew-{name}", chosen[0][2] - chosen[0][0], 0.01
        )
        figures.at_most(
            f"auc-below-one-release-{name}", float(np.mean(ways[1]) - np.mean(nightly)), 0.02
        )
        figures.at_least(
            f"auc-above-a-split-budget-{name}",
            float(np.mean(nightly) - np.mean(ways[PERIODS])),
            0.0,
        )


def _years() -> Iterator[tuple[str, Codes, np.ndarray]]:
    """Tables, and the period in which each row arrives."""
    chance = np.random.default_rng(0)
    for name in TABLES if at_hand() else ():
        contract, split = real_table(name)
        codes = Codes(
            row_bins(split.train, contract),
            row_bins(split.test, contract),
            tuple(row_encoding(contract).sizes),
        )
        yield name, codes, chance.integers(1, PERIODS + 1, len(codes.train))
    yield _drifting(chance)


def _drifting(chance: np.random.Generator) -> tuple[str, Codes, np.ndarray]:
    """Columns that hang together, and a label whose odds turn from one column to another in the
    course of the year.
    """
    day = chance.integers(1, PERIODS + 1, 2 * _DRIFTING_ROWS)
    hidden = chance.normal(size=(len(day), 2))
    numbers = (
        hidden[:, np.arange(_COLUMNS) % 2]
        + chance.normal(size=(len(day), _COLUMNS))
        + 0.5 * day[:, np.newaxis] / PERIODS
    )
    turn = day / PERIODS
    odds = 1.5 * (1 - turn) * numbers[:, 0] + 1.5 * turn * numbers[:, 1] - 0.8
    label = chance.random(len(day)) < 1 / (1 + np.exp(-odds))
    bins = np.clip((numbers + 3) / 6 * _BINS, 0, _BINS - 1).astype(np.uint8)
    codes = np.column_stack([bins, label])
    split = Codes(codes[:_DRIFTING_ROWS], codes[_DRIFTING_ROWS:], (_BINS,) * _COLUMNS + (2,))
    return "drifting", split, day[:_DRIFTING_ROWS]


def _nights(series: Series, codes: Codes, arrived: np.ndarray) -> list[Arrays]:
    """What all nights publish."""
    history: list[ExactCounts] = []
    released: list[Arrays] = []
    for period in range(1, series.periods + 1):
        chosen = chosen_pairs(released[series.structure - 1]) if period > series.structure else None
        counts = ExactCounts.of(PrivateCodes(codes.train[arrived == period]), codes.sizes)
        kept = series.kept(counts, period, chosen)
        small = {scope: table.astype(np.int16) for scope, table in kept.tables.items()}
        history.append(ExactCounts(kept.sizes, small))
        released.append(series.draw(history, released, stream(0, "bench", "series", str(period))))
    return released


def _by_choice(
    series: Series, released: list[Arrays], codes: Codes, arrived: np.ndarray, first: int
) -> list[float]:
    """AUC of the rows from a night on, with the pairs that the horizon chose, with none, and with
    those that the exact counts of these rows choose, as if they had been counted all year with the
    same noise: about what a structure that is chosen anew, at no cost, would give.
    """
    window = series.window(released, first, PERIODS).marginals
    star = [one for one in window if len(one.columns) == 2]
    exact = ExactCounts.of(PrivateCodes(codes.train[arrived >= first]), codes.sizes)
    places = (max(1, first - series.structure + 1), PERIODS - series.structure + 1)

    def variance(pairs: int) -> float:
        return float(series.pairs(pairs).covariance([places])[0, 0])

    later = GaussianBudget(1 / Fraction(variance(series.features - 1)))
    chosen = list(
        joining_pairs(
            pair_scores(exact, star, later),
            series.features,
            lambda ones: int(np.argmax(list(ones))),
        )
    )
    scale = variance(max(1, len(chosen))) ** 0.5
    ways: list[list[float]] = [[], [], []]
    for seed in range(SEEDS):
        chance = np.random.default_rng(seed)
        anew = [exact.tables[*pair, series.features] + 0.0 for pair in chosen]
        noisy = [
            NoisyMarginal(
                (*pair, series.features),
                one + scale * chance.normal(size=one.shape),
                scale,
                gaussian=True,
            )
            for pair, one in zip(chosen, anew, strict=True)
        ]
        for way, counts in zip(ways, (window, star, [*star, *noisy]), strict=True):
            way.append(_auc(codes, counts, seed))
    return [float(np.mean(way)) for way in ways]


def _once(codes: Codes, whole: ExactCounts, share: Fraction, seed: int) -> float:
    """One release of all rows at this share of the budget."""
    budget = GaussianTotal.of(EPSILON, delta=DELTA, neighbours=ADD, rows=ROWS).budget.times(share)
    return _auc(
        codes,
        measure_once(whole, budget=budget, stream=stream(seed, "bench", "once", str(share))),
        seed,
    )


def _auc(codes: Codes, counts: Sequence[NoisyMarginal], seed: int) -> float:
    return scored(
        rows_of("MST", graphical_model(codes.sizes, counts), list(counts), seed), codes, "LR"
    )[1]
