"""Questions to clients: which columns a client reports together, under which law.

Trust       Local: the question is chosen without looking at the client's data.
Guarantee   that of the dearest law: a client answers one question with the whole budget.

    all-columns   every column on its own, epsilon / columns for each: the paper's, in `ldp_tabicl`
    one-column    one column, the label among them, with all of epsilon
    pairs         one column and the label, as one answer over their cells; without a label, two
                  columns
    subset        m columns and the label, as one answer; m grows with epsilon
    agreement     those of `pairs`, and as many that ask for one bit: whether both columns of a pair
                  are in the same half
    label alone   besides, to about one client in eight: the label, with all of epsilon

    (1)  m = argmax m L(m)^2 / d,   L(m) = (e^epsilon - 1) / (e^epsilon + K - 1),   K cells of m
         typical columns and the label
    (2)  m = argmax m (m - 1) L(m)^2 / (d (d - 1)),   m >= 2                        without a label

which is how much n clients tell of one column's dependence on the label, or on another column: a
fraction m / d of them, or m (m - 1) / (d (d - 1)), gets the question, and every moment is
attenuated by L. Answers over more than 3 e^epsilon + 2 cells are unary encoded, all others are
randomised responses (Wang et al. 2017).

At a small epsilon most of what an answer over cells tells is of each column alone; one bit tells of
nothing but their dependence, and of that more than twice as much. Halves are the first and the last
categories, in the contract's order. It is the better design if

    (3)  ( (k - 1) L(1)^2 + tanh(epsilon / 2)^2 ) / 2  >  (k - 1) m L(m)^2          k categories of
         a typical column, a label of two


Of answers over many cells little is told of each label's share, so that noise decides which is the
most frequent one. A client who is asked for the label alone tells more of it than one of the other
questions does on average; about one in eight is asked if that is more than

    (4)  four times as much

A label of one category is none: nobody is asked for it on its own, and in a question it multiplies
the cells by one.

Symbols     d columns beside the label, K cells of an answer.

From `Tally` on: what a collector stores of a questionnaire: how many clients were given each
question, and how many reports name each cell.

Trust       `tally` simulates the clients and is the boundary: true codes go in, counts of
            randomised reports come out.
Unit        One client, who answers one question once per row that it reports.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the questionnaire's, per row. Adding reports up is post-processing: the tallies of two
            batches of clients add up to the tally of both, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from math import ceil, comb, prod

import numpy as np

from dpicl.accounting.guarantee import Guarantee
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.randomness import Stream, stream
from dpicl.ground.types import Design, PrivateCodes
from dpicl.mechanisms.randomised_response import MAX_CATEGORIES, Response, randomise, response
from dpicl.mechanisms.unary_encoding import Unary, report, unary

_MOST_CONTRASTS = 4
_OTHERS_TO_LABEL, _MUCH = 7, 4
"""Other questions to each that asks for the label alone; and equation (4)."""
MOST_QUESTIONS, QUESTIONS_PER_PAIR = 4096, 16
"""Of more subsets of columns some become questions, drawn once and for all by a public stream: so
many, or as few as have every two columns together in so many subsets on average.
"""


@dataclass(frozen=True)
class Question:
    """Columns that are reported together, label last where it is among them, and the law of the
    report.
    """

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    law: Response | Unary
    agreement: bool = False
    """Whether only this is reported: that the columns are in the same half."""

    @property
    def cells(self) -> int:
        """Of the answer: of the columns together, or two."""
        return 2 if self.agreement else prod(self.sizes)

    def cells_of(self, clients: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The true answer of each client (or some, by their positions) with codes of shape
        (clients, all columns): shape (clients,).
        """
        cells = np.zeros((), dtype=np.int64)
        for column, size in zip(self.columns, self.sizes, strict=True):
            codes = clients[:, column]
            cells = cells * size + (codes if rows is None else codes.take(rows))
        if self.agreement:
            return same_half(self.sizes).reshape(-1)[cells].astype(np.int64)
        return cells


