"""Noisy votes of rows for public candidates, of which the next candidates are made: what Tab-PE
draws.

Trust       Central: the curator reads every row; only noisy votes leave, those of all iterations.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: whatever the candidates are, one row adds one vote to one of them in
            every histogram.
Guarantee   epsilon-DP, delta = 0: all histograms in sequence. Candidates depend on earlier noisy
            histograms and on public randomness, how many histograms there are on (1); whatever they
            are, they cost epsilon together (a filter of pure guarantees: Rogers, Roth, Ullman and
            Vadhan 2016).
Paper       [TBL+26] Tran, Backurs, Lin, Reis, Li and Yekhanin, Tab-PE (arXiv 2606.08259), after
            [LGK+24] Lin, Gopi, Kulkarni, Nori and Yekhanin, Private Evolution (arXiv 2305.15560);
            in detail after the authors' code (microsoft/DPSDA), not the text. Ours: pure noise,
            which makes iterations dear, so that there are two in the place of 15 to 30; (1), which
            they take from the rows without noise; (2), in the place of uniform rows; every row
            there can be, where these are few.

    (1)  c_y  <- #{rows of label y} + noise
         a twentieth of epsilon where there can be at most 10 N epsilon' different rows, epsilon'
         being what is left, C is all of them, and (4) is done once
    (2)  m_jy <- #{rows of label y with each code of column j} + noise, over all columns j
         three tenths of what is left
    (3)  C    <- N epsilon'' / (3 T) rows, epsilon'' being what is left, of labels as frequent as in
         c, each column drawn from m on its own
    (4)  h    <- one vote of each row for the candidate of its label that is nearest, + noise
         a T-th of what is left, T times
    (5)  C    <- of each label the quarter of C with the most noisy votes, and three variations of
         each; (4) again   `candidates`

Symbols     y the label, one category where there is none; N the sum of c_y, each at least 1; T = 2
            iterations; noise discrete Laplace.
Not covered persons (the caller pays for their rows); running time.

From `Space` on: candidate rows, how far apart they are, and variations of them: what Tab-PE makes
of public knowledge and of votes.

    (1)  place of a number's bin      12 i / (bins - 1), rounded, on an axis of its own; a missing
         one in the middle, 8 away on another
         place of a category          4 on an axis of its own: two of them are as far apart as bins
                                      over nearly half of the bounds
    (2)  distance of two rows         the sum over columns of the squared distance of places: a
         whole number, which is computed exactly
    (3)  variation                    of d columns each anew with probability 1 / d: a category any
         one, a bin the same or one beside it

Guarantee   none spent: public bins and public randomness, and post-processing where candidates are
            chosen by noisy votes.
Paper       Weights and variations of Tab-PE (arXiv 2606.08259) on bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpicl.contract.models import Contract
from dpicl.data.central.exact_counts import row_encoding, variation_of_noise
from dpicl.ground.randomness import Stream, stream
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms import noisy_count
from dpicl.mechanisms.noisy_steps import PureBudget

LABEL, COLUMNS = Fraction(1, 20), Fraction(3, 10)
"""Parts of (1) of epsilon, and of (2) of what is left."""
ITERATIONS = 2
_CROWDED, _VOTES = 10, 3
"""All rows there can be are candidates at so many for each unit of noise among the rows' votes;
else a candidate has so many units, on average.
"""
_FEWEST, _MOST, _MOST_CELLS = 64, 8192, 1 << 16
_FAMILY = 4
"""A candidate that is kept, and its variations."""
_LEAST, _EXACT = 1e-3, 1e-3
"""Rows of a code or candidate that has no noisy vote, and the scale of no noise."""


@dataclass(frozen=True)
class Histogram:
    """Votes for candidates, with discrete Laplace noise of this scale (0: none).

    Attributes:
        columns: which ones the candidates have, the label last.
        candidates: their codes, shape (candidates, columns).
        votes: shape (candidates,).
    """

    columns: tuple[int, ...]
    candidates: np.ndarray
    votes: np.ndarray
    scale: float


@dataclass(frozen=True)
class DistinctRows:
    """Private: distinct rows, codes of shape (rows, columns), int64, the label last; and how many
    there are of each.
    """

    rows: np.ndarray
    counts: np.ndarray

    @staticmethod
    def of(truth: PrivateCodes) -> DistinctRows:
        """Of rows with codes of shape (rows, columns)."""
        rows, counts = np.unique(truth.codes.astype(np.int64), axis=0, return_counts=True)
        return DistinctRows(rows, counts)

    def scaled(self, times: float) -> DistinctRows:
        """Of rows that stand for so many others each."""
        return DistinctRows(self.rows, np.rint(self.counts * times).astype(np.int64))

    def over(self, columns: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
        """How many rows have each combination of codes of these columns, all of them in order: one
        vote of each row.
        """
        shape = [sizes[column] for column in columns]
        cells = np.ravel_multi_index(tuple(self.rows[:, column] for column in columns), shape)
        return np.bincount(cells, weights=self.counts, minlength=math.prod(shape)).astype(np.int64)

    def votes(self, candidates: np.ndarray, space: Space) -> np.ndarray:
        """Equation (4) without noise: of each row one vote for one candidate, or for none where its
        label has none.
        """
        chosen = nearest(self.rows, candidates, space)
        return np.bincount(
            chosen[chosen >= 0], weights=self.counts[chosen >= 0], minlength=len(candidates)
        ).astype(np.int64)


@dataclass(frozen=True)
class EvolutionShares:
    """What each histogram may spend: that of the labels, one of a column, and one of an iteration;
    None stands for infinity.
    """

    label: Fraction | None
    column: Fraction | None
    iteration: Fraction | None

    @staticmethod
    def of(total: Fraction | None, columns: int, iterations: int) -> EvolutionShares:
        """Epsilon in all; without columns where all rows there can be are candidates."""
        if total is None:
            return EvolutionShares(None, None, None)
        left = total * (1 - LABEL)
        column = left * COLUMNS / columns if columns else Fraction(0)
        return EvolutionShares(total * LABEL, column, (left - column * columns) / iterations)


def is_small(space: Space, epsilon: Fraction | None, rows: float) -> bool:
    """Whether all rows there can be are candidates, at so much epsilon in all."""
    worth = _MOST_CELLS if epsilon is None else _CROWDED * rows * float(epsilon * (1 - LABEL))
    # of thousands of columns no double holds the cells
    return space.cells <= int(max(_FEWEST, min(worth, _MOST_CELLS)))


def candidate_count(iteration: Fraction | None, rows: float) -> int:
    """Equation (3): how many there are about, by what an iteration may spend."""
    if iteration is None:
        return _MOST
    return int(min(max(rows * float(iteration) / _VOTES, _FEWEST), _MOST))


def expected_errors(space: Space, epsilon: float, rows: int) -> list[float]:
    """Of every column but the label, the total variation between so many rows and the noise of the
    last histogram alone; at most 1.
    """
    total = noisy_count.exact_epsilon(epsilon)
    small = is_small(space, total, rows)
    each = EvolutionShares.of(
        total, 0 if small else len(space.sizes) - 1, 1 if small else ITERATIONS
    ).iteration
    count = space.cells if small else candidate_count(each, rows)
    # A bin holds count / size candidates, and not as many as there are labels.
    return [
        variation_of_noise(
            (size, 1), PureBudget(each).deviation * math.sqrt(max(1.0, count / size)), rows
        )[0]
        for size in space.sizes[:-1]
    ]


def evolve(
    voters: DistinctRows,
    space: Space,
    *,
    epsilon: float | Fraction,
    stream: Stream,
    chance: np.random.Generator,
    shares: EvolutionShares | None = None,
) -> list[Histogram]:
    """Equations (1) to (5): histograms that cost epsilon together, in the order in which they are
    drawn.

    Args:
        stream: the noise's.
        chance: of candidates; public.
        shares: other ones than epsilon's, for audits.
    """
    total = noisy_count.exact_epsilon(epsilon)
    label = len(space.sizes) - 1

    def over(columns: Sequence[int], each: Fraction | None) -> Histogram:
        every = every_row([space.sizes[column] for column in columns])
        return _noisy(columns, every, voters.over(columns, space.sizes), each, stream)

    drawn = [over((label,), (shares or EvolutionShares.of(total, label, 1)).label)]
    of_label = np.maximum(drawn[0].votes, 1)
    if is_small(space, total, of_label.sum()):
        return [
            *drawn,
            over(range(label + 1), (shares or EvolutionShares.of(total, 0, 1)).iteration),
        ]
    each = shares or EvolutionShares.of(total, label, ITERATIONS)
    drawn += [over((column, label), each.column) for column in range(label)]
    candidates = _first(
        drawn[1:], of_label, candidate_count(each.iteration, of_label.sum()), chance
    )
    for iteration in range(ITERATIONS):
        drawn.append(
            _noisy(
                range(label + 1),
                candidates,
                voters.votes(candidates, space),
                each.iteration,
                stream,
            )
        )
        if iteration + 1 < ITERATIONS:
            candidates = _next(drawn[-1], space, chance)
    return drawn


def _noisy(
    columns: Sequence[int],
    candidates: np.ndarray,
    votes: np.ndarray,
    epsilon: Fraction | None,
    stream: Stream,
) -> Histogram:
    """The only place where noise is drawn."""
    noisy = noisy_count.noisy_counts(votes.tolist(), epsilon=epsilon, stream=stream)
    return Histogram(tuple(columns), candidates, np.array(noisy), PureBudget(epsilon).scale)


def _first(
    marginals: Sequence[Histogram], of_label: np.ndarray, count: int, chance: np.random.Generator
) -> np.ndarray:
    """Equation (3); those that are equal are one."""
    of_each = np.ceil(of_label / of_label.sum() * count).astype(np.int64)
    columns = []
    for marginal in marginals:
        likely = np.maximum(marginal.votes.reshape(-1, len(of_label)), 0) + _LEAST
        columns.append(
            np.concatenate(
                [
                    chance.choice(len(likely), size=size, p=chances / chances.sum())
                    for size, chances in zip(of_each, likely.T, strict=True)
                ]
            )
        )
    return np.unique(
        np.stack([*columns, np.repeat(np.arange(len(of_label)), of_each)], axis=1), axis=0
    )


def _next(histogram: Histogram, space: Space, chance: np.random.Generator) -> np.ndarray:
    """Equation (5); those that are equal are one."""
    kept, labels = [], histogram.candidates[:, -1]
    for label in range(space.sizes[-1]):
        some = np.flatnonzero(labels == label)
        kept.append(
            some[np.argsort(-histogram.votes[some], kind="stable")[: -(-len(some) // _FAMILY)]]
        )
    parents = histogram.candidates[np.concatenate(kept)]
    varied = [space.varied(parents, chance) for _ in range(_FAMILY - 1)]
    return np.unique(np.concatenate([parents, *varied]), axis=0)


def label_counts(drawn: Sequence[Histogram]) -> np.ndarray:
    """Rows of each label, at least 1, by all histograms: the mean with the least variance of their
    noise.
    """
    count = drawn[0].candidates.max() + 1
    counts = np.zeros(count)
    weights = np.zeros(count)
    for generation in drawn:
        labels = generation.candidates[:, -1]
        weight = 1 / (
            np.maximum(np.bincount(labels, minlength=count), 1) * max(generation.scale, _EXACT) ** 2
        )
        counts += weight * np.bincount(labels, weights=generation.votes, minlength=count)
        weights += weight
    return np.asarray(np.maximum(counts / weights, 1))


def voted_rows(drawn: Sequence[Histogram], count: int, chance: np.random.Generator) -> np.ndarray:
    """Candidates of the last histogram in random order, as likely as their votes, none below 0;
    labels as frequent as in `label_counts`.
    """
    last, of_label = drawn[-1], label_counts(drawn)
    labels = last.candidates[:, -1]
    votes = np.maximum(last.votes, 0) + _LEAST
    likely = (
        votes / np.bincount(labels, weights=votes)[labels] * (of_label / of_label.sum())[labels]
    )
    return np.asarray(
        last.candidates[chance.choice(len(votes), size=count, p=likely / likely.sum())]
    )


_WIDTH, _APART, _MISSING = 12, 4, 8
_ORDERS, _BLOCK = 16, 4096
"""Of equals; and rows at a time."""


@dataclass(frozen=True)
class Space:
    """Every row there can be.

    Attributes:
        sizes: codes of each column, the label last.
        ordered: of each column but the label, how many of its codes, the first ones, stand in
            order: none of a category.
    """

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]

    @staticmethod
    def of(contract: Contract) -> Space:
        """By the bins of `central.bins`."""
        sizes = row_encoding(contract).sizes
        ordered = [
            size - contract.numbers[name].nullable if name in contract.numbers else 0
            for name, size in zip(contract.features, sizes[:-1], strict=True)
        ]
        return Space(sizes, tuple(ordered))

    @property
    def cells(self) -> int:
        """How many rows there can be."""
        return math.prod(self.sizes)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Equation (1): whole numbers of shape (rows, axes), float32, for the columns but the
        label.
        """
        tables = [
            _places(size, ordered)
            for size, ordered in zip(self.sizes[:-1], self.ordered, strict=True)
        ]
        return np.hstack([table[rows[:, column]] for column, table in enumerate(tables)]).astype(
            np.float32
        )

    def varied(self, rows: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Equation (3)."""
        columns, count = [], len(self.ordered)
        for size, ordered, codes in zip(self.sizes[:-1], self.ordered, rows.T[:-1], strict=True):
            beside = np.clip(
                codes + chance.integers(-1, 2, size=len(codes)), 0, max(0, ordered - 1)
            )
            anew = np.where(codes < ordered, beside, chance.integers(size, size=len(codes)))
            columns.append(np.where(chance.random(len(codes)) < 1 / count, anew, codes))
        return np.stack([*columns, rows[:, -1]], axis=1)


def every_row(sizes: Sequence[int]) -> np.ndarray:
    """All rows of columns with so many codes, in order: shape (cells, columns), int64."""
    return np.stack(np.unravel_index(np.arange(math.prod(sizes)), tuple(sizes)), axis=1)


def _places(size: int, ordered: int) -> np.ndarray:
    """Equation (1) of one column: shape (codes, axes)."""
    if not ordered:
        return np.eye(size) * _APART
    along = np.rint(_WIDTH * np.arange(size) / max(1, ordered - 1))
    if ordered == size:
        return along[:, np.newaxis]
    along[ordered:] = _WIDTH // 2
    return np.stack([along, np.where(np.arange(size) < ordered, 0, _MISSING)], axis=1)


def nearest(rows: np.ndarray, candidates: np.ndarray, space: Space) -> np.ndarray:
    """For each row the candidate of its label that is nearest by equation (2); -1 where its label
    has none.

    Of several the first in one of `_ORDERS` orders, which one by a digest of the row: what a row
    votes for depends on no other row. Whole numbers below 2^24 are exact in float32, in whatever
    order they are added.
    """
    found = np.full(len(rows), -1)
    order_of = (_digest(rows) >> np.uint64(32)) % np.uint64(_ORDERS)
    located = space.places(rows)
    places = space.places(candidates)
    turns = _words("orders", _ORDERS) | np.uint64(1)
    digests = _digest(candidates)
    for order in np.unique(order_of):
        shuffled = np.argsort(digests * turns[order], kind="stable")
        for label in range(space.sizes[-1]):
            some = np.flatnonzero((order_of == order) & (rows[:, -1] == label))
            among = shuffled[candidates[shuffled, -1] == label] if len(some) else some
            if not len(among):
                continue
            axes = places[among]
            lengths = (axes * axes).sum(axis=1)
            for start in range(0, len(some), _BLOCK):
                block = some[start : start + _BLOCK]
                found[block] = among[(lengths - 2 * (located[block] @ axes.T)).argmin(axis=1)]
    return found


def _digest(rows: np.ndarray) -> np.ndarray:
    """A number of 64 bits for each row, by its codes."""
    return np.asarray(rows.astype(np.uint64) @ _words("codes", rows.shape[1]))


@lru_cache(1 << 8)
def _words(what: str, count: int) -> np.ndarray:
    """Numbers of 64 bits that are always the same."""
    words = stream(0, "candidates", what, "").words(count, np.uint64)
    words.flags.writeable = False
    return words
