"""What a collector keeps of a questionnaire: how many clients were asked each question, and how many reports name each cell.

Trust       `tally` simulates the clients and is the boundary: true codes go in, counts of randomised reports come out.
Unit        One client, who answers one question once per row that it reports.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the questionnaire's, per row. Adding reports up is post-processing: the tallies of two
            parts of the clients add up to the tally of both, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl.errors import DataError
from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.unary_encoding import report
from dpicl.randomness import Stream
from dpicl.tabular.local.questions import Question, Questionnaire
from dpicl.types import PrivateCodes

_CLIENTS_PER_BLOCK = 1 << 20
_BITS_PER_BLOCK = 1 << 24


@dataclass(frozen=True)
class Tally:
    """Released counts: `asked` of shape (questions,), and for every question one of shape (cells,), all int64."""

    questionnaire: Questionnaire
    asked: np.ndarray
    counts: tuple[np.ndarray, ...]

    @property
    def clients(self) -> int:
        """All that were asked."""
        return int(self.asked.sum())

    @property
    def stored(self) -> np.ndarray:
        """As one vector of int64, for a file."""
        return np.concatenate([self.asked, *self.counts])

    @staticmethod
    def read(stored: np.ndarray, asked_with: Questionnaire) -> Tally:
        """The tally of such a vector.

        Raises:
            DataError: it belongs to another questionnaire.
        """
        cells = [question.cells for question in asked_with.questions]
        if stored.shape != (len(cells) + sum(cells),):
            raise DataError("tally", f"expected {len(cells)} questions with {sum(cells)} cells", count=len(stored))
        asked, counts = stored[: len(cells)], stored[len(cells) :]
        return Tally(asked_with, asked, tuple(np.split(counts, np.cumsum(cells)[:-1])))

    @staticmethod
    def empty(asked_with: Questionnaire) -> Tally:
        """Of no client."""
        return Tally.read(np.zeros(sum(1 + question.cells for question in asked_with.questions), dtype=np.int64), asked_with)

    def __add__(self, other: Tally) -> Tally:
        assert self.questionnaire == other.questionnaire
        return Tally.read(self.stored + other.stored, self.questionnaire)


def tally(truth: PrivateCodes, asked_with: Questionnaire, *, chance: Stream, secret: Stream) -> Tally:
    """Ask every client one question, and count the reports.

    Args:
        truth: codes of shape (clients, columns).
        chance: chooses the questions; nothing depends on its being secret.
        secret: what the reports are randomised with.
    """
    total = Tally.empty(asked_with)
    for start in range(0, len(truth.codes), _CLIENTS_PER_BLOCK):
        block = truth.codes[start : start + _CLIENTS_PER_BLOCK]
        numbers = asked_with.choose(len(block), chance)
        order = np.argsort(numbers, kind="stable")
        asked = np.bincount(numbers, minlength=len(asked_with.questions))
        parts = np.split(order, np.cumsum(asked)[:-1])
        counts = [_answer(block[rows], question, secret) for rows, question in zip(parts, asked_with.questions, strict=True)]
        total += Tally(asked_with, asked, tuple(counts))
    return total


def _answer(clients: np.ndarray, question: Question, secret: Stream) -> np.ndarray:
    """How many reports of these clients name each cell of a question: shape (cells,)."""
    codes, cells = question.cells_of(clients), question.cells
    if isinstance(question.law, Response):
        return np.bincount(randomise(codes, question.law, secret), minlength=cells)
    counts, rows = np.zeros(cells, dtype=np.int64), max(1, _BITS_PER_BLOCK // cells)
    for start in range(0, len(codes), rows):
        bits = report(codes[start : start + rows], question.law, secret)
        # As a product of floats, which are exact up to 2^24, so many bits are added up several times as fast.
        counts += (np.ones(len(bits), dtype=np.float32) @ bits.astype(np.float32)).astype(np.int64)
    return counts
