"""Rows whose label leans on the other columns no more than noisy counts can say.

Guarantee   none spent: post-processing of what was released.
Paper       [ET93] Efron and Tibshirani, An Introduction to the Bootstrap, 17.6: optimism.

    (1)  g  <- by P, how much oftener its likeliest label is right than the most frequent one
    (2)  P' <- the model of P's own counts with noise of the same kind and scales, `AGAIN` times;
         o  <- what P' says of itself by (1), less what P says of the likeliest label by P'
    (3)  cautious where g - mean o - 1.645 deviations of o < -1 %, or a mean cell is smaller than
         its noise
    (4)  q(y | x)  proportional to  b_y (P(y | x) / P(y))^t,   b such that labels are as frequent as
         in P, t the largest of `STEPS` under which the most frequent label is the likeliest of all
         but one in 500 rows of P, and of rows of any bins, since noise may have emptied the bins of
         those that are asked about; t = 1 if there is none, since less than the least would leave
         no order of rows, and labels that are about as frequent have little to lose
    (5)  x from P, y from q where it is cautious

A classifier of them is seldom worse than the most frequent label. The order of rows by the odds of
a label stays that of P.

Symbols     P the graphical model, x a row without its label y.
Not covered a bound for every table: (3) takes P for the truth but for its noise. Tried on generated
and real tables (`make bench
            TOPIC=accuracy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpicl.tabular.central.graphical_model import (
    GraphicalModel,
    NoisyMarginal,
    added,
    graphical_models,
    row_count,
)

STEPS = (1.0, 0.8, 0.6, 0.45, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03)
AGAIN, _ROWS, _FIT_STEPS = 10, 2000, 30
_UNLIKE = 1 / 500
_CLEAR, _NOISE = 0.01, 0.6
"""Of noise in a mean cell: less is never doubted, more is never believed."""
_SURE, _LEAST_GAIN = 1.645, -0.01
_LEAST, _SCALINGS = 1e-12, 20


def says_little(
    model: GraphicalModel, counts: Sequence[NoisyMarginal], chance: np.random.Generator
) -> bool:
    """Equations (1) to (3)."""
    label, rows, counts = model.tree.label, row_count(counts), added(counts)
    noise = np.mean(
        [
            one.noise * one.counts.size / rows
            for one in counts
            if len(one.columns) == 2 and label in one.columns
        ]
    )
    if not _CLEAR < noise < _NOISE:
        return bool(noise >= _NOISE)
    shares, drawn = model.counted, model.rows(_ROWS, chance)
    chances, optimism = model.label_chances(drawn), []
    most = int(chances.mean(axis=0).argmax())
    noisy, luck = [], []
    for _ in range(AGAIN):
        noisy.append(
            [
                replace(one, counts=rows * shares[one.columns] + one.noise_again(chance))
                for one in counts
            ]
        )
        luck.append(model.tree.luck(_ROWS, chance))
    for other, of_rows in zip(
        graphical_models(model.tree.sizes, noisy, steps=_FIT_STEPS), luck, strict=True
    ):
        own = other.label_chances(other.rows_by(of_rows))
        optimism.append(
            _gain(own, own, int(own.mean(axis=0).argmax()))
            - _gain(other.label_chances(drawn), chances, most)
        )
    gain = _gain(chances, chances, most) - np.mean(optimism)
    return bool(gain - _SURE * np.std(optimism, ddof=1) < _LEAST_GAIN)


def _gain(said: np.ndarray, chances: np.ndarray, most: int) -> float:
    """Equation (1) of the likeliest label by what is said, where these are the chances: both of
    shape (rows, labels).
    """
    return float((chances[np.arange(len(said)), said.argmax(axis=1)] - chances[:, most]).mean())


def cautious_rows(model: GraphicalModel, count: int, chance: np.random.Generator) -> np.ndarray:
    """Equations (4) and (5): shape (count, columns), int64."""
    rows, anything = (
        model.rows(count, chance),
        chance.integers(0, model.tree.sizes, (count, len(model.tree.sizes))),
    )
    chances, elsewhere = (
        np.maximum(model.label_chances(some), _LEAST) for some in (rows, anything)
    )
    shares = chances.mean(axis=0)
    for step in STEPS:
        favour, leaning = _with_shares(step * np.log(chances / shares), shares)
        other = step * np.log(elsewhere / shares) + favour
        if all(
            (some.argmax(axis=1) != shares.argmax()).mean() <= _UNLIKE for some in (leaning, other)
        ):
            break
    else:
        return rows
    cumulative = np.cumsum(leaning, axis=1)
    drawn = (chance.random(count)[:, np.newaxis] * cumulative[:, -1:] >= cumulative).sum(axis=1)
    rows[:, -1] = np.minimum(drawn, len(shares) - 1)
    return rows


def _with_shares(lean: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log b and q of equation (4), by iterative scaling."""
    favour = np.log(shares)
    for _ in range(_SCALINGS):
        favour = favour + np.log(shares / _chances(lean + favour).mean(axis=0))
    return favour, _chances(lean + favour)


def _chances(heights: np.ndarray) -> np.ndarray:
    """In proportion to their powers of e, of every row; scipy's takes several times as long for few
    rows.
    """
    weights = np.exp(heights - heights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
