"""Made-up reports to a collection, and a tally of them as slow and plain as can be."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.data.local.questions import Questionnaire, Tally, questionnaire
from dpicl.data.report_counts import Received, count_open
from dpicl.data.reports import Checker, Sender
from dpicl.mechanisms.randomised_response import Response

COLLECTION = "5e" * 32
MIXED = questionnaire((3, 40, 2), "pairs", 1.0)
"""A question over six cells, by k-ary response, and one over eighty, unary encoded."""
CHECKER = Checker(COLLECTION, MIXED)


def report(
    client: int,
    question: int,
    cells: Iterable[int],
    *,
    period: str = "once",
    collection: str = COLLECTION,
) -> dict[str, Any]:
    """What a client sends that answers with these cells: the one, or the bits."""
    is_cell = isinstance(MIXED.questions[question].law, Response)
    answer = {"answer": next(iter(cells))} if is_cell else {"bits": sorted(cells)}
    return Sender(collection, f"{client:032x}", period).report({"question": question, **answer})


def some_reports(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Of so many clients."""
    rng, reports = np.random.default_rng(seed), []
    for client in range(count):
        cells = np.flatnonzero(rng.random(80) < 0.3) if client % 2 else [rng.integers(6)]
        reports.append(report(client, client % 2, map(int, cells)))
    return reports


def text(reports: Iterable[Mapping[str, Any]]) -> str:
    """As lines."""
    return "".join(f"{json.dumps(one)}\n" for one in reports)


def received(
    folder: Path, *files: str | bytes, checker: Checker = CHECKER
) -> tuple[Tally, Received]:
    """What is counted of files with this content."""
    folder.mkdir(exist_ok=True)
    for number, content in enumerate(files):
        (folder / f"{number}.jsonl").write_bytes(
            content.encode() if isinstance(content, str) else content
        )
    return count_reports(str(folder), checker)


def count_reports(
    place: str, checker: Checker, *, close: Path | None = None
) -> tuple[Tally, Received]:
    """What is counted at a place, whose period is closed where it is to be."""
    counts = count_open(place, checker, close=close).closed()
    return counts.tally, counts.received


def plain_tally(reports: Iterable[Mapping[str, Any]], questions: Questionnaire = MIXED) -> Tally:
    """One at a time, of valid reports: those of a pseudonym that all agree."""
    of_who = defaultdict(list)
    for one in reports:
        of_who[one["who"]].append((one["question"], tuple(one.get("bits", [one.get("answer")]))))
    tally = Tally.empty(questions)
    for answers in of_who.values():
        if len({*answers}) == 1:
            question, cells = answers[0]
            tally.clients_of[question] += 1
            tally.counts[question][list(cells)] += 1
    return tally
