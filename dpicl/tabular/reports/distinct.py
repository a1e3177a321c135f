"""Each client once, in memory that does not grow with the number of clients: answers are parted by
pseudonym on disk, and then compared.

What counts does not depend on the order of files or lines:

    all of a pseudonym's reports are equal    one counts, the others are `duplicate`s: sent or
                                              delivered again
    they differ                               none counts, each that is another is `contradictory`:
                                              no client of ours sends two answers to a collection
                                              and period, and nobody can say which is the client's

Of very many that differ, in one piece of a file, most are contradictory at once.

Answers are compared by a sum of secret random words, of the question and of each cell: two that
differ are taken for equal once in 2^64.

Guarantee   none spent: clients' reports are randomised before they are sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc as pa_ipc

from dpicl.leaving import passing
from dpicl.randomness import system_stream
from dpicl.tabular.local.questions import Questionnaire
from dpicl.tabular.reports.check import Answers

PARTS = 64
_FEW = 64
"""Answers of one pseudonym that are kept of a piece of a file."""
_SCHEMA = pa.schema(
    {
        "first": pa.uint64(),
        "second": pa.uint64(),
        "question": pa.int32(),
        "cells": pa.list_(pa.int32()),
    }
)
_OPTIONS = pa_ipc.IpcWriteOptions(compression="lz4")


class Parted:
    """Answers in files of a folder of its own, below another one or that for temporary files, which
    is gone at the end: those of one pseudonym in one file.
    """

    def __init__(self, questions: Questionnaire, folder: Path | None = None) -> None:
        secret, self._most_cells = (
            system_stream(),
            max(question.cells for question in questions.questions),
        )
        # secret, so that nobody makes pseudonyms of one part
        self._factors = secret.words(3, np.uint64) | np.uint64(1)
        self._words = secret.words(self._most_cells + len(questions.questions), np.uint64)
        self._writers: dict[int, pa_ipc.RecordBatchFileWriter] = {}
        self._open, self._above = ExitStack(), folder
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._folder = Path(
            self._open.enter_context(TemporaryDirectory(prefix="reports-", dir=self._above))
        )
        self._open.enter_context(passing(self._folder))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        self._open.close()

    def add(self, answers: Answers) -> None:
        """Put each answer into its part; what is there twice in these is put once."""
        answers = answers.take(self._few_of_each(answers, self._distinct(answers)))
        with np.errstate(over="ignore"):
            mixed = (answers.who * self._factors[:2]).sum(axis=1)
            mixed ^= mixed >> np.uint64(32)  # else numbers in a row may fill few parts
            parts = mixed * self._factors[2] >> np.uint64(64 - PARTS.bit_length() + 1)
        order = np.argsort(parts, kind="stable")
        table, ends = (
            _table(answers.take(order)),
            np.cumsum(np.bincount(parts.astype(np.int64), minlength=PARTS)),
        )
        for part, (start, end) in enumerate(
            zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        ):
            if start < end:
                self._writer(part).write_table(table.slice(start, end - start))

    def each(self) -> Iterator[Answers]:
        """The answers that count, part by part, in the order of pseudonyms; then nothing more can
        be added.
        """
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()
        for part in sorted(writers):
            with pa_ipc.open_file(self._folder / str(part)) as file:
                answers = _answers(file.read_all())
            answers = answers.take(self._distinct(answers))
            same = np.zeros(len(answers.who) + 1, dtype=bool)  # as the one before
            same[1:-1] = (answers.who[1:] == answers.who[:-1]).all(axis=1)
            alone = ~(same[:-1] | same[1:])
            self.counts["contradictory"] += int(np.count_nonzero(~alone))
            yield answers.take(np.flatnonzero(alone))

    def _writer(self, part: int) -> pa_ipc.RecordBatchFileWriter:
        if part not in self._writers:
            file = self._open.enter_context((self._folder / str(part)).open("wb", buffering=0))
            self._writers[part] = pa_ipc.new_file(file, _SCHEMA, options=_OPTIONS)
        return self._writers[part]

    def _distinct(self, answers: Answers) -> np.ndarray:
        """Places of distinct answers of distinct pseudonyms, in the order of these; the others are
        counted as duplicates.
        """
        marks = self._marks(answers)
        order = np.lexsort((marks, answers.who[:, 1], answers.who[:, 0]))
        who, marks = answers.who[order], marks[order]
        again = np.zeros(len(order), dtype=bool)
        again[1:] = (who[1:] == who[:-1]).all(axis=1) & (marks[1:] == marks[:-1])
        self.counts["duplicate"] += int(np.count_nonzero(again))
        return order[~again]

    def _few_of_each(self, answers: Answers, places: np.ndarray) -> np.ndarray:
        """Of distinct answers in the order of pseudonyms, a few of each: two say already that none
        counts, and a flood of them fills no part.
        """
        who = answers.who[places]
        beyond = np.zeros(len(places), dtype=bool)
        beyond[_FEW:] = (who[_FEW:] == who[:-_FEW]).all(axis=1)
        self.counts["contradictory"] += int(np.count_nonzero(beyond))
        return places[~beyond]

    def _marks(self, answers: Answers) -> np.ndarray:
        """A number of each answer, which equal ones share: shape (answers,), uint64."""
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(self._words[answers.cells])])
        ends = np.cumsum(answers.lengths)
        return np.asarray(
            sums[ends]
            - sums[ends - answers.lengths]
            + self._words[self._most_cells + answers.questions]
        )


def _table(answers: Answers) -> pa.Table:
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(answers.lengths)]).astype(
        np.int32
    )
    cells = pa.ListArray.from_arrays(pa.array(offsets), pa.array(answers.cells.astype(np.int32)))
    columns = [answers.who[:, 0], answers.who[:, 1], answers.questions.astype(np.int32)]
    return pa.Table.from_arrays([*map(pa.array, columns), cells], schema=_SCHEMA)


def _answers(table: pa.Table) -> Answers:
    cells = table["cells"].combine_chunks()
    who = np.stack([table["first"].to_numpy(), table["second"].to_numpy()], axis=1)
    lengths = np.asarray(cells.value_lengths()).astype(np.int64)
    return Answers(
        who,
        table["question"].to_numpy().astype(np.int64),
        lengths,
        cells.flatten().to_numpy().astype(np.int64),
    )
