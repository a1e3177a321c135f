"""DP-ICL's voters: from private rows to prompts, and from prompts to clean votes.

Trust       Central; everything here is private until an answer is released.
Guarantee   none spent. One row changes one prompt of a query, or is one, whatever the order of the
            rows: its place follows from its own content under a secret key. A calibrated vote
            follows from its own prompt's rows and from public texts: nothing is pooled over
            prompts, where one row would move every vote. A prompt that the model fails on, for
            whatever reason, or scores with numbers that are not finite or all the same, casts no
            vote, and nor does an answer that is no text: no other prompt is touched, and nothing
            stops.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import count

import numpy as np

from dpicl.contract.text import Classification, TextContract
from dpicl.errors import ModelError
from dpicl.lm.egress import generate_texts, score_prompts
from dpicl.lm.isolation import isolated_answers, public_answer
from dpicl.lm.requests import Scorer, TextGenerator
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import identities, keyed_subsets, record_marks
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods.ensemble.plan import Shape
from dpicl.methods.text_answers import calibrated
from dpicl.text.parse import PERSON, plain_text
from dpicl.text.prompts import (
    CONTENT_FREE,
    PUBLIC_TEXT,
    asking_demonstration,
    asking_prompt,
    asking_query,
    continuations,
)
from dpicl.types import PrivatePrompts, PrivateTable

FULLEST = 2
"""A prompt holds at most so many times the rows that it holds on average."""
STOP = ("\n",)
"""An answer is one line."""
Votes = list[int] | list[str]
"""To one query: whole votes by label, or one text per prompt."""
_numbers = count()
"""Of public questions: each is another one, since a model may keep what it answered."""


@dataclass(frozen=True)
class Placement:
    """How the rows fall into the prompts of every query of a release: by hashes of their content
    under its own secret key.
    """

    train: PrivateTable
    key: bytes
    rate: Fraction
    shape: Shape
    most_rows: int | None = None
    """Of one person; None where rows are protected."""
    taking: Mapping[int, np.ndarray] | None = None
    """Which rows take part in each query, shape (rows,), where that is not left to a sample."""

    @property
    def name(self) -> str:
        """What votes are stored under: the same for releases that see the same prompts and are
        asked alike.
        """
        shape = self.shape
        sizes: tuple[object, ...] = (
            self.rate,
            shape.subsets,
            shape.rows,
            shape.alone,
            shape.clip if shape.alone else None,
        )
        if shape.similarity is not None:
            sizes += (shape.similarity, shape.participations)
        if shape.calibrated:
            sizes += ("calibrated",)
        return hashlib.sha256(self.key + repr(sizes).encode()).hexdigest()

    @cached_property
    def _own_marks(self) -> np.ndarray:
        """Equal rows are numbered; those of a person among that person's rows only, so that no
        person's count moves another's.
        """
        names = ("label", "text") if self.most_rows is None else (PERSON, "label", "text")
        columns = [self.train.data.column(name).to_pylist() for name in names]
        return record_marks(
            identities(["\0".join(row).encode() for row in zip(*columns, strict=True)]),
            key=self.key,
        )

    @cached_property
    def units(self) -> np.ndarray:
        """Marks that a row's place follows from, shape (rows, bytes): of persons the same for all
        their rows, which fall into one prompt.
        """
        if self.most_rows is None:
            return self._own_marks
        return record_marks(
            [person.encode() for person in self.train.data.column(PERSON).to_pylist()], key=self.key
        )

    @cached_property
    def _order(self) -> np.ndarray:
        """Rows by their marks, of a person no more than `most_rows`: it does not depend on where
        they stand in the table.
        """
        order = np.lexsort((*self._own_marks.T, *self.units.T[::-1]))
        if self.most_rows is None:
            return order
        _, starts, counts = np.unique(
            self.units[order], axis=0, return_index=True, return_counts=True
        )
        return order[np.arange(len(order)) - np.repeat(starts, counts) < self.most_rows]

    @cached_property
    def entering(self) -> np.ndarray:
        """Which rows may take part at all, shape (rows,): of a person no more than `most_rows`."""
        rows = np.zeros(self.train.row_count, dtype=bool)
        rows[self._order] = True
        return rows

    def groups(self, query: int) -> list[np.ndarray]:
        """Numbers of the rows in every prompt of a query; the first prompt of rows that are asked
        with alone has none.
        """
        subsets = keyed_subsets(
            self.units,
            key=self.key,
            query=query,
            sampling_rate=self.rate,
            subset_count=1 if self.shape.alone else self.shape.subsets,
        )
        if self.taking is not None:
            subsets[~self.taking[query]] = LEFT_OUT
        subsets = subsets[self._order]
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
        """Every prompt of one query; each is followed by those without content behind the same
        rows, where answers are calibrated.
        """
        labels, texts = (placement.train.data.column(name) for name in ("label", "text"))

        def shown(row: int) -> str:
            return asking_demonstration(
                self.contract, texts[row].as_py(), self.contract.label_text(labels[row].as_py())
            )

        asked = [
            asking_query(self.contract, text)
            for text in (query, *(CONTENT_FREE if placement.shape.calibrated else ()))
        ]
        demonstrated = ([shown(int(row)) for row in rows] for rows in placement.groups(number))
        return [
            asking_prompt(self.contract, demonstrations, question)
            for demonstrations in demonstrated
            for question in asked
        ]

    def votes(self, placement: Placement, queries: Sequence[tuple[int, str]]) -> list[Votes]:
        """Clean votes on some numbered queries, whose prompts are all asked together.
        Raises DpiclError: the model fails on a public question too (`check`).
        """
        check = partial(self.check, placement.shape.calibrated)
        prompts = [self.prompts(placement, number, query) for number, query in queries]
        together = [prompt for of_query in prompts for prompt in of_query]
        ends = np.cumsum([len(of_query) for of_query in prompts])[:-1]
        if not isinstance(self.contract.task, Classification):
            texts = np.array(list(isolated_answers(self._texts, together, "", check)), dtype=object)
            return [[str(text) for text in part] for part in np.split(texts, ends)]
        labels = len(continuations(self.contract))
        scores = np.array(
            list(isolated_answers(self._scores, together, np.full(labels, math.nan), check))
        ).reshape(-1, labels)
        return [counted(part, placement.shape) for part in np.split(scores, ends)]

    def check(self, calibrated: bool) -> None:
        """Ask public questions in the way private ones are asked: one alone, and two together, and
        those without content with them. Raises DpiclError: the model does not answer, so that the
        failure is no row's.
        """
        for size in (1, 2):
            public_answer(
                self.model.description.name,
                lambda size=size: self._answered(size, calibrated),  # type: ignore[misc]
            )

    def _answered(self, size: int, calibrated: bool) -> None:
        label = self.contract.label_text(next(iter(self.contract.demonstrated), ""))
        shown = asking_demonstration(self.contract, PUBLIC_TEXT, label)
        texts = [
            *(f"Question {next(_numbers)}: {PUBLIC_TEXT}" for _ in range(size)),
            *(CONTENT_FREE if calibrated else ()),
        ]
        prompts = [
            asking_prompt(self.contract, [shown], asking_query(self.contract, text))
            for text in texts
        ]
        if not isinstance(self.contract.task, Classification):
            self._texts(prompts)
        elif not np.isfinite(self._scores(prompts)).all():
            raise ModelError(
                f"model {self.model.description.name!r} answers with numbers that are not finite; "
                f"expected log-probabilities"
            )

    def _scores(self, prompts: Sequence[str]) -> list[np.ndarray]:
        """Log-probabilities of the labels after every prompt."""
        labels = continuations(self.contract)
        scores = np.asarray(
            score_prompts(self.model, PrivatePrompts(tuple(prompts)), labels), dtype=np.float64
        )
        if scores.shape != (len(prompts), len(labels)):
            raise ModelError(
                f"model {self.model.description.name!r} does not score every label of every "
                f"prompt; expected one number for each"
            )
        return list(scores)

    def _texts(self, prompts: Sequence[str]) -> list[str]:
        """What is written after every prompt, on one line."""
        model, task = self.model, self.contract.task
        if not isinstance(model, TextGenerator) or isinstance(task, Classification):
            raise ModelError(
                f"model {self.model.description.name!r} writes no text; expected one that does, "
                f"for {self.contract.name}"
            )
        texts = generate_texts(
            model, PrivatePrompts(tuple(prompts)), new_tokens=task.answer_tokens, stop=STOP
        )
        if len(texts) != len(prompts):
            raise ModelError(
                f"model {model.description.name!r} does not write after every prompt; expected "
                f"one text for each"
            )
        return [plain_text(text) for text in texts]


def asked_of_each(shape: Shape) -> int:
    """How many questions each voter is asked for one query."""
    return 1 + len(CONTENT_FREE) * shape.calibrated


def counted(scores: np.ndarray, shape: Shape) -> list[int]:
    """Votes on one query by the scores of all its prompts in their order, shape (prompts, labels);
    a calibrated one by those of its own rows.
    """
    each = scores.reshape(-1, asked_of_each(shape), scores.shape[1])
    mine = each[:, 0]
    if shape.calibrated:
        usable = _informative(mine) & np.isfinite(each).all(axis=(1, 2))
        with np.errstate(all="ignore"):  # numbers of any size; what becomes none casts no vote
            mine = np.where(usable[:, np.newaxis], calibrated(mine, each[:, 1:]), math.nan)
    return soft_votes(mine, shape.clip) if shape.alone else hard_votes(mine, shape.clip)


def hard_votes(scores: np.ndarray, _clip: float) -> list[int]:
    """One whole vote per prompt, for the likeliest label: one prompt more adds `UNITS` to one label
    or nothing. `scores` are any numbers, of shape (prompts, labels).
    """
    counted = scores[_informative(scores)]
    return [
        int(count) * UNITS
        for count in np.bincount(counted.argmax(axis=1), minlength=scores.shape[1])
    ]


def soft_votes(scores: np.ndarray, clip: float) -> list[int]:
    """Sums of clipped log-probabilities over the labels, each prompt's made whole on its own: one
    more adds 0..`UNITS` to every label. A label `clip` nats below the likeliest gets nothing;
    `scores` are as of `hard_votes`.
    """
    likely = scores[_informative(scores)]
    with np.errstate(over="ignore"):  # a gap may be larger than any number; it is clipped
        below = np.maximum(likely - likely.max(axis=1, keepdims=True), -clip)
    return [
        int(total) for total in np.floor((1 + below / clip) * UNITS).astype(np.int64).sum(axis=0)
    ]


def _informative(scores: np.ndarray) -> np.ndarray:
    """Which prompts have a number for every label, and not the same for all."""
    return np.asarray(np.isfinite(scores).all(axis=1) & (scores.min(axis=1) < scores.max(axis=1)))
