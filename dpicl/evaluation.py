"""From scores to answers, and from answers to accuracy, balanced accuracy and AUC.

Paper       DP-TabICL: the larger summed log-probability of " Yes" and " No" wins, ties: Yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score


@dataclass(frozen=True)
class Result:
    """One cell of a table: what one system answered on one set of queries."""

    method: str
    system: str
    dataset: str
    seed: int
    epsilon: float | None
    shots: int | None
    sampling_rate: float | None
    amplified_epsilon: float | None
    query_count: int
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None

    def as_row(self) -> dict[str, Any]:
        """A plain dictionary, one entry per column of results.csv."""
        return asdict(self)


@dataclass(frozen=True)
class Metrics:
    """Quality of answers; balanced accuracy and AUC are None where one class is missing."""

    query_count: int
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None


def answers(scores: np.ndarray) -> np.ndarray:
    """1 where Yes is at least as likely as No.

    Args:
        scores: summed log-probabilities of No and Yes, shape (queries, 2).

    Returns:
        Shape (queries,), int64.
    """
    return (scores[:, 1] >= scores[:, 0]).astype(np.int64)


def measure(truth: np.ndarray, answered: np.ndarray, confidence: np.ndarray | None = None) -> Metrics:
    """Compare answers with the truth.

    Args:
        truth, answered: 0 or 1, shape (queries,).
        confidence: any score that rises with the odds of 1; its ranks give the AUC.
    """
    both = len(np.unique(truth)) == 2
    balanced = float(balanced_accuracy_score(truth, answered)) if both else None
    auc = float(roc_auc_score(truth, confidence)) if both and confidence is not None else None
    return Metrics(len(truth), float(np.mean(truth == answered)), balanced, auc)


def majority(truth: np.ndarray) -> Metrics:
    """Always answering the more frequent class of these very queries: the bar to beat."""
    return measure(truth, np.full_like(truth, int(truth.mean() >= 0.5)), np.zeros(len(truth)))


def measure_scores(truth: np.ndarray, scores: np.ndarray) -> Metrics:
    """Metrics of a model's scores, shape (queries, 2)."""
    return measure(truth, answers(scores), scores[:, 1] - scores[:, 0])


def results_frame_columns() -> Sequence[str]:
    """Columns of results.csv, in order."""
    return tuple(Result.__dataclass_fields__)
