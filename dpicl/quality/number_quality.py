"""What is known of a release's numbers: of each column which bin is fullest, and where its true
mean is with 90 %.

    (1)  half of the interval of a mean = hypot(t s, 0.08 w),   s the root mean square difference of
         means over simulated releases, t a quantile of Student's t, w the mean width of the bins
         that the numbers lie in;
         and, where an end bin is more than half of the bounds, p (m - a) of it more, a its inner
         edge, p its share and m its mean: rows of a tail may all lie there
    (2)  if that is more: t s, and how far the mean moves down without the bins above it that hold
         no more than two deviations of their noise, up without those below; and where a share p,
         most of the rows, lies in one bin [a, b] of mean m, t s + p (m - a) down and
         t s + p (b - m) up; all of the bin, where p is nearly all; and where rows are denser in the
         bin at a bound than in the one beside it, which is sparser than one farther in, how far the
         mean moves if all that are more lie at the bound, to which values beyond it are moved
    (3)  R2 and MAE of numbers where one bin of the label has most: the least and the greatest that
         they are for any numbers in it.  |d MAE| <= p d,  sqrt(MSE) moves by sqrt(p) d at most,
         d the larger of m - a and b - m;  the variance is at most (sd + sqrt(p) d)^2, and at least
         that of all its rows at the number nearest to the mean of the others, of whose shares 2
         deviations of noise are taken

Simulated releases know nothing of where in its bin a value lies; the second part of (1) stands for
that, and is far too little where the bins beside one say nothing of where in it rows are. They take
released rows for true ones. No bin has less than none, so that noise makes rows of empty bins, and
those of a wide bin at a bound move the mean far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpicl.data.values import Meaning
from dpicl.ground.randomness import stream
from dpicl.ground.types import SplitTable
from dpicl.quality.bounds import NEARLY_ALL, doubted_bounds
from dpicl.quality.measures import mean_of, width_of
from dpicl.quality.worth import MOSTLY, Mean, NumberQuality

if TYPE_CHECKING:
    from dpicl.quality.replicates import Replicates

_PLACED = 0.08
"""Of the mean width of a number's bins: within it lies the error that comes of where in their bins
values are, of nine in ten columns of numbers of eight public tables.
"""
_NOISE = 2.0
"""Deviations of (2) and (3)."""


@dataclass(frozen=True)
class OneBin:
    """The bin of several values in which most numbers lie.

    Attributes:
        place, share: which one, and its share of all numbers.
        down, up: how far its least and its greatest value are from its mean.
    """

    place: int
    share: float
    down: float
    up: float

    @staticmethod
    def of(meaning: Meaning, shares: np.ndarray, means: np.ndarray) -> OneBin | None:
        """None where no bin has most of the numbers, or it is a single number.

        Args:
            shares, means: of every bin.
        """
        count = len(meaning.ends) - 1
        known = np.maximum(shares.ravel()[:count], 0)
        place = int(np.argmax(known))
        low, high = meaning.ends[place], meaning.ends[place + 1] - meaning.number.grain
        share = float(known[place] / max(known.sum(), 1e-12))
        if share < MOSTLY or high <= low:
            return None
        return OneBin(place, share, max(0.0, means[place] - low), max(0.0, high - means[place]))


def of_any_numbers(
    measure: str,
    interval: tuple[float, float, float],
    meaning: Meaning,
    means: np.ndarray,
    shares: np.ndarray,
    added: np.ndarray,
) -> tuple[float, float, float]:
    """Equation (3).

    Args:
        interval: estimate, low and high by the means of bins; of an MAE as a part of what lies
            between them.
        meaning: of the label.
        means, shares, added: of every bin of the label: its mean, its share, and the deviation of
            the noise in that.
    """
    crowded = OneBin.of(meaning, shares, means)
    if crowded is None:
        return interval
    estimate, low, high = interval
    far = max(crowded.down, crowded.up)
    if measure == "MAE":
        apart = crowded.share * far / width_of(means)
        return estimate, float(max(0.0, low - apart)), float(high + apart)
    known = ~np.isnan(means)
    _, deviation = mean_of(means, shares)
    moved = np.sqrt(crowded.share) * far
    others = np.where(known, np.maximum(shares - _NOISE * added, 0), 0.0)
    others[crowded.place] = 0.0
    rest = 1 - others.sum()
    nearest, between = means.copy(), mean_of(means, others)[0]
    if not np.isnan(between):
        at = means[crowded.place]
        nearest[crowded.place] = np.clip(between, at - crowded.down, at + crowded.up)
    others[crowded.place] = rest
    least = mean_of(nearest, others)[1]
    errors = np.sqrt(1 - np.array([low, high])) * deviation
    lowest = 1 - ((errors[0] + moved) / least) ** 2 if least > 0 else -np.inf
    highest = 1 - (max(0.0, errors[1] - moved) / (deviation + moved)) ** 2
    return estimate, float(min(low, lowest)), float(max(high, highest))


def _at_bounds(meaning: Meaning, means: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """How far the mean moves down, and up, by the last part of (2)."""
    count = len(meaning.ends) - 1
    known = np.maximum(shares[:count], 0) / max(np.maximum(shares[:count], 0).sum(), 1e-12)
    widths = np.diff(meaning.ends)
    density = known / widths
    moved = np.zeros(2)
    for side, bound in ((0, meaning.ends[0]), (-1, meaning.ends[-1] - meaning.number.grain)):
        beside, farther = (1, density[2:]) if side == 0 else (-2, density[:-2])
        if len(farther) and density[beside] < min(density[side], farther.max()):
            more = known[side] - density[beside] * widths[side]
            moved[side] = more * abs(bound - means[:count][side])
    return moved


def _of_tail(meaning: Meaning, means: np.ndarray, shares: np.ndarray) -> float:
    """How far the mean moves down where all rows of an end bin that is most of the bounds lie at
    its inner edge, and up where they lie twice as far from it as they are thought to.
    """
    count = len(meaning.ends) - 1
    known = np.maximum(shares[:count], 0) / max(np.maximum(shares[:count], 0).sum(), 1e-12)
    widths = np.diff(meaning.ends)
    return sum(
        float(np.nan_to_num(known[end] * abs(means[end] - inner)))  # of no rows there is no mean
        for end, inner in ((0, meaning.ends[1]), (-1, meaning.ends[-2]))
        if count > 1 and known[end] < MOSTLY and widths[end] > widths.sum() / 2
    )


def number_quality(
    again: Replicates,
    cumulative: Sequence[float],
    far: Sequence[float],
    noise: Mapping[tuple[int, ...], np.ndarray],
    test: SplitTable | None,
) -> Iterator[NumberQuality]:
    """Columns of numbers, the label last.

    Args:
        cumulative: of every column, the largest difference of shares below an edge of a bin.
        far: of every column, t s of (1).
        noise: of columns of numbers, the deviation of the noise in the share of each bin.
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
                means = middles[place,]
                wide, _ = mean_of(
                    np.diff(meaning.ends) - meaning.number.grain, shares[: len(meaning.ends) - 1]
                )
                halves = np.full(2, np.hypot(far[place], _PLACED * wide))
                halves += _of_tail(meaning, means, shares.ravel())
                # of empty bins half of it is cut off
                deviation = np.maximum(noise[place,], np.median(noise[place,]))
                is_noise = shares.ravel() <= _NOISE * deviation
                without = [
                    mean_of(means, np.where(is_noise & is_there, 0, shares))[0]
                    for is_there in (means > mean, means < mean)
                ]
                moved = np.array([mean - without[0], without[1] - mean])
                halves = np.maximum(halves, far[place] + np.nan_to_num(moved))
                if crowded := OneBin.of(meaning, shares, means):
                    unplaced = np.array([crowded.down, crowded.up])
                    halves = np.maximum(halves, far[place] + crowded.share * unplaced)
                    if crowded.share >= NEARLY_ALL:  # then noise may be all that is elsewhere
                        away = (mean - means[crowded.place]) * np.array([1, -1])
                        halves = np.maximum(halves, away + unplaced)
                halves = np.maximum(halves, far[place] + _at_bounds(meaning, means, shares.ravel()))
                low, high = np.clip(
                    [mean - halves[0], mean + halves[1]], meaning.edges[0], meaning.edges[-1]
                )
                half = float(halves.max())
                if np.isfinite(half):  # every simulated release had values
                    known = replace(known, mean=Mean(mean, float(low), float(high), half / spread))
        if test is not None:
            from scipy.stats import ks_2samp  # half a second to import

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
