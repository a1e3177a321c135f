"""What is known of a release's numbers: of each column which bin is fullest, and where its true
mean is with 90 %.

    (1)  half of the interval of a mean = hypot(t s, 0.08 w),   s the root mean square difference of
         means over simulated releases, t a quantile of Student's t, w the mean width of the bins
         that the numbers lie in

Simulated releases know nothing of where in its bin a value lies; the second part stands for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import ks_2samp

from dpicl.ground.randomness import stream
from dpicl.ground.types import SplitTable
from dpicl.quality.bounds import doubted_bounds
from dpicl.quality.measures import mean_of
from dpicl.quality.worth import Mean, NumberQuality

if TYPE_CHECKING:
    from dpicl.quality.replicates import Replicates

_PLACED = 0.08
"""Of the mean width of a number's bins: within it lies the error that comes of where in their bins
values are, of nine in ten columns of numbers of eight public tables.
"""


def number_quality(
    again: Replicates, cumulative: Sequence[float], far: Sequence[float], test: SplitTable | None
) -> Iterator[NumberQuality]:
    """Columns of numbers, the label last.

    Args:
        cumulative: of every column, the largest difference of shares below an edge of a bin.
        far: of every column, t s of (1).
        test: of a benchmark, the true rows.
    """
    form = again.form
    chance = stream(0, "quality-values", again.point.contract.name, "").generator()
    doubts, middles = doubted_bounds(form, again.point.contract), again.numbers()
    for place, meaning in enumerate(form.meanings):
        if meaning.categories or not sum(meaning.shares):
            continue
        fullest = int(np.argmax(meaning.shares))
        known = NumberQuality(
            meaning.column,
            cumulative[place],
            meaning.names[fullest],
            meaning.shares[fullest],
            bool(np.diff(meaning.ends)[fullest] > meaning.number.grain),
            doubts.get(meaning.column, ""),
        )
        if (place,) in middles and not again.least_error((place,)):
            shares = again.shares((place,))
            mean, spread = mean_of(middles[place,], shares)
            if spread > 0:
                wide, _ = mean_of(
                    np.diff(meaning.ends) - meaning.number.grain, shares[: len(meaning.ends) - 1]
                )
                half = float(np.hypot(far[place], _PLACED * wide))
                low, high = np.clip([mean - half, mean + half], meaning.edges[0], meaning.edges[-1])
                if np.isfinite(half):  # every simulated release had values
                    known = replace(known, mean=Mean(mean, float(low), float(high), half / spread))
        if test is not None:
            codes = again.model.bins[:, place]
            released = meaning.placed(codes, chance.random(len(codes)), meaning.digits)
            real = meaning.numbers(test.train.data.column(meaning.column))
            released, real = released[~np.isnan(released)], real[~np.isnan(real)]
            if len(real) and len(released):
                apart = abs(float(released.mean() - real.mean())) / max(float(real.std()), 1e-12)
                known = replace(
                    known, true=float(ks_2samp(released, real).statistic), mean_apart=apart
                )
        yield known
