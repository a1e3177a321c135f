"""From prompts on rows of a table to answers, and from answers to accuracy.

Guarantee   none spent: works on released values, queries and model scores only.
Paper       DP-TabICL: the larger log-probability of " Yes" and " No" wins, here of all answers of
            the contract.

    (1)  log p(y) = log (1/D) sum_d p_d(y) / sum_y' p_d(y'),   d one of D draws of demonstrations
         for the same query

Of the mean of probabilities in (1) a draw that a model is unsure of moves little; the mean of their
logarithms would let one sure draw outvote all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell
from dpicl.data.reading.encode import label_codes, label_numbers
from dpicl.ground.types import QueryTable
from dpicl.methods.base import MAJORITY
from dpicl.methods.evaluation import (
    Metrics,
    answers,
    majority,
    measure_scores,
    most_frequent,
    values,
)
from dpicl.models.requests import Progress, Scorer
from dpicl.models.spec import Wanted, prompts_of, score_prompts

CONTENT_FREE, AVERAGED = "N/A.", "averaged"


def ask_cell(
    model: Scorer,
    texts: Sequence[str],
    contract: Contract,
    cell: Cell,
    progress: Progress | None = None,
) -> np.ndarray:
    """Summed log-probabilities of every answer after every prompt: shape (prompts, answers).
    Raises PrivacyError: the prompts hold private rows and the model is not local.
    """
    return score_prompts(
        model, prompts_of(texts, contract, cell), continuations_of(contract), progress=progress
    )


def wanted_of(contract: Contract) -> Wanted:
    """What the model must be able to do."""
    return "scores"


def continuations_of(contract: Contract) -> tuple[str, ...]:
    """What is scored after every prompt: all answers."""
    return tuple(f" {answer}" for answer in contract.target.answers)


def public_prompts(contract: Contract) -> list[str]:
    """Prompts of several lengths that hold nothing of anybody's."""
    return [
        f"{' '.join([CONTENT_FREE] * count)} {contract.target.question} {contract.target.cue}"
        for count in (1, 5, 20)
    ]


def answers_of(scores: np.ndarray, contract: Contract) -> np.ndarray:
    """The code of the likeliest answer, of equally likely ones the last: shape (prompts,)."""
    return answers(scores)


def truth_of(queries: QueryTable, contract: Contract) -> np.ndarray:
    """Labels of the queries, shape (queries,)."""
    return label_codes(queries, contract)


def metrics_of(
    scores: Mapping[Cell, np.ndarray], queries: QueryTable, contract: Contract
) -> dict[Cell, Metrics]:
    """Metrics of every cell, and of always answering the most frequent label."""
    truth = truth_of(queries, contract)
    numbers = label_numbers(queries, contract)
    measured = {
        cell: measure_scores(truth, table, numbers=numbers)
        for cell, table in _measured(scores).items()
    }
    return {**measured, MAJORITY: majority(truth, classes=contract.target.count, numbers=numbers)}


def values_of(
    scores: Mapping[Cell, np.ndarray], queries: QueryTable, contract: Contract
) -> dict[Cell, np.ndarray]:
    """By cell, and of always answering the most frequent label: for every query 1 or 0, right or
    wrong; of a number its error.
    """
    truth = truth_of(queries, contract)
    numbers = label_numbers(queries, contract)
    return {
        cell: values(truth, answers, numbers)
        for cell, answers in {**answered(scores), MAJORITY: most_frequent(truth)}.items()
    }


def answered(scores: Mapping[Cell, np.ndarray]) -> dict[Cell, np.ndarray]:
    """The answers that are measured, by cell, as codes: shape (prompts,)."""
    return {cell: answers(table) for cell, table in _measured(scores).items()}


def is_drawn(cell: Cell) -> bool:
    """Whether a cell's demonstrations may be drawn several times."""
    return cell.system == "icl" or cell.system.startswith("icl-")


def averaged_cell(cell: Cell) -> Cell:
    """Where the mean of all draws of a cell is measured."""
    return replace(cell, system=AVERAGED + cell.system.removeprefix("icl"), draw=None)


def averaged(scores: Mapping[Cell, np.ndarray]) -> dict[Cell, np.ndarray]:
    """`mean_of_draws` of cells whose demonstrations were drawn several times."""
    drawn: dict[Cell, list[np.ndarray]] = {}
    for cell, table in scores.items():
        if cell.draw is not None:
            drawn.setdefault(averaged_cell(cell), [scores[replace(cell, draw=None)]]).append(table)
    return {cell: mean_of_draws(tables) for cell, tables in drawn.items()}


def mean_of_draws(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Equation (1): one table of scores for the same queries with several draws of demonstrations,
    shape (prompts, answers).
    """
    shares = [table - np.logaddexp.reduce(table, axis=1, keepdims=True) for table in tables]
    return np.asarray(np.logaddexp.reduce(shares, axis=0) - np.log(len(shares)))


def _measured(scores: Mapping[Cell, np.ndarray]) -> dict[Cell, np.ndarray]:
    """What is measured: the scores, of further draws only their means."""
    return {cell: table for cell, table in scores.items() if cell.draw is None} | averaged(scores)


LEAST_QUERIES, SHARE = 10, 0.95
"""Answers are constant where at least this share of at least so many queries gets one label, which
is right for a smaller share of them.
"""


def constant(given: Counter[str], truth: Counter[str] | None = None) -> str | None:
    """The label that is the answer to all, or nearly all, queries; None where there is none, or
    where it is right as often.
    """
    count = given.total()
    label, often = given.most_common(1)[0] if given else ("", 0)
    is_right = truth is not None and truth[label] >= SHARE * count
    return label if count >= LEAST_QUERIES and often >= SHARE * count and not is_right else None


def constant_sentence(given: Counter[str], label: str) -> str:
    """In plain words."""
    return (
        f"the model answers ‘{label}’ to {given[label]:,} of {given.total():,} queries, whatever "
        f"it is asked"
    )


def masses(scores: np.ndarray) -> np.ndarray:
    """The probability of all labels together, of shape (prompts,), from log-probabilities of shape
    (prompts, labels); at most 1 but for rounding.
    """
    return np.asarray(np.exp(scores).sum(axis=1))
