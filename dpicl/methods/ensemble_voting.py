"""DP-ICL's voters: from private rows to prompts, and from prompts to clean votes.

Trust       Central; everything here is private until an answer is released.
Guarantee   none spent. One row changes one prompt of a query, or is one, whatever the order of the
            rows: its place follows from its own content under a secret key. A prompt that is too long
            for the model, or an answer that is no text, is a vote for nothing: no other prompt is touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np

from dpicl.contract.text import Classification, TextContract
from dpicl.errors import ModelError, TooLongError
from dpicl.lm.egress import ask, ask_texts
from dpicl.lm.requests import Scorer, TextGenerator
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import identities, keyed_subsets, record_marks
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods.ensemble_plan import Shape
from dpicl.text.parse import PERSON
from dpicl.text.plain import plain_text
from dpicl.text.prompts import asking_demonstration, asking_prompt, asking_query, continuations
from dpicl.types import PrivatePrompts, PrivateTable

FULLEST = 2
"""A prompt holds at most so many times the rows that it holds on average."""
STOP = ("\n",)
"""An answer is one line."""
Votes = list[int] | list[str]
"""To one query: whole votes by label, or one text per prompt."""
T = TypeVar("T")


@dataclass(frozen=True)
class Placement:
    """How the rows fall into the prompts of every query of a release: by hashes of their content under its own secret key."""

    train: PrivateTable
    key: bytes
    rate: Fraction
    shape: Shape
    most_rows: int | None = None
    """Of one person; None where rows are protected."""

    @cached_property
    def _own_marks(self) -> np.ndarray:
        """Equal rows are told apart by counting; of persons among their own rows only, so that nobody's count moves another's."""
        names = ("label", "text") if self.most_rows is None else (PERSON, "label", "text")
        columns = [self.train.data.column(name).to_pylist() for name in names]
        return record_marks(identities(["\0".join(row).encode() for row in zip(*columns, strict=True)]), key=self.key)

    @cached_property
    def _marks(self) -> np.ndarray:
        """What a row's place follows from: of persons the same for all their rows, which fall into one prompt."""
        if self.most_rows is None:
            return self._own_marks
        return record_marks([person.encode() for person in self.train.data.column(PERSON).to_pylist()], key=self.key)

    @cached_property
    def _order(self) -> np.ndarray:
        """Rows by their marks, of a person no more than `most_rows`: it does not depend on where they stand in the table."""
        order = np.lexsort((*self._own_marks.T, *self._marks.T[::-1]))
        if self.most_rows is None:
            return order
        _, starts, counts = np.unique(self._marks[order], axis=0, return_index=True, return_counts=True)
        return order[np.arange(len(order)) - np.repeat(starts, counts) < self.most_rows]

    def groups(self, query: int) -> list[np.ndarray]:
        """Numbers of the rows in every prompt of a query; the first prompt of rows that are asked with alone has none."""
        subsets = keyed_subsets(
            self._marks, key=self.key, query=query, sampling_rate=self.rate, subset_count=1 if self.shape.alone else self.shape.subsets
        )[self._order]
        if self.shape.alone:
            return [self._order[:0], *self._order[subsets != LEFT_OUT].reshape(-1, 1)]
        most = FULLEST * self.shape.rows
        return [self._order[subsets == number][:most] for number in range(self.shape.subsets)]


@dataclass(frozen=True)
class Voters:
    """A model that is asked with private rows, on one contract."""

    contract: TextContract
    model: Scorer

    def prompts(self, placement: Placement, number: int, query: str) -> list[str]:
        """Every prompt of one query."""
        labels, texts = (placement.train.data.column(name) for name in ("label", "text"))

        def shown(row: int) -> str:
            return asking_demonstration(self.contract, texts[row].as_py(), self.contract.label_text(labels[row].as_py()))

        asked = asking_query(self.contract, query)
        return [asking_prompt(self.contract, [shown(int(row)) for row in rows], asked) for rows in placement.groups(number)]

    def votes(self, placement: Placement, queries: Sequence[tuple[int, str]]) -> list[Votes]:
        """Clean votes on some numbered queries, whose prompts are all asked together.

        Raises:
            ModelError: the model fails for another reason than a prompt's content, or writes no text.
        """
        prompts = [self.prompts(placement, number, query) for number, query in queries]
        together = [prompt for of_query in prompts for prompt in of_query]
        ends = np.cumsum([len(of_query) for of_query in prompts])[:-1]
        if not isinstance(self.contract.task, Classification):
            texts = np.array(self._texts(together), dtype=object)
            return [[str(text) for text in part] for part in np.split(texts, ends)]
        count = self._soft if placement.shape.alone else self._hard
        return [count(part, placement.shape) for part in np.split(self._scores(together), ends)]

    def _scores(self, prompts: Sequence[str]) -> np.ndarray:
        """Log-probabilities of the labels, shape (prompts, labels); NaN where the prompt is too long."""
        labels = continuations(self.contract)

        def score(some: Sequence[str]) -> list[np.ndarray]:
            return list(ask(self.model, PrivatePrompts(tuple(some)), labels))

        return np.array(list(_each(score, prompts, np.full(len(labels), math.nan)))).reshape(len(prompts), len(labels))

    def _texts(self, prompts: Sequence[str]) -> list[str]:
        """What is written after every prompt, on one line; nothing where the prompt is too long."""
        model, task = self.model, self.contract.task
        if not isinstance(model, TextGenerator) or isinstance(task, Classification):
            raise ModelError(f"model {self.model.description.name!r} writes no text; expected one that does, for {self.contract.name}")

        def write(some: Sequence[str]) -> list[str]:
            return ask_texts(model, PrivatePrompts(tuple(some)), new_tokens=task.answer_tokens, stop=STOP)

        return [plain_text(text) for text in _each(write, prompts, "")]

    def _hard(self, scores: np.ndarray, _shape: Shape) -> list[int]:
        """One whole vote per prompt."""
        valid = ~np.isnan(scores).any(axis=1)
        return [int(count) * UNITS for count in np.bincount(scores[valid].argmax(axis=1), minlength=scores.shape[1])]

    def _soft(self, scores: np.ndarray, shape: Shape) -> list[int]:
        """Sums of clipped log-probabilities over the labels, each prompt's made whole on its own."""
        likely = scores[~np.isnan(scores).any(axis=1)]
        below = np.maximum(likely - likely.max(axis=1, keepdims=True), -shape.clip)
        return [int(total) for total in np.floor((1 + below / shape.clip) * UNITS).astype(np.int64).sum(axis=0)]


def _each(answer: Callable[[Sequence[str]], list[T]], prompts: Sequence[str], nothing: T) -> Iterator[T]:
    """Answers to all prompts; where some are too long they are found by halving, and get nothing."""
    try:
        yield from answer(prompts) if prompts else ()
    except TooLongError:
        if len(prompts) == 1:
            yield nothing
            return
        middle = len(prompts) // 2
        yield from _each(answer, prompts[:middle], nothing)
        yield from _each(answer, prompts[middle:], nothing)
