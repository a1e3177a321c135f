"""From tasks to arrays of tokens, with the places at which answers are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from dpicl.models.requests import prompt
from lab.training.rendering import parted
from lab.training.tasks import Task
from lab.training.teacher import TRUST, taught
from lab.training.token_ids import START_ID
from lab.training.vote import vote

IGNORED = -100
"""A target that counts for nothing."""
GUESSED = 0.2
"""Weight of an answer whose other label was not shown before it."""


@dataclass(frozen=True)
class Encoded:
    """One task as tokens.

    Attributes:
        tokens: int64 of shape (tokens,), start token first, the last answer left out.
        answers: positions of the tokens that answers follow, shape (asked rows,).
        targets: the answers' tokens, same shape.
        others: the other answer's token where earlier rows gave both, else `IGNORED`; same shape.
        shares: weights of the answer and of the other one in the loss, shape (asked rows, 2).
        voted: whether a kernel vote over the rows before would answer right, same shape.
        level: of the curriculum, that the task is of.
    """

    tokens: np.ndarray
    answers: np.ndarray
    targets: np.ndarray
    others: np.ndarray
    shares: np.ndarray
    voted: np.ndarray
    level: int = 0


def encode_task(tokenizer: Tokenizer, task: Task, level: int = 0) -> Encoded:
    """Tokens of the prompt exactly as a scorer sees it: demonstrations, query, then its answer."""
    texts = [parted(row) for row in task.rows]
    pieces = _tokens(
        tokenizer, [text if index == 0 else f"\n{text}" for index, (text, _) in enumerate(texts)]
    )
    marks = np.array([ids[0] for ids in _tokens(tokenizer, [answer for _, answer in texts])])
    tokens, answers = [START_ID], []
    for piece, mark in zip(pieces, marks, strict=True):
        tokens += [*piece, int(mark)]
        answers.append(len(tokens) - 2)
    voted = (vote(task.features, task.labels) > 0.5) == task.labels
    others = _others(task, marks)
    columns = (np.array(answers), marks, others, _shares(task, others), voted)
    places, targets, rivals, shares, right = (column[task.asked] for column in columns)
    return Encoded(np.array(tokens[:-1]), places, targets, rivals, shares, right, level)


def _tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [
        encoding.ids for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ]


def _others(task: Task, marks: np.ndarray) -> np.ndarray:
    """For every row the other label's token, if rows before it had both labels."""
    before: dict[int, int] = {}
    others = []
    for label, mark in zip(task.labels.tolist(), marks.tolist(), strict=True):
        others.append(before[1 - label] if len(before) == 2 else IGNORED)
        before[label] = mark
    return np.array(others)


def _shares(task: Task, others: np.ndarray) -> np.ndarray:
    """Of a row's own label in its target a little is the label itself, the rest as the teacher
    says; before both labels were shown, it can only be guessed.
    """
    positive = taught(task.features, task.labels)
    own = 1 - TRUST + TRUST * np.where(task.labels == 1, positive, 1 - positive)
    told = np.stack([own, 1 - own], axis=1)
    return np.where((others == IGNORED)[:, None], (GUESSED, 0.0), told).astype(np.float32)


def prompt_of(task: Task) -> str:
    """The text that `encode_task` gives the tokens of, as the product lays it out."""
    return prompt(task.rows[:-1], parted(task.rows[-1])[0])


@dataclass(frozen=True)
class Batch:
    """Tasks padded on the right, which causal attention never looks at.

    Attributes:
        tokens: int64 of shape (tasks, longest).
        lengths: tokens of each task, shape (tasks,).
        places: of each answer, its task and the position that it follows: shape (answers, 2).
        targets, others, voted: as of `Encoded`, shape (answers,); `shares` of shape (answers, 2).
        levels: of each answer's task, shape (answers,).
    """

    tokens: np.ndarray
    lengths: np.ndarray
    places: np.ndarray
    targets: np.ndarray
    others: np.ndarray
    shares: np.ndarray
    voted: np.ndarray
    levels: np.ndarray


def batch_of(encoded: Sequence[Encoded]) -> Batch:
    """One array of several tasks."""
    lengths = np.array([len(task.tokens) for task in encoded])
    tokens = np.zeros((len(encoded), lengths.max()), dtype=np.int64)
    for row, task in enumerate(encoded):
        tokens[row, : lengths[row]] = task.tokens
    places = np.concatenate(
        [
            np.stack([np.full_like(task.answers, row), task.answers], 1)
            for row, task in enumerate(encoded)
        ]
    )
    joined = {
        name: np.concatenate([getattr(task, name) for task in encoded])
        for name in ("targets", "others", "shares", "voted")
    }
    return Batch(
        tokens,
        lengths,
        places,
        **joined,
        levels=np.repeat([task.level for task in encoded], [len(task.answers) for task in encoded]),
    )
