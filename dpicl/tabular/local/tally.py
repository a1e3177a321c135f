"""What a collector stores of a questionnaire: how many clients were given each question, and how
many reports name each cell.

Trust       `tally` simulates the clients and is the boundary: true codes go in, counts of
            randomised reports come out.
Unit        One client, who answers one question once per row that it reports.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the questionnaire's, per row. Adding reports up is post-processing: the tallies of two
            batches of clients add up to the tally of both, exactly.
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
        clients_of, counts = stored[: len(cells)], stored[len(cells) :]
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
    counts, rows = np.zeros(cells, dtype=np.int64), max(1, _BITS_PER_BLOCK // cells)
    for start in range(0, len(codes), rows):
        bits = report(codes[start : start + rows], question.law, secret)
        # As a product of floats, which are exact up to 2^24, so many bits are added up several
        # times as fast.
        counts += (np.ones(len(bits), dtype=np.float32) @ bits.astype(np.float32)).astype(np.int64)
    return counts
