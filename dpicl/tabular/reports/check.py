"""Whether each report answers a question of this collection: columns in, valid answers and counts
of all others out.

A report is counted as the first of these that applies, whatever stands beside it:

    malformed    no JSON object with the keys and types of a report, or a pseudonym or period of
                 another shape
    version      of another version of the form
    foreign      to another collection: another contract, design or epsilon
    late         made for an earlier period than the one that is collected
    elsewhen     made for another period
    forged       no answer to a question of this collection, or with more bits than chance gives: no
                 client of ours sends it

Guarantee   none spent: clients' reports are randomised before they are sent.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.periods import ONCE, read_period
from dpicl.errors import ParameterError
from dpicl.mechanisms.unary_encoding import Unary
from dpicl.tabular.local.questions import Question, Questionnaire
from dpicl.tabular.reports.schema import VERSION

_UNLIKELY = 40 * log(2)
_WHO = "^[0-9a-f]{32}$"
_HEX = np.zeros(256, dtype=np.uint64)
_HEX[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16, dtype=np.uint64)


@dataclass(frozen=True)
class Answers:
    """Valid answers: who gave each, shape (answers, 2), uint64; to which question; and the cells
    that they name, one after another.
    """

    who: np.ndarray
    questions: np.ndarray
    lengths: np.ndarray
    cells: np.ndarray

    def take(self, places: np.ndarray) -> Answers:
        """Some of them, by their places."""
        lengths = self.lengths[places]
        starts = (np.cumsum(self.lengths) - self.lengths)[places]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Answers(
            self.who[places],
            self.questions[places],
            lengths,
            self.cells[np.repeat(starts, lengths) + within],
        )


@dataclass(frozen=True)
class Checker:
    """What a report to a collection must be: its name, its questions, and the period that is
    collected.
    """

    collection: str
    questions: Questionnaire
    period: str = ONCE

    def check(self, reports: pa.Table) -> tuple[Answers, Counter[str]]:
        """Valid answers among reports in the columns of `SCHEMA`, and how many others there are of
        each kind.
        """
        counts, left = Counter[str](), reports.combine_chunks()
        left = _without(left, pc.is_null(left["version"]), "malformed", counts)
        left = _without(left, pc.not_equal(left["version"], VERSION), "version", counts)
        left = _without(left, pc.is_null(left["collection"]), "malformed", counts)
        left = _without(left, pc.not_equal(left["collection"], self.collection), "foreign", counts)
        left = _without(
            left,
            pc.invert(pc.fill_null(pc.match_substring_regex(left["who"], _WHO), False)),
            "malformed",
            counts,
        )
        left = self._of_period(left, counts)
        answers, valid = self._answers(left)
        counts["forged"] += int(np.count_nonzero(~valid))
        return (answers if valid.all() else answers.take(np.flatnonzero(valid))), +counts

    def _of_period(self, left: pa.Table, counts: Counter[str]) -> pa.Table:
        periods = pc.fill_null(left["period"], ONCE)
        if pc.all(pc.equal(periods, self.period), min_count=0).as_py():
            return left
        encoded = periods.combine_chunks().dictionary_encode()
        kinds = np.array([self._kind(period) for period in encoded.dictionary.to_pylist()])[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        counts.update(
            {
                kind: int(np.count_nonzero(kinds == kind))
                for kind in ("malformed", "late", "elsewhen")
            }
        )
        return left.filter(pa.array(kinds == "collected"))

    def _kind(self, period: str) -> str:
        if period == self.period:
            return "collected"
        try:
            read_period(period)
        except ParameterError:
            return "malformed"
        return (
            "late" if _shape(period) == _shape(self.period) and period < self.period else "elsewhen"
        )

    def _answers(self, left: pa.Table) -> tuple[Answers, np.ndarray]:
        """All that is left as answers, and which of them are valid."""
        number, answer = (
            pc.fill_null(left[name], -1).to_numpy() for name in ("question", "answer")
        )
        bits = (
            left["bits"].combine_chunks()
            if left.num_rows
            else pa.array([], left.schema.field("bits").type)
        )
        has_answer, has_bits = (np.asarray(pc.is_valid(one)) for one in (left["answer"], bits))
        questions = self.questions.questions
        known = (number >= 0) & (number < len(questions))
        number = np.where(known, number, 0)
        unary = np.array([isinstance(one.law, Unary) for one in questions])[number]
        sizes = np.array([one.cells for one in questions])[number]
        lengths = np.where(unary, np.asarray(pc.fill_null(pc.list_value_length(bits), 0)), 1)
        named = pc.fill_null(bits.flatten(), -1).to_numpy(zero_copy_only=False)
        # what else is listed belongs to no valid answer
        of_bits = np.repeat(unary, np.asarray(pc.fill_null(pc.list_value_length(bits), 0)))
        cells, is_bit = np.empty(lengths.sum(), dtype=np.int64), np.repeat(unary, lengths)
        cells[is_bit], cells[~is_bit] = named[of_bits], answer[~unary]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        wrong = (cells < 0) | (cells >= sizes[rows])
        wrong[1:] |= (rows[1:] == rows[:-1]) & (cells[1:] <= cells[:-1])  # bits rise
        valid = known & np.where(unary, has_bits & ~has_answer, has_answer & ~has_bits)
        valid[rows[wrong]] = False
        valid &= lengths <= np.array([_most_bits(one) for one in questions])[number]
        return Answers(_lanes(left["who"]), number, lengths, cells), valid


def _most_bits(question: Question) -> int:
    """More cells than an honest answer names once in 2^40, by Hoeffding's inequality: with all bits
    set, one report would weigh a hundred.
    """
    if not isinstance(question.law, Unary):
        return 1
    return 1 + ceil(
        question.cells * question.law.lie_probability + sqrt(question.cells * _UNLIKELY / 2)
    )


def _without(left: pa.Table, wrong: pa.ChunkedArray, kind: str, counts: Counter[str]) -> pa.Table:
    """The reports that are not wrong in this way; the others are counted."""
    many = pc.sum(wrong).as_py() or 0
    counts[kind] += many
    return left.filter(pc.invert(wrong)) if many else left


def _lanes(who: pa.ChunkedArray) -> np.ndarray:
    """Pseudonyms of 32 hexadecimal digits as two numbers each: shape (reports, 2), uint64."""
    fixed = who.combine_chunks().cast(pa.binary()).cast(pa.binary(32))
    text = np.frombuffer(fixed.buffers()[1], dtype=np.uint8)[32 * fixed.offset :][: 32 * len(fixed)]
    digits = _HEX[text].reshape(-1, 2, 16)
    return np.asarray(
        (digits << np.arange(60, -4, -4, dtype=np.uint64)).sum(axis=2, dtype=np.uint64)
    )


def _shape(period: str) -> str:
    return re.sub(r"\d", "9", period)
