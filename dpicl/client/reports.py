"""One client's answer, and what is sent of it.

Trust       Local: both run where the true codes are; what `sent` returns may leave.
Unit        One client.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the collection's.
"""

from __future__ import annotations

import numpy as np

from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.two_levels import send
from dpicl.mechanisms.unary_encoding import report
from dpicl.methods.collection import Collection
from dpicl.randomness import Stream
from dpicl.tabular.local.questions import Questionnaire
from dpicl.tabular.reports.schema import Answer


def answer(codes: np.ndarray, questionnaire: Questionnaire, secret: Stream) -> Answer:
    """One client's permanent answer: to one question, each as likely, with the whole budget.

    Args:
        codes: of every column, shape (columns,).
    """
    number = secret.below(len(questionnaire.questions))
    question = questionnaire.questions[number]
    cell = question.cells_of(codes[np.newaxis])
    if isinstance(question.law, Response):
        return {"question": number, "answer": int(randomise(cell, question.law, secret)[0])}
    return {
        "question": number,
        "bits": np.flatnonzero(report(cell, question.law, secret)[0]).tolist(),
    }


def sent(permanent: Answer, collection: Collection, secret: Stream) -> Answer:
    """What is sent of a permanent answer: itself, or where the collection has two levels, with
    noise drawn anew.
    """
    levels = collection.levels[permanent["question"]]
    if levels is None:
        return permanent
    if "answer" in permanent:
        return {
            **permanent,
            "answer": int(send(np.array([permanent["answer"]]), levels.sending, secret)[0]),
        }
    bits = np.zeros((1, levels.permanent.categories), dtype=np.bool_)
    bits[0, permanent["bits"]] = True
    return {**permanent, "bits": np.flatnonzero(send(bits, levels.sending, secret)[0]).tolist()}
