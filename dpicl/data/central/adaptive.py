"""Noisy counts with the label, of the columns and of the pairs and triples of these that are worth
their noise: what AIM-TabICL measures.

Trust       Central: the curator reads every row; only noisy counts and what was chosen leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row adds 1 to one cell of every count.
Guarantee   that of the budget, pure or Gaussian (`noisy_steps`): all steps in sequence. What a step
            does depends on earlier answers, its part of the budget on what is left, and the parts
            add up to the budget whatever is chosen.
Paper       [MMSM22] McKenna, Mullins, Sheldon and Miklau, AIM (arXiv 2201.12677), with the label in
            every count, and rules of ours for what is not worth a count: the second line of (1),
            (2), the end of (3) and the margin of (5).

    (1)  c_y   <- counts over y + noise                                                a twentieth
         of the budget
         and once more, where its noise is above a 25th of N    as much as makes that of the second
         a 25th, at most half of what is left
    (2)  all columns, where the noise of (3) is at most a fifth of the mean cell; else, of six or
         more, as many as make it an eighth, at least
         two, if these are half of them or fewer: one after another those with the largest sum |n_xy
         N - n_x c_y|, by noisy maxima   a quarter
         and each of the others on its own, by (7)      a fifth of what is left
    (3)  c_i   <- counts over (x_i, y) + noise                  two fifths of what is left, or all
         where pairs would be mostly noise
    (4)  P     <- the graphical model of all counts
         `graphical_model`
    (5)  the pair or triple s with the largest  | counts over (x_s, y) - N P |_1 - cells * noise -
         margin,  or none where all are below 0, by
         a noisy maximum                                                            a quarter of a
         round; as many rounds as leave the noise of a pair at most three tenths of N, at most
         columns less one; if that is fewer, none where the noise of (3) were more than 7.5 % of the
         mean cell
    (6)  c_s   <- counts over (x_s, y) + noise, then (4)
         the rest of the round where none is the best: (3) once more, with all that is left
    (7)  c_j   <- n / b + s / (s + v) (counts over x_j + noise - n / b)      s the larger one of the
         mean square of the bracket less v, and that of a column a quarter of whose rows would have
         to move to make it even

Symbols     y the label, one category where there is none; N the sum of c_y, each at least 1; noise
            the mean size of that in a count, v its variance; b the bins of x_j. One row moves a sum
            of (2) by at most 2 (N - c_y), up or down, and what is chosen among in (5) by at most 1
            each, two of them apart by 2.
Not covered persons (the caller pays for their rows); running time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpicl.data.central.exact_counts import ExactCounts, cells, variation_of_noise
from dpicl.data.central.graphical_model import (
    GraphicalModel,
    ModelMarginals,
    NoisyMarginal,
    added,
    graphical_model,
    row_count,
)
from dpicl.data.central.junction_tree import Scope, fits, largest_clique, together
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_steps import StepBudget

LABEL = Fraction(1, 20)
COLUMNS = Fraction(1, 4)
OTHERS = Fraction(1, 5)
STAR = Fraction(2, 5)
CHOICE = Fraction(1, 4)
"""Parts of (1) and (2) of the budget, of (2)'s others and (3) of what is left, and of (5) of a
round.
"""
_NOISY, _CLEAR, _BESIDE, _HOPELESS = 0.2, 0.12, 0.075, 0.3
"""Most noise in a mean cell for all columns, for chosen ones, and where there are fewer rounds than
columns less one; most noise of a pair, of all rows.
"""
_MEAN = math.sqrt(2 / math.pi)
"""Size of normal noise, in deviations."""
EVEN = 0.25
"""Total variation between a column and an even one, about."""
_SURE, _AGAIN = 0.04, Fraction(1, 2)
"""Most noise in a count of the label, of all rows, that is not made less; most of what is left that
goes to this.
"""
_FEWEST, _NARROW, _SPREAD = 2, 6, 2
"""Columns that are chosen at least; of so many they are; by how much one row moves the difference
of two scores of (5).
"""
_WIDEST = 1 << 15
"""Cells of the largest clique."""
_STEPS = 60
"""Of a fit that only scores what to count next, and goes on from the one before."""


def measure(exact: ExactCounts, *, budget: StepBudget, stream: Stream) -> list[NoisyMarginal]:
    """Equations (1) to (6): noisy counts that spend this budget together."""
    purse = _Purse(budget)
    counts = [exact.noisy((), budget=purse.take(purse.left, LABEL), stream=stream)]
    if again := _again(row_count(counts), budget.times(LABEL), purse.left):
        counts.append(exact.noisy((), budget=purse.take(purse.left, again), stream=stream))
    of_label = [max(1, int(count)) for count in added(counts)[0].counts]
    columns = _chosen_columns(exact, of_label, purse, stream)
    counts += _alone(exact, columns, sum(of_label), purse, stream)
    candidates = [scope for scope in exact.scopes if len(scope) > 1 and {*scope} <= {*columns}]
    rounds = _rounds(exact.sizes, candidates, len(columns), sum(of_label), purse.left)
    each = purse.left.times(STAR if rounds else Fraction(1))
    counts += _star(exact, columns, purse.take(each), stream)
    one_round = purse.left.times(Fraction(1, max(1, rounds)))
    model = None
    for _ in range(rounds):
        model = graphical_model(exact.sizes, counts, earlier=model, steps=_STEPS)
        later = one_round.times(1 - CHOICE)
        choice = purse.take(one_round, CHOICE)
        best = _best(
            exact,
            candidates,
            counts,
            model,
            sum(of_label),
            later=later,
            choice=choice,
            stream=stream,
        )
        if best is None:
            counts += _star(exact, columns, purse.take(purse.left), stream)
            break
        counts.append(exact.noisy(best, budget=purse.take(one_round, 1 - CHOICE), stream=stream))
        candidates.remove(best)
    return counts


def _again(rows: float, first: StepBudget, left: StepBudget) -> Fraction:
    """Equation (1): the part of what is left that a second count of the label gets."""
    if first.noise <= _SURE * rows:
        return Fraction(0)
    tables = left.tables(rows, _SURE)
    return _AGAIN if tables <= 1 / _AGAIN else 1 / Fraction(tables).limit_denominator(10**6)


def expected_errors(sizes: Sequence[int], budget: StepBudget, rows: int) -> list[float]:
    """Of every column but the label, the expected total variation between its noisy counts and so
    many rows; at most 1, as of no counts.

    Where no pair is worth counting. Where columns are chosen it is the mean over the choices, as if
    all were alike.
    """
    features = len(sizes) - 1
    first = budget.times(LABEL)
    left = budget.times(1 - LABEL)
    left = left.times(1 - _again(rows, first, left))
    few = few_columns(sizes, rows, left)
    if few is None:
        return variation_of_noise(sizes, left.times(Fraction(1, features)).deviation, rows)
    left = left.times(1 - COLUMNS)
    each = left.times(OTHERS / (features - few))
    chosen = variation_of_noise(sizes, left.times((1 - OTHERS) / few).deviation, rows)
    others = [
        _drawn_to_even(error)
        for error in variation_of_noise((*sizes[:-1], 1), each.deviation, rows)
    ]
    return [
        (few * mine + (features - few) * other) / features
        for mine, other in zip(chosen, others, strict=True)
    ]


class _Purse:
    """What is left of a budget."""

    def __init__(self, budget: StepBudget) -> None:
        self.left = budget

    def take(self, of: StepBudget, share: Fraction = Fraction(1)) -> StepBudget:
        """A share, which is no longer left."""
        taken = of.times(share)
        self.left = self.left.less(taken)
        return taken


def few_columns(sizes: Sequence[int], rows: float, budget: StepBudget) -> int | None:
    """Equation (2), by what is left after (1): how many columns are counted with the label, where
    it is not all of them.
    """
    if budget.amount is None:
        return None
    features = len(sizes) - 1
    cell = _mean_cell(sizes, rows)
    few = max(_FEWEST, int(budget.times(1 - COLUMNS).tables(cell, _CLEAR)))
    if budget.noise_of_each(features) > _NOISY * cell and max(_NARROW, 2 * few) <= features:
        return few
    return None


def _mean_cell(sizes: Sequence[int], rows: float) -> float:
    """Rows in a cell of a column and the label."""
    return rows / (sum(sizes[:-1]) / (len(sizes) - 1)) / sizes[-1]


def _chosen_columns(
    exact: ExactCounts, of_label: Sequence[int], purse: _Purse, stream: Stream
) -> list[int]:
    """Equation (2)."""
    features = len(exact.sizes) - 1
    rows = sum(of_label)
    few = few_columns(exact.sizes, rows, purse.left)
    if few is None:
        return [*range(features)]
    left = {column: column_score(exact.over((column,)), of_label) for column in range(features)}
    each = purse.take(purse.left, COLUMNS).times(Fraction(1, few))
    chosen = list[int]()
    spread = column_spread(of_label)
    for _ in range(few):
        columns = list(left)
        chosen.append(columns[each.chosen(left.values(), spread=spread, stream=stream)])
        del left[chosen[-1]]
    return sorted(chosen)


def column_score(counts: np.ndarray, of_label: Sequence[int]) -> int:
    """How far counts of a column with the label are from the label's shares: a sum of equation (2),
    a whole number.
    """
    rows = sum(of_label)
    return sum(
        abs(int(n) * rows - sum(line) * c)
        for line in counts.tolist()
        for n, c in zip(line, of_label, strict=True)
    )


def column_spread(of_label: Sequence[int]) -> int:
    """The most by which one row moves the difference of two such sums: each by 2 (N - c_y) of its
    label y, up or down.
    """
    return 2 * 2 * (sum(of_label) - min(of_label)) or 1


def _alone(
    exact: ExactCounts, columns: Sequence[int], rows: float, purse: _Purse, stream: Stream
) -> list[NoisyMarginal]:
    """Equation (2) of columns that were not chosen, without the label."""
    others = [column for column in range(exact.label) if column not in columns]
    if not others:
        return []
    each = purse.take(purse.left, OTHERS).times(Fraction(1, len(others)))
    return [
        _shrunk(exact.noisy((column,), budget=each, stream=stream, with_label=False), rows)
        for column in others
    ]


def least_errors(counts: Sequence[NoisyMarginal]) -> dict[int, float]:
    """By column that is counted on its own, what (7) is expected to leave of its error: noise, or
    what is lost where it hides the counts. No release of such a column's own model shows the
    latter, as that is nearly even.
    """
    rows = round(row_count(counts))
    label = max(column for count in counts for column in count.columns)
    return {
        count.columns[0]: _drawn_to_even(
            variation_of_noise((count.counts.size, 1), math.sqrt(count.variance), rows)[0]
        )
        for count in counts
        if len(count.columns) == 1 and count.columns[0] != label
    }


def _drawn_to_even(error: float) -> float:
    """Of a noisy count, once it is drawn towards an even one."""
    return 1 / math.hypot(1 / error, 1 / EVEN) if error else 0.0


def _shrunk(count: NoisyMarginal, rows: float) -> NoisyMarginal:
    """Equation (7)."""
    bins = count.counts.size
    even = rows / bins
    apart = count.counts - even
    usual = (2 * EVEN / _MEAN * even) ** 2
    seen = float((apart**2).mean()) - count.variance
    signal = max(usual, seen)
    return replace(count, counts=even + signal / (signal + count.variance) * apart)


def _rounds(
    sizes: Sequence[int], candidates: Sequence[Scope], columns: int, rows: int, left: StepBudget
) -> int:
    """How often equation (5) is done at most: as often as leaves little noise in a pair. Never
    where that is for few pairs alone, and the columns would have much noise for them.
    """
    pairs = sorted(cells(sizes, scope) for scope in candidates if len(scope) == 2)
    if not pairs:
        return 0
    of_rounds = left.times((1 - STAR) * (1 - CHOICE))
    is_clear = left.times(STAR / columns).noise <= _BESIDE * _mean_cell(sizes, rows)
    for rounds in range(columns - 1, 0, -1):
        noise = of_rounds.times(Fraction(1, rounds)).noise
        if pairs[len(pairs) // 2] * noise <= _HOPELESS * rows:
            return rounds if is_clear or rounds == columns - 1 else 0
    return 0


def _best(
    exact: ExactCounts,
    candidates: Sequence[Scope],
    counts: Sequence[NoisyMarginal],
    model: GraphicalModel,
    rows: int,
    *,
    later: StepBudget,
    choice: StepBudget,
    stream: Stream,
) -> Scope | None:
    """Equation (5): the columns to be counted together by the budget `later`, chosen by the budget
    `choice` of candidates that are not mostly noise, and whose model fits.
    """
    beside = together(exact.label, [count.columns for count in counts])
    noise, sizes = later.noise, exact.sizes
    is_roomy = largest_clique(sizes, dict(beside)) <= _WIDEST
    able = [
        scope
        for scope in candidates
        if cells(sizes, scope) * noise < 2 * rows
        and is_roomy
        and fits(sizes, scope, beside, _WIDEST)
    ]
    marginals = ModelMarginals(model)
    margin = _SPREAD * math.log(len(able) + 1) * choice.choice_scale
    scores = [
        scope_score(exact.over(scope), marginals.over(scope) * rows)
        - round(cells(sizes, scope) * noise + margin)
        for scope in able
    ]
    best = choice.chosen([0, *scores], spread=_SPREAD, stream=stream)
    return able[best - 1] if best else None


def scope_score(counts: np.ndarray, modelled: np.ndarray) -> int:
    """How far counts are from what the model says: a whole number, which one row moves by at most
    1.
    """
    return int(np.abs(counts - np.rint(modelled).astype(np.int64)).sum())


def _star(
    exact: ExactCounts, columns: Sequence[int], budget: StepBudget, stream: Stream
) -> list[NoisyMarginal]:
    """Equation (3), by this budget together."""
    each = budget.times(Fraction(1, len(columns)))
    return [exact.noisy((column,), budget=each, stream=stream) for column in columns]