@dataclass(frozen=True)
class Questionnaire:
    """All questions of one collection; every client answers one of them, each as likely as the
    others.
    """

    sizes: tuple[int, ...]
    questions: tuple[Question, ...]

    @property
    def guarantee(self) -> Guarantee:
        """To a client, who does not know beforehand which question comes."""
        return max(
            (question.law.guarantee() for question in self.questions),
            key=lambda guarantee: guarantee.epsilon,
        )

    def label_deviation(self, clients: float) -> float:
        """Of the noise in the estimate of one label's share of so many clients, labels as frequent
        as each other; infinite where no question tells of it.
        """
        if not clients:
            return math.inf
        return math.sqrt(max(0.0, self.label_variance - self._sampled) / clients)

    @property
    def _sampled(self) -> float:
        """Of a label that is drawn without noise."""
        return (self.sizes[-1] - 1) / self.sizes[-1] ** 2

    @property
    def label_variance(self) -> float:
        """The same squared of one client, who is drawn from many: which the share varies by too."""
        label, share = len(self.sizes) - 1, 1 / self.sizes[-1]
        told = 0.0
        for question in self.questions:
            if label in question.columns and not question.agreement:
                # of shares that add up to 1
                less = 1 - share if isinstance(question.law, Unary) else 1
                noisy = less * deviation_of(question.law, share) ** 2
                told += 1 / max(noisy, self._sampled)
        return len(self.questions) / told if told else math.inf

    def choose(self, clients: int, chance: Stream) -> np.ndarray:
        """The number of each client's question: shape (clients,)."""
        return chance.generator().integers(len(self.questions), size=clients, dtype=np.int64)


