"""Questions to clients: which columns a client reports together, under which law.

Trust       Local: the question is chosen without looking at the client's data.
Guarantee   that of the dearest law: a client answers one question with the whole budget.

    all-columns   every column on its own, epsilon / columns for each: the paper's, in `ldp_tabicl`
    one-column    one column, the label among them, with all of epsilon
    pairs         one column and the label, as one answer over their cells; without a label, two columns
    subset        m columns and the label, as one answer; m grows with epsilon

    (1)  m = argmax m L(m)^2 / d,   L(m) = (e^epsilon - 1) / (e^epsilon + K - 1),   K cells of m typical columns and the label
    (2)  m = argmax m (m - 1) L(m)^2 / (d (d - 1)),   m >= 2                        without a label

which is how much n clients tell of one column's dependence on the label, or on another column: a fraction
m / d of them, or m (m - 1) / (d (d - 1)), gets the question, and every moment is attenuated by L. Answers over
more than 3 e^epsilon + 2 cells are unary encoded, all others are randomised responses (Wang et al. 2017).

A label of one category is none: nobody is asked for it on its own, and in a question it multiplies the cells by one.

Symbols     d columns beside the label, K cells of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, prod
from typing import Literal

import numpy as np

from dpicl.accounting.guarantee import Guarantee
from dpicl.errors import ParameterError
from dpicl.mechanisms.randomised_response import MAX_CATEGORIES, Response, response
from dpicl.mechanisms.unary_encoding import Unary, unary
from dpicl.randomness import Stream, stream

Design = Literal["all-columns", "one-column", "pairs", "subset"]
MOST_QUESTIONS, QUESTIONS_PER_PAIR = 4096, 16
"""Of more subsets of columns some become questions, drawn once and for all by a public stream: so many, or as few as have
every two columns together in so many subsets on average."""


@dataclass(frozen=True)
class Question:
    """Columns that are reported together, label last where it is among them, and the law of the report."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    law: Response | Unary

    @property
    def cells(self) -> int:
        """Of its columns together."""
        return prod(self.sizes)

    def cells_of(self, clients: np.ndarray) -> np.ndarray:
        """The true cell of each client with codes of shape (clients, all columns): shape (clients,)."""
        return np.asarray(np.ravel_multi_index(tuple(clients[:, list(self.columns)].T.astype(np.int64)), self.sizes))


@dataclass(frozen=True)
class Questionnaire:
    """All questions of one collection; every client answers one of them, each as likely as the others."""

    sizes: tuple[int, ...]
    questions: tuple[Question, ...]

    @property
    def guarantee(self) -> Guarantee:
        """To a client, who does not know beforehand which question comes."""
        return max((question.law.guarantee() for question in self.questions), key=lambda one: one.epsilon)

    def choose(self, clients: int, chance: Stream) -> np.ndarray:
        """The number of each client's question: shape (clients,)."""
        return chance.generator().integers(len(self.questions), size=clients, dtype=np.int64)


@lru_cache(maxsize=256)
def questionnaire(sizes: tuple[int, ...], design: Design, epsilon: float, *, columns: int | None = None) -> Questionnaire:
    """The questions of a design on columns of these sizes, the label's last. Raises ParameterError: a question has too many cells.

    Args:
        sizes: of the label 1 where there is none.
        columns: of `subset`, how many are reported together; None is equation (1) or (2).
    """
    label, features, has_label = len(sizes) - 1, range(len(sizes) - 1), sizes[-1] > 1
    if design == "one-column":
        chosen: list[tuple[int, ...]] = [(column,) for column in range(label + has_label)]
    elif design == "pairs" and has_label:
        chosen = [(column, label) for column in features]
    else:
        together = min(2 if design == "pairs" else columns or best_column_count(sizes, epsilon), label)
        if comb(label, together) <= MOST_QUESTIONS:
            subsets = list(combinations(features, together))
        else:
            chance = stream(0, "questions", f"{label}", f"{together}").generator()
            count = min(MOST_QUESTIONS, ceil(QUESTIONS_PER_PAIR * comb(label, 2) / comb(together, 2)))
            drawn = (tuple(sorted(chance.permutation(label)[:together].tolist())) for _ in range(count))
            subsets = list(dict.fromkeys(drawn))
        chosen = [(*some, label) for some in subsets]
    questions = []
    for some in chosen:
        shape = tuple(sizes[column] for column in some)
        questions.append(Question(some, shape, _law(prod(shape), epsilon)))
    return Questionnaire(sizes, tuple(questions))


@lru_cache(maxsize=4096)
def _law(cells: int, epsilon: float) -> Response | Unary:
    if cells > MAX_CATEGORIES:
        raise ParameterError(
            "cells of a question", cells, f"at most {MAX_CATEGORIES}: fewer columns or categories, or `design: one-column`"
        )
    if epsilon < 50 and cells > 3 * math.exp(epsilon) + 2:
        return unary(epsilon=epsilon, categories=cells)
    return response(epsilon=epsilon, categories=cells)


def best_column_count(sizes: Sequence[int], epsilon: float) -> int:
    """m of equation (1), without a label of (2), for columns of the sizes' geometric mean: public numbers only."""
    features = len(sizes) - 1
    typical = math.exp(math.fsum(math.log(size) for size in sizes[:-1]) / features)
    largest = sorted(sizes[:-1], reverse=True)

    def information(count: int) -> float:
        cells = sizes[-1] * typical**count
        attenuation = 1.0 if epsilon > 500 else math.expm1(epsilon) / (math.exp(epsilon) + cells - 1)
        return (count if sizes[-1] > 1 else count * (count - 1)) * attenuation * attenuation

    possible = [count for count in range(1, features + 1) if sizes[-1] * prod(largest[:count]) <= MAX_CATEGORIES]
    return max(possible, key=information, default=1)
