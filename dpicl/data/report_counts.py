"""From files of reports to the counts that a collector keeps, in one pass, and what became of every
report.

Guarantee   none spent: clients' reports are randomised before they are sent, and adding them up is
            post-processing.

Each client once, in memory that does not grow with the number of clients: answers are parted by
pseudonym on disk, and then compared.

A period that was closed: what was counted stands, and reports that come afterwards are late.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc as pa_ipc

from dpicl.data.local.questions import Questionnaire, Tally
from dpicl.data.reports import Answers, Checker, Place, read_reports, report_files
from dpicl.ground.errors import DataError
from dpicl.ground.files import write_whole
from dpicl.ground.randomness import system_stream
from dpicl.ground.shutdown import passing


@dataclass(frozen=True)
class Received:
    """What became of clients' reports; every one is counted under one of the first nine keys."""

    counted: int = 0
    """Clients whose report counts."""
    duplicate: int = 0
    """Equal to another report of the same client."""
    contradictory: int = 0
    """Of clients with several different answers: none of them counts."""
    late: int = 0
    """Made for an earlier period, or after the period was closed."""
    elsewhen: int = 0
    """Made for another period."""
    foreign: int = 0
    """To another collection."""
    forged: int = 0
    """No answer to a question of the collection."""
    version: int = 0
    """Of another version of the form."""
    malformed: int = 0
    """No reports at all."""
    files: int = 0
    """Files that were read."""
    damaged_files: int = 0
    """How many of them are damaged."""
    other_files: int = 0
    """Files of other kinds, which were left alone."""
    closed_with: int | None = None
    """Clients that were counted when the period was closed; null where it is not."""

    @property
    def reports(self) -> int:
        """Of all kinds."""
        return sum(getattr(self, name) for name in _WORDS)

    @property
    def kinds(self) -> dict[str, int]:
        """How many there were of each kind that there was, in words."""
        return {
            words: getattr(self, name)
            for name, words in _WORDS.items()
            if getattr(self, name) or name == "counted"
        }

    def __str__(self) -> str:
        said = [f"{number:,} {words}" for words, number in self.kinds.items()]
        files = ", ".join(
            f"{number:,} {words}"
            for name, words in _FILES.items()
            if (number := getattr(self, name)) or name == "files"
        )
        closed = (
            ""
            if self.closed_with is None
            else f" The period was closed with {self.closed_with:,} clients."
        )
        return f"{self.reports:,} reports: {', '.join(said)}; files: {files}.{closed}"


_WORDS = {
    "counted": "counted",
    "duplicate": "sent or delivered again",
    "contradictory": "contradictory",
    "late": "late",
    "elsewhen": "of another period",
    "foreign": "of another collection",
    "forged": "forged",
    "version": "of another version",
    "malformed": "malformed",
}
_FILES = {
    "files": "read",
    "damaged_files": "of them damaged",
    "other_files": "of another kind left alone",
}


@dataclass(frozen=True)
class Counts:
    """What was counted of a period; it is open still, where `close` and `who` are both there."""

    tally: Tally
    received: Received
    place: str
    checker: Checker
    close: Path | None
    folder: Path | None
    who: np.ndarray | None
    """Whose reports count, if the period is to be closed with them."""

    def closed(self) -> Counts:
        """The same once the period is closed, where it is to be; or what another command has closed
        meanwhile.
        """
        if (
            self.close is None
            or self.who is None
            or Closed(self.tally, self.who).write(self.close, self.checker)
        ):
            return self
        return count_open(self.place, self.checker, close=self.close, folder=self.folder).closed()


