"""What `quality()` and `plot()` state of a release, beside the truth.

Each generated table of `planning` is released by every family of rows at each epsilon. Intervals
of a classifier's scores are compared with what that classifier scores on fresh rows; error bars of
columns, and expected errors of columns, with shares of the rows that were released.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from dpicl.contract import Contract
from dpicl.ground.types import PrivateTable, QueryTable
from dpicl.quality.measures import MEASURES, learned, marginal, scores, total_variation
from dpicl.quality.replicates import Replicates, quality_of
from dpicl.quality.shown import shown
from lab.benchmarks.answers.strangers import METHODS_OF_ROWS, Made
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.planning import EPSILONS, generated_tables

TABLES, SIMULATIONS, BARS = sized(16, 1), sized(20, 4), sized(10, 2)
"""How many tables; and how often a release is simulated, as `quality()` and `plot()` do."""


@dataclass(frozen=True)
class Stated:
    """Of one release: by measure whether the true score is in its interval, and by how much the
    estimate is off; the share of cells of columns whose bar covers the true share, and of columns
    of numbers whose interval covers the mean of the rows, NaN without any; the mean error of
    columns as expected, and as it is.
    """

    covered: tuple[bool, ...]
    off: tuple[float, ...]
    bars: float
    means: float
    expected: float
    error: float


def stated(
    method: str, contract: Contract, train: PrivateTable, fresh: QueryTable, epsilon: float
) -> Stated:
    """Releases the table once."""
    made = Made(method, contract, train, epsilon, seed=0)
    quality = quality_of(made.point, made.drawn, count=SIMULATIONS)
    again = Replicates(made.point, made.drawn)
    model = learned(again.model.bins, again.sizes, again.draws)
    truth = scores(model, again.binned.bins(fresh), again.sizes)
    rows = again.binned.bins(train)
    within, errors = [], []
    for place, panel in enumerate(shown(made.point, made.drawn, None, 0, BARS)):
        true = marginal(rows, (place,), again.sizes)
        within += (np.abs(np.array(panel.shares) - true) <= np.array(panel.errors)).tolist()
        errors.append(total_variation(again.shares((place,)), true))
    means = [
        number.mean.low <= np.nanmean(train.numbers(number.column)) <= number.mean.high
        for number in quality.numbers
        if number.mean is not None
    ]
    return Stated(
        tuple(
            score.low <= true <= score.high
            for score, true in zip(quality.scores, truth, strict=True)
        ),
        tuple(score.estimate - true for score, true in zip(quality.scores, truth, strict=True)),
        float(np.mean(within)),
        float(np.mean(means)) if means else np.nan,
        quality.column_error,
        float(np.mean(errors)),
    )


def all_stated(seed: int) -> Iterator[tuple[str, float, Stated]]:
    """Methods, epsilons, and what is stated of each release."""
    for kind, contract, made in generated_tables(seed, TABLES):
        train = PrivateTable(made.table.data.slice(0, made.rows))
        fresh = QueryTable(made.table.data.slice(made.rows))
        for method in METHODS_OF_ROWS:
            for epsilon in EPSILONS:
                yield method, epsilon, stated(method, contract, train, fresh, epsilon)
        print(f"{kind:18} {made.rows:6,} x {len(contract.features):2}", flush=True)


def measure(figures: Figures, seed: int = 2026) -> None:
    """Shares of intervals and bars that hold the truth, by method."""
    found = defaultdict[str, list[Stated]](list)
    with threadpool_limits(1):
        for method, _, release in all_stated(seed):
            found[method].append(release)
    for method, releases in found.items():
        for place, measure_ in enumerate(MEASURES):
            off = np.array([release.off[place] for release in releases])
            covered = 100 * float(np.mean([release.covered[place] for release in releases]))
            print(f"{method:12} {measure_:9} off by {np.abs(off).mean():.3f} ({off.mean():+.3f})")
            figures.within(f"{method}-quality-covers-{measure_}", covered, 85, 97, " %")
        bars = 100 * float(np.mean([release.bars for release in releases]))
        figures.within(f"{method}-bars-of-columns-cover", bars, 85, 97, " %")
        if means := [release.means for release in releases if not np.isnan(release.means)]:
            covered = 100 * float(np.mean(means))
            figures.within(f"{method}-means-of-numbers-cover", covered, 85, 97, " %")
        expected, true = (
            float(np.mean([getattr(release, name) for release in releases]))
            for name in ("expected", "error")
        )
        print(f"{method:12} error of columns {expected:.4f} expected, {true:.4f} true")
        figures.at_most(
            f"{method}-expected-errors-of-columns-off-by", 100 * abs(expected / true - 1), 15, " %"
        )
