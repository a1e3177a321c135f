"""One client's report as a line of JSON, and a collector's tally of such lines.

Trust       Local: `answer` runs where the true codes are; `tally_reports` where nobody sees any.
Unit        One client.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the questionnaire's; adding reports up is post-processing.

    {"question": 3, "answer": 5}                 one cell of question 3
    {"question": 3, "bits": [0, 7, 12]}          unary encoded: the cells whose bits are set
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from dpicl.errors import DataError
from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.unary_encoding import report
from dpicl.randomness import Stream
from dpicl.tabular.questions import Questionnaire
from dpicl.tabular.tally import Tally

Report = Mapping[str, Any]


def answer(codes: np.ndarray, asked_with: Questionnaire, secret: Stream) -> Report:
    """One client's report: to one question, each as likely, with the whole budget.

    Args:
        codes: of every column, shape (columns,).
    """
    number = secret.below(len(asked_with.questions))
    question = asked_with.questions[number]
    sizes = [asked_with.sizes[column] for column in question.columns]
    cell = np.ravel_multi_index(tuple(codes[list(question.columns)].astype(np.int64)), sizes)
    if isinstance(question.law, Response):
        return {"question": number, "answer": int(randomise(np.array([cell]), question.law, secret)[0])}
    return {"question": number, "bits": np.flatnonzero(report(np.array([cell]), question.law, secret)[0]).tolist()}


def tally_reports(reports: Iterable[Report], asked_with: Questionnaire) -> Tally:
    """What a collector keeps of reports.

    Raises:
        DataError: a report is no answer to a question of this collection.
    """
    cells = [prod(asked_with.sizes[column] for column in question.columns) for question in asked_with.questions]
    asked, counts, wrong = np.zeros(len(cells), dtype=np.int64), [np.zeros(size, dtype=np.int64) for size in cells], 0
    for one in reports:
        number, named = one.get("question", -1), [one["answer"]] if "answer" in one else one.get("bits")
        if not _fits(number, named, cells):
            wrong += 1
            continue
        asked[number] += 1
        counts[number][named] += 1
    if wrong:
        raise DataError("reports", "no answer to a question of this collection; expected its contract, design and epsilon", count=wrong)
    return Tally(asked_with, asked, tuple(counts))


def _fits(number: object, named: object, cells: list[int]) -> bool:
    if not isinstance(number, int) or not 0 <= number < len(cells) or not isinstance(named, list):
        return False
    return len(set(named)) == len(named) and all(isinstance(cell, int) and 0 <= cell < cells[number] for cell in named)