def count_open(
    place: str,
    checker: Checker,
    *,
    close: Path | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], Any] = lambda done, total: None,
) -> Counts:
    """The counts of all valid reports at a place, each client's once, and what became of the
    others; no period is closed.

    Args:
        place: a file, a folder, or an address of a store; see `report_files`.
        close: a file that is to close the period: if it is there its counts stand and reports of
            other clients are late.
        folder: where answers are sorted; that for temporary files if left out.
        progress: called with how many files were read, and of how many.

    Raises:
        DataError: there is no such place, or `close` is another file; SourceError: the store does
            not answer. What is wrong with a file or a
        report is counted.
    """
    closed = Closed.read(close, checker) if close is not None and close.exists() else None
    files, others = report_files(place)
    counts = Counter(files=len(files), other_files=others)
    tally = Tally.empty(checker.questions)
    who = [np.empty(0, dtype="S16")]
    with Parted(checker.questions, folder) as parted:
        for done, file in enumerate(files):
            progress(done, len(files))
            counts.update(_put(file, checker, parted))
        progress(len(files), len(files))
        for answers in parted.each():
            in_time = (
                len(answers.who)
                if closed is None
                else int(np.count_nonzero(closed.has(answers.who)))
            )
            counts.update(counted=in_time, late=len(answers.who) - in_time)
            if closed is None:
                tally += _tally(answers, checker)
            if closed is None and close is not None:
                who.append(as_bytes(answers.who))
    if closed is not None:
        tally = closed.tally
    received = Received(
        **(counts + parted.counts), closed_with=None if closed is None else tally.clients
    )
    closing = (
        None
        if closed is not None or close is None or not tally.clients
        else np.sort(np.concatenate(who))
    )
    return Counts(tally, received, place, checker, close, folder, closing)


def _put(file: Place, checker: Checker, parted: Parted) -> Counter[str]:
    """Put the valid answers of a file where they are compared; what else it holds, by kind."""
    counts = Counter[str]()
    try:
        for reports, wrong in read_reports(file):
            answers, others = checker.check(reports)
            parted.add(answers)
            counts.update(others, malformed=wrong)
    except DataError:
        counts["damaged_files"] += 1
    return counts


def _tally(answers: Answers, checker: Checker) -> Tally:
    questions = checker.questions.questions
    starts = np.cumsum([0, *(question.cells for question in questions)])
    cells = np.repeat(starts[answers.questions], answers.lengths) + answers.cells
    clients_of = np.bincount(answers.questions, minlength=len(questions))
    return Tally.read(
        np.concatenate([clients_of, np.bincount(cells, minlength=starts[-1])]), checker.questions
    )


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
        secret = system_stream()
        self._most_cells = max(question.cells for question in questions.questions)
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

    def __exit__(self, *_: object) -> None:
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
        table = _table(answers.take(order))
        ends = np.cumsum(np.bincount(parts.astype(np.int64), minlength=PARTS))
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


_MODE = 0o600


@dataclass(frozen=True)
class Closed:
    """Counts that stand, and whose reports they are of: sorted, shape (clients,)."""

    tally: Tally
    who: np.ndarray

    def write(self, path: Path, checker: Checker) -> bool:
        """A new file; false where another command has made one meanwhile, which stands."""

        def write(file: BinaryIO) -> None:
            np.savez(
                file,
                collection=checker.collection,
                period=checker.period,
                counts=self.tally.stored,
                who=self.who,
            )

        return write_whole(path, write, mode=_MODE)

    @staticmethod
    def read(path: Path, checker: Checker) -> Closed:
        """What was closed. Raises DataError: the file is no such, or of another collection or
        period.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                named = (str(file["collection"]), str(file["period"]))
                stored = file["counts"]
                who = file["who"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise DataError(
                path.name,
                "is no closed period; expected a file that --close has written, or a new name",
            ) from None
        if named != (checker.collection, checker.period):
            raise DataError(
                path.name,
                "is a closed period of another collection or period; expected this one's, or a "
                "new name",
            )
        return Closed(Tally.read(stored, checker.questions), who)

    def has(self, who: np.ndarray) -> np.ndarray:
        """Whether each of these pseudonyms, shape (reports, 2), is among those that were counted:
        shape (reports,), bool.
        """
        wanted = as_bytes(who)
        if not len(self.who):
            return np.zeros(len(wanted), dtype=bool)
        places = np.minimum(np.searchsorted(self.who, wanted), len(self.who) - 1)
        return np.asarray(self.who[places] == wanted)


def as_bytes(who: np.ndarray) -> np.ndarray:
    """Pairs of numbers, shape (reports, 2), as sixteen bytes each, which can be sorted: shape
    (reports,).
    """
    return np.ascontiguousarray(who.astype(">u8")).view("S16").reshape(-1)
