"""How good what is released is: a classifier fitted on it answers fresh rows of the population.

Guarantee   none needed: works on made-up rows.

    rows      logistic regression on one indicator for each bin, of several answers one for each
    groups    every average votes for its label with weight e^(columns in which it is like the row):
              what a model in context makes of averages, in short

AUC is the mean over answers, each against all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl.baselines import local_design
from dpicl.contract.models import Contract
from dpicl.evaluation import rank_auc
from dpicl.tabular.reading.encode import LocalEncoding
from dpicl.types import ReleasedGroups, Table

_MOST_FITTED = 20_000
"""Rows: more of them teach a linear model next to nothing."""


@dataclass(frozen=True)
class Quality:
    """Of answers to fresh rows."""

    accuracy: float
    auc: float


def quality_of(scores: np.ndarray, truth: np.ndarray) -> Quality:
    """Of scores of every answer, shape (rows, answers), against the true codes, shape (rows,)."""
    return Quality(float((scores.argmax(axis=1) == truth).mean()), rank_auc(scores, truth))


def fitted_quality(rows: np.ndarray, fresh: np.ndarray, encoding: LocalEncoding) -> Quality:
    """Of a classifier fitted on rows of codes, label last, both of shape (rows, columns)."""
    # a second to import: only where something is fitted
    from sklearn.linear_model import (
        LogisticRegression,
    )

    bins, learned = encoding.decode(fresh), encoding.decode(rows[:_MOST_FITTED])
    seen, shown, scores = (
        local_design(learned, encoding),
        local_design(bins, encoding),
        np.zeros((len(fresh), encoding.bin_counts[-1])),
    )
    answers = np.unique(learned[:, -1])
    for code in answers.tolist() if len(answers) > 2 else answers[-1:].tolist():
        if len(answers) == 1:
            scores[:, code] = 1
            continue
        model = LogisticRegression(solver="newton-cholesky").fit(seen, learned[:, -1] == code)
        scores[:, code] = model.predict_proba(shown)[:, 1]
    if len(answers) == 2:
        scores[:, answers[0]] = 1 - scores[:, answers[1]]
    return quality_of(scores, bins[:, -1])


def voting_quality(
    groups: ReleasedGroups, fresh: Table, truth: np.ndarray, contract: Contract
) -> Quality:
    """Of averages that vote for their labels."""
    likeness = np.zeros((fresh.row_count, len(groups.groups)))
    for name in contract.features:
        column = contract.columns[name]
        values = column.coded([group.values[name] for group in groups.groups])
        likeness += 1 - column.distance(fresh.stored(name)[:, np.newaxis], values)
    weights, scores = np.exp(likeness), np.zeros((fresh.row_count, contract.target.count))
    for place, group in enumerate(groups.groups):
        scores[:, group.label] += weights[:, place]
    return quality_of(scores / scores.sum(axis=1, keepdims=True), truth)
