"""From files of reports to the counts that a collector keeps, in one pass, and what became of every
report.

Guarantee   none spent: clients' reports are randomised before they are sent, and adding them up is
            post-processing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.errors import DataError
from dpicl.tabular.local.tally import Tally
from dpicl.tabular.reports.check import Answers, Checker
from dpicl.tabular.reports.closed import Closed, as_bytes
from dpicl.tabular.reports.distinct import Parted
from dpicl.tabular.reports.files import Place, read_reports, report_files


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
        return sum(
            getattr(self, field.name)
            for field in fields(self)
            if not field.name.endswith("files") and field.name != "closed_with"
        )

    @property
    def kinds(self) -> dict[str, int]:
        """How many there were of each kind that there was, in words."""
        return {
            words: getattr(self, name)
            for name, words in _WORDS.items()
            if getattr(self, name) or name == "counted"
        }

    def __str__(self) -> str:
        kinds = {field.name: getattr(self, field.name) for field in fields(self)}
        said = [f"{number:,} {words}" for words, number in self.kinds.items()]
        files = ", ".join(
            f"{kinds[name]:,} {words}"
            for name, words in _FILES.items()
            if kinds[name] or name == "files"
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
    counts, tally, who = (
        Counter(files=len(files), other_files=others),
        Tally.empty(checker.questions),
        [np.empty(0, dtype="S16")],
    )
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
