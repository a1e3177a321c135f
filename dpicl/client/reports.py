"""One client's report as a line of JSON, and a collector's tally of such lines.

Trust       Local: `answer` runs where the true codes are; `tally_reports` where none is known.
Unit        One client.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the questionnaire's; adding reports up is post-processing.

    {"question": 3, "answer": 5}                 one cell of question 3
    {"question": 3, "bits": [0, 7, 12]}          unary encoded: the cells whose bits are set
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpicl.errors import DataError
from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.unary_encoding import report
from dpicl.randomness import Stream
from dpicl.tabular.local.questions import Questionnaire
from dpicl.tabular.local.tally import Tally

Report = Mapping[str, Any]


def answer(codes: np.ndarray, questionnaire: Questionnaire, secret: Stream) -> Report:
    """One client's report: to one question, each as likely, with the whole budget.

    Args:
        codes: of every column, shape (columns,).
    """
    number = secret.below(len(questionnaire.questions))
    question = questionnaire.questions[number]
    cell = question.cells_of(codes[np.newaxis])
    if isinstance(question.law, Response):
        return {"question": number, "answer": int(randomise(cell, question.law, secret)[0])}
    return {"question": number, "bits": np.flatnonzero(report(cell, question.law, secret)[0]).tolist()}


def tally_reports(reports: Iterable[Report], questionnaire: Questionnaire) -> Tally:
    """The counts that a collector keeps.

    Raises:
        DataError: a report is no answer to a question of this collection.
    """
    tally, wrong = Tally.empty(questionnaire), 0
    for one in reports:
        cells = _cells_of(one, questionnaire)
        if cells is None:
            wrong += 1
            continue
        tally.clients_of[one["question"]] += 1
        tally.counts[one["question"]][cells] += 1
    if wrong:
        raise DataError("reports", "no answer to a question of this collection; expected its contract, design and epsilon", count=wrong)
    return tally


def _cells_of(one: object, questionnaire: Questionnaire) -> list[int] | None:
    """The cells that a report names; None where it is no answer to its question: one cell, or set bits, as the question's law has it."""
    number = one.get("question") if isinstance(one, Mapping) else None
    if not isinstance(one, Mapping) or not isinstance(number, int) or not 0 <= number < len(questionnaire.questions):
        return None
    question = questionnaire.questions[number]
    cells = [one.get("answer")] if isinstance(question.law, Response) else one.get("bits")
    if not isinstance(cells, list) or not all(isinstance(cell, int) and 0 <= cell < question.cells for cell in cells):
        return None
    return cells if len(set(cells)) == len(cells) else None
