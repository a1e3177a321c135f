"""What rows of bins show: shares of cells, how far two sets are apart, and what a classifier scores
on the one that is fitted on the other.

Guarantee   none spent: rows are released, made up, or public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpicl.data.reading.encode import UNKNOWN
from dpicl.ground.randomness import Draws
from dpicl.methods.evaluation import rank_auc

_FITTED_ROWS = 1 << 12
"""More teach a linear classifier next to nothing."""
Columns = tuple[int, ...]
MEASURES = ("AUC", "accuracy")
OF_NUMBERS = ("R2", "MAE")
"""Of a label that is a number: of the bin's mean that the chances of all bins make expected."""
Features = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""What a classifier sees of rows of bins of columns of such sizes."""


class AnswerQuality(NamedTuple):
    """Of answers to rows: AUC, of several classes the mean over one against the rest."""

    auc: float
    accuracy: float


def answer_quality(odds: np.ndarray, truth: np.ndarray) -> AnswerQuality:
    """Of odds of every answer, shape (rows, answers), against the true codes, shape (rows,)."""
    return AnswerQuality(rank_auc(odds, truth), float(np.mean(odds.argmax(axis=1) == truth)))


def auc_variance(auc: float, no: float, yes: float) -> float:
    """Of an area under the curve on so many rows of either label: Hanley and McNeil 1982."""
    first = auc / (2 - auc)
    second = 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (no - 1) * (first - auc**2) + (yes - 1) * (second - auc**2)
    return max(0.0, spread) / (no * yes)


def marginal(bins: np.ndarray, columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Shares of the cells of some columns among rows of bins, shape (sizes of these columns); rows
    that name no bin are in none.
    """
    shape = tuple(sizes[column] for column in columns)
    known = (bins[:, list(columns)] != UNKNOWN).all(axis=1)
    cells = np.ravel_multi_index(tuple(bins[known, column] for column in columns), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / max(len(bins), 1)


def mean_of(middles: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of numbers by the means and shares of their bins, those of
    missing ones left out; NaN where nothing is left.
    """
    known = ~np.isnan(middles)
    middles, shares = middles[known], np.maximum(shares.ravel()[known], 0)
    if not shares.sum():
        return np.nan, np.nan
    mean = float(np.average(middles, weights=shares))
    return mean, float(np.sqrt(np.average((middles - mean) ** 2, weights=shares)))


def total_variation(shares: np.ndarray, others: np.ndarray) -> float:
    """Half of the sum of differences, 0 to 1."""
    return float(np.abs(shares - others).sum() / 2)


def compounding(once: np.ndarray, twice: np.ndarray) -> float:
    """The mean error of a release over that of releases of its own rows, 1 to 4: each is taken to
    lose the same share of what is left. 1 where errors are no more than noise.

    Args:
        once: errors of the shares of releases of its rows, shape (releases, cells).
        twice: the same of one release of the rows of each of these.
    """
    if len(once) < 2:
        return 1.0
    mean, again = once.mean(axis=0), twice.mean(axis=0)
    divisor = len(once) * (len(once) - 1)
    noise = ((once - mean) ** 2).sum(axis=0) / divisor
    shared = ((once - mean) * (twice - again)).sum() / divisor  # noise that is smoothed too
    square = float(mean @ mean - noise.sum())
    # three deviations of what noise alone would give
    if square <= 3 * float(np.sqrt(2 * noise @ noise)):
        return 1.0
    return float(1 / np.clip((mean @ again - shared) / square, 0.25, 1.0))


def sampling_variation(shares: np.ndarray) -> float:
    """What total variation times the root of n is expected to be between these shares and those of
    n rows drawn from them, n large.
    """
    inside = np.clip(shares, 0, 1)
    return float(np.sqrt(2 * inside * (1 - inside) / np.pi).sum() / 2)


def indicators(bins: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One column for each bin of all columns given: shape (rows, bins)."""
    return np.hstack([bins[:, [i]] == np.arange(size) for i, size in enumerate(sizes)]).astype(
        np.float64
    )


def as_numbers(bins: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Bins as they are numbered: what trees split."""
    return bins.astype(np.float64)


def fitted(
    model: Any, bins: np.ndarray, sizes: Sequence[int], features: Features = indicators
) -> Any:
    """A classifier of the label, which is the last column; None where the rows have one label
    only.
    """
    labels = bins[:, -1]
    if len(np.unique(labels)) > 1:
        return model.fit(features(bins[:, :-1], sizes[:-1]), labels)
    return None


def scores(
    model: Any,
    bins: np.ndarray,
    sizes: Sequence[int],
    features: Features = indicators,
    means: np.ndarray | None = None,
) -> AnswerQuality:
    """Of a fitted classifier on these rows; with the means of a number's bins R2, below 0 where the
    mean would be better, and the mean absolute error, as a part of what lies between the least and
    the largest of them.
    """
    labels, classes = bins[:, -1], sizes[-1]
    odds = np.zeros((len(bins), classes))
    if model is not None:
        odds[:, model.classes_] = model.predict_proba(features(bins[:, :-1], sizes[:-1]))
    elif means is None:
        return AnswerQuality(0.5, np.bincount(labels, minlength=classes).max() / len(labels))
    else:
        odds[:] = np.bincount(labels, minlength=classes) / len(labels)
    if means is None:
        return answer_quality(odds, labels)
    known = ~np.isnan(means[labels])
    true, found = means[labels][known], (odds @ np.nan_to_num(means))[known]
    spread = max(float(np.var(true)), 1e-12)
    r2 = 1 - float(np.mean((true - found) ** 2)) / spread
    return AnswerQuality(r2, min(1.0, float(np.mean(np.abs(true - found))) / width_of(means)))


def width_of(means: np.ndarray) -> float:
    """What lies between the least and the largest."""
    return max(float(np.nanmax(means) - np.nanmin(means)), 1e-12)


def classifier(classes: int = 2) -> Any:
    """The one that is judged: logistic regression on indicators of bins."""
    # a second to import: only where it is called
    from sklearn.linear_model import (
        LogisticRegression,
    )

    return LogisticRegression(
        solver="newton-cholesky" if classes <= 2 else "lbfgs", max_iter=100, tol=1e-3
    )


def learned(bins: np.ndarray, sizes: Sequence[int], draws: Draws) -> Any:
    """The classifier, fitted on some of the rows."""
    some = draws.public("quality-fit", "").generator().permutation(len(bins))[:_FITTED_ROWS]
    return fitted(classifier(sizes[-1]), bins[some], sizes)