@lru_cache(maxsize=256)
def same_half(sizes: tuple[int, ...]) -> np.ndarray:
    """Of the cells of two columns, whether both are in the first half of their categories or both
    in the last; one of one category is none.
    """
    halves = [np.arange(size) >= size // 2 for size in sizes if size > 1]
    return np.asarray(reduce(np.equal.outer, halves)).reshape(sizes)


def _halves(shape: tuple[int, ...]) -> bool:
    """Whether as many cells of two columns agree as do not."""
    return sum(size > 1 for size in shape) == 2 and any(size % 2 == 0 for size in shape)


@lru_cache(maxsize=256)
def questionnaire(
    sizes: tuple[int, ...],
    design: Design,
    epsilon: float,
    *,
    columns: int | None = None,
    about: tuple[int, ...] = (),
    label_alone: bool = False,
) -> Questionnaire:
    """The questions of a design on columns of these sizes, the label's last. Raises ParameterError:
    a question has too many cells.

    Args:
        sizes: of the label 1 where there is none.
        columns: of `subset`, how many are reported together; None is equation (1) or (2).
        about: columns beside the label that are asked for, in rising order; all if empty.
        label_alone: whether some questions are for the label alone, each the same.
    """
    label = len(sizes) - 1
    features = about or tuple(range(len(sizes) - 1))
    has_label = sizes[-1] > 1
    count = len(features)
    if design == "one-column":
        chosen: list[tuple[int, ...]] = [
            (column,) for column in (*features, *([label] if has_label else []))
        ]
    elif design in ("pairs", "agreement") and has_label:
        chosen = [(column, label) for column in features]
    else:
        best = best_column_count([sizes[column] for column in (*features, label)], epsilon)
        together = min(2 if design in ("pairs", "agreement") else columns or best, count)
        chosen = [(*some, label) for some in _subsets(features, together)]
    shapes = [tuple(sizes[column] for column in some) for some in chosen]
    questions = [
        Question(some, shape, _law(prod(shape), epsilon))
        for some, shape in zip(chosen, shapes, strict=True)
    ]
    if design == "agreement":
        bit = response(epsilon=epsilon, categories=2)
        questions += [
            Question(question.columns, question.sizes, bit, agreement=True)
            for question in questions
            if _halves(question.sizes)
        ]
    if label_alone and has_label:
        alone = Question((label,), sizes[-1:], _law(sizes[-1], epsilon))
        questions += [alone] * ceil(len(questions) / _OTHERS_TO_LABEL)
    return Questionnaire(sizes, tuple(questions))


def suits_label_alone(asked: Questionnaire, epsilon: float) -> bool:
    """Whether the label alone should be asked for beside these questions: equation (4)."""
    label = len(asked.sizes) - 1
    if asked.sizes[label] == 1:
        return False
    alone = Question((label,), asked.sizes[-1:], _law(asked.sizes[-1], epsilon))
    return asked.label_variance > _MUCH * Questionnaire(asked.sizes, (alone,)).label_variance


def deviation_of(law: Response | Unary, share: float) -> float:
    """Of a report's estimate of a share of the clients, whose cells are this share of all."""
    lie = law.lie_probability
    if isinstance(law, Response):
        return 0.0 if not lie else math.sqrt(share * (1 - share)) / (law.truth_probability - lie)
    return math.sqrt(share * law.categories * lie * (1 - lie)) / (0.5 - lie)


def _subsets(features: Sequence[int], together: int) -> list[tuple[int, ...]]:
    """So many columns each: all such subsets, or some of very many."""
    count = len(features)
    if comb(count, together) <= MOST_QUESTIONS:
        return list(combinations(features, together))
    chance = stream(0, "questions", f"{count}", f"{together}").generator()
    questions = min(MOST_QUESTIONS, ceil(QUESTIONS_PER_PAIR * comb(count, 2) / comb(together, 2)))
    drawn = (sorted(chance.permutation(count)[:together].tolist()) for _ in range(questions))
    return list(dict.fromkeys(tuple(features[place] for place in places) for places in drawn))


@lru_cache(maxsize=4096)
def _law(cells: int, epsilon: float) -> Response | Unary:
    if cells > MAX_CATEGORIES:
        raise ParameterError(
            "cells of a question",
            cells,
            f"at most {MAX_CATEGORIES}: fewer columns or categories, or `design: one-column`",
        )
    if epsilon < 50 and cells > 3 * math.exp(epsilon) + 2:
        return unary(epsilon=epsilon, categories=cells)
    return response(epsilon=epsilon, categories=cells)


def best_column_count(sizes: Sequence[int], epsilon: float) -> int:
    """m of equation (1), without a label of (2), for columns of the sizes' geometric mean: public
    numbers only.
    """
    largest = sorted(sizes[:-1], reverse=True)
    possible = [
        count
        for count in range(1, len(sizes))
        if sizes[-1] * prod(largest[:count]) <= MAX_CATEGORIES
    ]
    return max(possible, key=lambda count: _information(sizes, epsilon, count), default=1)


def _information(sizes: Sequence[int], epsilon: float, count: int) -> float:
    """What equations (1) and (2) compare, times d or d (d - 1)."""
    cells = sizes[-1] * _typical(sizes) ** count
    attenuation = 1.0 if epsilon > 500 else math.expm1(epsilon) / (math.exp(epsilon) + cells - 1)
    return (count if sizes[-1] > 1 else count * (count - 1)) * attenuation * attenuation


def _typical(sizes: Sequence[int]) -> float:
    return math.exp(math.fsum(map(math.log, sizes[:-1])) / (len(sizes) - 1))


def suits_agreement(sizes: Sequence[int], epsilon: float) -> bool:
    """Whether `agreement` tells more than `subset` of columns' dependence on a label of two
    categories: equation (3). Columns are few-valued, since two halves say little of many
    categories.
    """
    contrasts = _typical(sizes) - 1
    if sizes[-1] != 2 or contrasts > _MOST_CONTRASTS:
        return False
    cells = contrasts * _information(sizes, epsilon, 1)
    bit = math.tanh(epsilon / 2) ** 2
    return (cells + bit) / 2 > contrasts * _information(
        sizes, epsilon, best_column_count(sizes, epsilon)
    )


_CLIENTS_PER_BLOCK = 1 << 20
_BITS_PER_BLOCK = 1 << 24


@dataclass(frozen=True)
class Tally:
    """Released counts: how many clients were given each question, and for every question one of
    shape (cells,), all int64.
    """

    questionnaire: Questionnaire
    clients_of: np.ndarray
    counts: tuple[np.ndarray, ...]

    @property
    def clients(self) -> int:
        """Of all questions."""
        return int(self.clients_of.sum())

    @property
    def stored(self) -> np.ndarray:
        """As one vector of int64, for a file."""
        return np.concatenate([self.clients_of, *self.counts])

    @staticmethod
    def read(stored: np.ndarray, questionnaire: Questionnaire) -> Tally:
        """The tally of such a vector. Raises DataError: it belongs to another questionnaire."""
        cells = [question.cells for question in questionnaire.questions]
        if stored.shape != (len(cells) + sum(cells),):
            raise DataError(
                "tally",
                f"expected {len(cells)} questions with {sum(cells)} cells",
                count=len(stored),
            )
        clients_of = stored[: len(cells)]
        counts = stored[len(cells) :]
        return Tally(questionnaire, clients_of, tuple(np.split(counts, np.cumsum(cells)[:-1])))

    @staticmethod
    def empty(questionnaire: Questionnaire) -> Tally:
        """Of no client."""
        return Tally.read(
            np.zeros(
                sum(1 + question.cells for question in questionnaire.questions), dtype=np.int64
            ),
            questionnaire,
        )

    def __add__(self, other: Tally) -> Tally:
        assert self.questionnaire == other.questionnaire
        return Tally.read(self.stored + other.stored, self.questionnaire)


def tally(
    truth: PrivateCodes, questionnaire: Questionnaire, *, chance: Stream, secret: Stream
) -> Tally:
    """Give every client one question, and count the reports.

    Args:
        truth: codes of shape (clients, columns).
        chance: chooses the questions; nothing depends on its being secret.
        secret: what the reports are randomised with.
    """
    total = Tally.empty(questionnaire)
    for start in range(0, len(truth.codes), _CLIENTS_PER_BLOCK):
        block = truth.codes[start : start + _CLIENTS_PER_BLOCK]
        numbers = questionnaire.choose(len(block), chance)
        clients_of = np.bincount(numbers, minlength=len(questionnaire.questions))
        # which are sorted in one pass: a seventh of the time
        short = numbers.astype(np.min_scalar_type(len(clients_of)))
        order = np.argsort(short, kind="stable")
        groups = np.split(order, np.cumsum(clients_of)[:-1])
        counts = [
            _answer(question.cells_of(block, rows), question, secret)
            for rows, question in zip(groups, questionnaire.questions, strict=True)
        ]
        total += Tally(questionnaire, clients_of, tuple(counts))
    return total


def _answer(codes: np.ndarray, question: Question, secret: Stream) -> np.ndarray:
    """How many reports of clients with these true answers name each cell of a question: shape
    (cells,).
    """
    cells = question.cells
    if isinstance(question.law, Response):
        return np.bincount(randomise(codes, question.law, secret), minlength=cells)
    counts = np.zeros(cells, dtype=np.int64)
    rows = max(1, _BITS_PER_BLOCK // cells)
    for start in range(0, len(codes), rows):
        bits = report(codes[start : start + rows], question.law, secret)
        # As a product of floats, which are exact up to 2^24, so many bits are added up several
        # times as fast.
        counts += (np.ones(len(bits), dtype=np.float32) @ bits.astype(np.float32)).astype(np.int64)
    return counts
