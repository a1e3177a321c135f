"""Noisy counts of columns with the label, and of the pairs of columns that say more than these:
what MST measures.

Trust       Central: the curator reads every row; only noisy counts and the chosen pairs leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row adds 1 to one cell of every count.
Guarantee   that of the budget, pure or Gaussian (`noisy_steps`): all steps in sequence. What a step
            counts depends on earlier answers, its part of the budget on what is left, and the parts
            add up to the budget whatever is chosen.
Paper       [MMS21] McKenna, Miklau and Sheldon, MST (arXiv 2108.04978), with the label in every
            count; the end is AIM's [MMSM22]: no pair is measured whose counts would be noise.

    (1)  c_i  <- counts over (x_i, y) + noise                           a third of the budget, over
         d columns
    (2)  s_ij <- | counts over (x_i, x_j, y) - those of independence under (1) |_1  -  cells of ij *
         noise of (4)
    (3)  the best pair that joins two trees, or none, by a noisy maximum of s          a sixth, over
         d - 1 choices
    (4)  c_ij <- counts over (x_i, x_j, y) + noise                      a half, over d - 1 pairs
         where none is the best: (1) once more, with all that is left

Symbols     d columns, y the label (one category where there is none), noise the mean size of that
            in a count. One row moves s_ij by at most 1, two of them apart by 2.
Not covered persons (the caller pays for their rows); running time.

From `STEPS` on: rows whose label leans on the other columns no more than noisy counts can say.

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

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from dpicl.data.central.exact_counts import ExactCounts, variation_of_noise
from dpicl.data.central.graphical_model import (
    GraphicalModel,
    NoisyMarginal,
    added,
    graphical_models,
    row_count,
)
from dpicl.data.central.junction_tree import in_proportion
from dpicl.ground.randomness import Stream, stream
from dpicl.ground.types import MADE_ROWS
from dpicl.mechanisms.noisy_steps import StepBudget

FIRST, CHOICE, SECOND = Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)
"""Parts of the budget for equations (1), (3) and (4)."""
_SPREAD = 2
Pair = tuple[int, int]


@dataclass(frozen=True)
class Shares:
    """What each step may spend; of one column there is no pair, and the first step has all."""

    first: StepBudget
    choice: StepBudget
    second: StepBudget

    @staticmethod
    def of(budget: StepBudget, columns: int) -> Shares:
        """Of the whole."""
        first = budget.times(FIRST / columns if columns > 1 else Fraction(1))
        pairs = max(columns - 1, 1)
        return Shares(first, budget.times(CHOICE / pairs), budget.times(SECOND / pairs))

    def rest(self, left: int, columns: int) -> StepBudget:
        """For each column, once a choice has said that of `left` pairs none is worth counting."""
        return (
            self.second.times(Fraction(left))
            .plus(self.choice.times(Fraction(left - 1)))
            .times(Fraction(1, columns))
        )


def expected_errors(sizes: Sequence[int], budget: StepBudget, rows: int) -> list[float]:
    """Of every column but the label, the expected total variation between its noisy counts and so
    many rows; at most 1.

    Where no pair is worth counting, so that equation (1) is done twice: with fewer rows than that
    none is.
    """
    features = len(sizes) - 1
    shares = Shares.of(budget, features)
    once = shares.first.deviation
    again = shares.rest(features - 1, features).deviation if features > 1 else math.inf
    return variation_of_noise(sizes, 0.0 if not once else 1 / math.hypot(1 / once, 1 / again), rows)


def measure(
    exact: ExactCounts, *, budget: StepBudget | Shares, stream: Stream
) -> list[NoisyMarginal]:
    """Equations (1) to (4): noisy counts of every column with the label, then those of the chosen
    pairs, by what each step may spend.
    """
    features = len(exact.sizes) - 1
    shares = budget if isinstance(budget, Shares) else Shares.of(budget, features)
    marginals = _star(exact, shares.first, stream)
    scores = pair_scores(exact, marginals, shares.second)
    left = features - 1
    for pair in joining_pairs(
        scores,
        features,
        lambda candidates: shares.choice.chosen(candidates, spread=_SPREAD, stream=stream),
    ):
        marginals.append(exact.noisy(pair, budget=shares.second, stream=stream))
        left -= 1
    return marginals + (_star(exact, shares.rest(left, features), stream) if left else [])


def joining_pairs(
    scores: Mapping[Pair, int], features: int, choose: Callable[[Sequence[int]], int]
) -> Iterator[Pair]:
    """Equation (3), pair after pair until all columns are in one tree or none is the best.
    `choose` gives the place of a large score by a noisy maximum; the first is 0, that of none.
    """
    trees = list(range(features))
    for _ in range(features - 1):
        joining = [pair for pair in scores if trees[pair[0]] != trees[pair[1]]]
        best = choose([0, *(scores[pair] for pair in joining)])
        if best == 0:
            return
        column, other = joining[best - 1]
        yield column, other
        trees = [trees[column] if tree == trees[other] else tree for tree in trees]


def _star(exact: ExactCounts, budget: StepBudget, stream: Stream) -> list[NoisyMarginal]:
    """Equation (1) for all columns."""
    return [exact.noisy((column,), budget=budget, stream=stream) for column in range(exact.label)]


def pair_scores(
    exact: ExactCounts, star: Sequence[NoisyMarginal], later: StepBudget
) -> Mapping[Pair, int]:
    """Equation (2), for a pair that is counted by the budget `later`: whole numbers, each of which
    one row moves by at most 1.
    """
    of_label = np.maximum(np.mean([edge.counts.sum(axis=0) for edge in star], axis=0), 1)
    given = [
        np.maximum(edge.counts, 0.5) / np.maximum(edge.counts, 0.5).sum(axis=0) for edge in star
    ]
    scores = {}
    for i, j in combinations(range(len(star)), 2):
        independent = np.rint(given[i][:, np.newaxis] * given[j] * of_label).astype(np.int64)
        distance = np.abs(exact.tables[i, j, len(star)] - independent).sum()
        scores[i, j] = int(distance) - round(independent.size * later.noise)
    return scores


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
            count.noise * count.counts.size / rows
            for count in counts
            if len(count.columns) == 2 and label in count.columns
        ]
    )
    if not _CLEAR < noise < _NOISE:
        return bool(noise >= _NOISE)
    shares = model.counted
    drawn = model.rows(_ROWS, chance)
    chances = model.label_chances(drawn)
    optimism = []
    most = int(chances.mean(axis=0).argmax())
    noisy, luck = [], []
    for _ in range(AGAIN):
        noisy.append(
            [
                replace(count, counts=rows * shares[count.columns] + count.noise_again(chance))
                for count in counts
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


@dataclass(frozen=True)
class Caution:
    """Equation (4): labels of rows, less sure of themselves than the model is."""

    model: GraphicalModel
    step: float
    shares: np.ndarray
    favour: np.ndarray

    def relabel(self, rows: np.ndarray, chance: np.random.Generator) -> None:
        """Draw the label of each of these rows, shape (rows, columns), anew."""
        chances = np.maximum(self.model.label_chances(rows), _LEAST)
        leaning = in_proportion(self.step * np.log(chances / self.shares) + self.favour)
        cumulative = np.cumsum(leaning, axis=1)
        drawn = (chance.random(len(rows))[:, np.newaxis] * cumulative[:, -1:] >= cumulative).sum(
            axis=1
        )
        rows[:, -1] = np.minimum(drawn, len(self.shares) - 1)

    @staticmethod
    def of(model: GraphicalModel, chance: np.random.Generator) -> Caution | None:
        """Equation (4), by rows of the model; None where no step suffices."""
        rows = model.rows(MADE_ROWS, chance)
        anything = chance.integers(0, model.tree.sizes, rows.shape)
        chances, elsewhere = (
            np.maximum(model.label_chances(some), _LEAST) for some in (rows, anything)
        )
        shares = chances.mean(axis=0)
        for step in STEPS:
            favour, leaning = _with_shares(step * np.log(chances / shares), shares)
            other = step * np.log(elsewhere / shares) + favour
            if all(
                (some.argmax(axis=1) != shares.argmax()).mean() <= _UNLIKE
                for some in (leaning, other)
            ):
                return Caution(model, step, shares, favour)
        return None


def caution(model: GraphicalModel, counts: Sequence[NoisyMarginal]) -> Caution | None:
    """Equations (3) and (4) of a release: the same however many rows are drawn, and on whatever
    condition; None where rows are those of the model.
    """
    chance = stream(0, "caution", "", "").generator()
    return Caution.of(model, chance) if says_little(model, counts, chance) else None


def cautious_rows(
    model: GraphicalModel, counts: Sequence[NoisyMarginal], count: int, chance: np.random.Generator
) -> np.ndarray:
    """Equation (5): shape (count, columns), int64."""
    careful, rows = caution(model, counts), model.rows(count, chance)
    if careful is not None:
        careful.relabel(rows, chance)
    return rows


def _with_shares(lean: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log b and q of equation (4), by iterative scaling."""
    weights = np.exp(lean - lean.max(axis=1, keepdims=True))
    favour = shares
    for _ in range(_SCALINGS):
        favour = shares * len(lean) / (weights.T @ (1 / (weights @ favour)))
    return np.log(favour), weights * favour / (weights @ favour)[:, np.newaxis]
