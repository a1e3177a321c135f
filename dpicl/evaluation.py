"""From scores to answers, and from answers to accuracy, balanced accuracy and AUC.

Paper       DP-TabICL: the larger summed log-probability of " Yes" and " No" wins, ties: Yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


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
    rouge1: float | None = None
    rouge2: float | None = None
    rougeL: float | None = None
    bleu: float | None = None
    levenshtein: float | None = None

    def as_row(self) -> dict[str, Any]:
        """A plain dictionary, one entry per column of results.csv."""
        return asdict(self)


@dataclass(frozen=True)
class Metrics:
    """Quality of answers; balanced accuracy and AUC are None where one class is missing, the others but for whole texts."""

    query_count: int
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None
    rouge1: float | None = None
    rouge2: float | None = None
    rougeL: float | None = None
    bleu: float | None = None
    levenshtein: float | None = None


def answers(scores: np.ndarray) -> np.ndarray:
    """The likeliest answer; of two equally likely ones the second, so that ties of No and Yes are Yes.

    Args:
        scores: summed log-probabilities of every answer, shape (queries, answers).

    Returns:
        Shape (queries,), int64.
    """
    return (scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)).astype(np.int64)


def measure(truth: np.ndarray, answered: np.ndarray, confidence: np.ndarray | None = None, *, balanced: bool = True) -> Metrics:
    """Compare answers with the truth.

    Args:
        truth, answered: classes, or texts that must match; shape (queries,).
        confidence: any score that rises with the odds of 1, where classes are 0 and 1; its ranks give the AUC.
        balanced: whether accuracy is balanced over classes too; open answers have none.
    """
    classes = np.unique(truth)
    several = balanced and len(classes) > 1
    from sklearn.metrics import recall_score, roc_auc_score  # a second to import: only where something is measured

    mean_recall = float(recall_score(truth, answered, labels=classes, average="macro", zero_division=0.0)) if several else None
    auc = float(roc_auc_score(truth, confidence)) if several and len(classes) == 2 and confidence is not None else None
    return Metrics(len(truth), float(np.mean(truth == answered)), mean_recall, auc)


def majority(truth: np.ndarray, *, balanced: bool = True) -> Metrics:
    """Always giving the most frequent answer to these very queries, of equals the last: the bar to beat."""
    values, counts = np.unique(truth, return_counts=True)
    most = values[len(values) - 1 - counts[::-1].argmax()]
    return measure(truth, np.full_like(truth, most), np.zeros(len(truth)), balanced=balanced)


def measure_scores(truth: np.ndarray, scores: np.ndarray) -> Metrics:
    """Metrics of a model's scores, shape (queries, answers)."""
    return measure(truth, answers(scores), scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else None)


def results_frame_columns() -> Sequence[str]:
    """Columns of results.csv, in order."""
    return tuple(Result.__dataclass_fields__)
