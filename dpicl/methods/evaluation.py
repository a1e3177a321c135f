"""How good answers are: accuracy, balanced accuracy, AUC and absolute error of labels and numbers;
ROUGE, BLEU and Levenshtein similarity of written answers, each a mean over queries.

Paper       DP-TabICL: the larger summed log-probability of " Yes" and " No" wins, ties: Yes.

Of more than two classes the AUC is the mean over classes of that of one against the rest. A number
is answered by its bin: accuracy is the share of right bins, and the error that of the bin's middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from dpicl.ground.types import LabelNumbers


@dataclass(frozen=True)
class Metrics:
    """Quality of answers.

    Balanced accuracy and AUC are None where one class is missing and of numbers; the absolute
    error, in the label's unit, but of numbers; all others but of whole texts.
    """

    query_count: int
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None
    rouge1: float | None = None
    rouge2: float | None = None
    rougeL: float | None = None
    bleu: float | None = None
    levenshtein: float | None = None
    absolute_error: float | None = None


@dataclass(frozen=True)
class _Asked:
    """Who answered, and on what: the first columns of results.csv."""

    method: str
    system: str
    dataset: str
    seed: int
    epsilon: float | None
    shots: int | None
    sampling_rate: float | None
    amplified_epsilon: float | None


@dataclass(frozen=True)
class Result(Metrics, _Asked):
    """One cell of a table: what one system answered on one set of queries, `_Asked` before
    `Metrics`.
    """

    def as_row(self) -> dict[str, Any]:
        """A plain dictionary, one entry per column of results.csv."""
        return asdict(self)


def answers(scores: np.ndarray) -> np.ndarray:
    """The likeliest answer by summed log-probabilities of shape (queries, answers), of equal ones
    the last: ties of No and Yes are Yes. Shape (queries,), int64.
    """
    return (scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)).astype(np.int64)


def values(
    truth: np.ndarray, answered: np.ndarray, numbers: LabelNumbers | None = None
) -> np.ndarray:
    """What a mean is taken of, shape (queries,): 1 where the answer is right, else 0; of a number
    its error, NaN where the truth is missing.
    """
    if numbers is None:
        return (truth == answered).astype(np.float64)
    return np.abs(numbers.of_code[answered] - numbers.truth)


def measure(
    truth: np.ndarray,
    answered: np.ndarray,
    confidence: np.ndarray | None = None,
    *,
    balanced: bool = True,
    numbers: LabelNumbers | None = None,
) -> Metrics:
    """Compare answers with the truth.

    Args:
        truth, answered: classes, or texts that must match; shape (queries,).
        confidence: any score that rises with the odds of 1, where classes are 0 and 1, shape
            (queries,); or of every class, shape (queries, classes). Its ranks give the AUC.
        balanced: whether accuracy is balanced over classes too; open answers have none.
        numbers: of a label that is a number, whose classes are bins.
    """
    classes = np.unique(truth)
    mean_recall = None
    auc = None
    error = None
    if balanced and numbers is None and len(classes) > 1:
        # a second to import: only where something is measured
        from sklearn.metrics import (
            recall_score,
            roc_auc_score,
        )

        mean_recall = float(
            recall_score(truth, answered, labels=classes, average="macro", zero_division=0.0)
        )
        if confidence is not None and confidence.ndim == 2:
            auc = float(
                np.mean(
                    [roc_auc_score(truth == class_, confidence[:, class_]) for class_ in classes]
                )
            )
        elif confidence is not None and len(classes) == 2:
            auc = float(roc_auc_score(truth, confidence))
    if numbers:  # of rows that have a number; None where none has
        distances = values(truth, answered, numbers)
        error = None if np.isnan(distances).all() else float(np.nanmean(distances))
    return Metrics(
        len(truth), float(np.mean(truth == answered)), mean_recall, auc, absolute_error=error
    )


def rank_auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean over answers of the AUC of each against all others, by ranks; 0.5 where there is one
    answer only. `scores` are of shape (rows, answers), `truth` codes of shape (rows,).
    """
    aucs = []
    for code in range(scores.shape[1]):
        positive = truth == code
        count = int(positive.sum())
        if 0 < count < len(truth):
            aucs.append(
                (_ranks(scores[:, code])[positive].sum() - count * (count + 1) / 2)
                / (count * (len(truth) - count))
            )
    return float(np.mean(aucs)) if aucs else 0.5


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def majority(
    truth: np.ndarray,
    *,
    balanced: bool = True,
    classes: int = 2,
    numbers: LabelNumbers | None = None,
) -> Metrics:
    """Metrics of `most_frequent`: the bar to beat."""
    return measure(
        truth,
        most_frequent(truth),
        no_confidence(len(truth), classes),
        balanced=balanced,
        numbers=numbers,
    )


def most_frequent(truth: np.ndarray) -> np.ndarray:
    """Always the most frequent answer to these very queries, of equals the last."""
    answers, counts = np.unique(truth, return_counts=True)
    return np.full_like(truth, answers[len(answers) - 1 - counts[::-1].argmax()])


def no_confidence(count: int, classes: int) -> np.ndarray:
    """What `measure` is given of answers that are all alike."""
    return np.zeros((count, classes) if classes > 2 else count)


def measure_scores(
    truth: np.ndarray, scores: np.ndarray, *, numbers: LabelNumbers | None = None
) -> Metrics:
    """Metrics of a model's scores, shape (queries, answers)."""
    if scores.shape[1] == 2:
        return measure(truth, answers(scores), scores[:, 1] - scores[:, 0], numbers=numbers)
    # a third of a second to import: only where something is measured
    from scipy.special import (
        log_softmax,
    )

    return measure(truth, answers(scores), log_softmax(scores, axis=1), numbers=numbers)


def results_frame_columns() -> Sequence[str]:
    """Columns of results.csv, in order."""
    return tuple(Result.__dataclass_fields__)


_ROUGE = ("rouge1", "rouge2", "rougeL")


def measure_texts(truth: np.ndarray, answered: np.ndarray) -> Metrics:
    """Compare texts with the right ones, blanks at their ends aside; accuracy is the share of exact
    matches.

    Args:
        truth, answered: texts, shape (queries,); at least one query.
    """
    pairs = _pairs(truth, answered)
    exact = float(np.mean([right == answer for right, answer in pairs]))
    return Metrics(
        len(pairs),
        exact,
        None,
        None,
        *np.mean([_similarities(*pair) for pair in pairs], axis=0).tolist(),
    )


def rouge1(truth: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """ROUGE-1 of every answer, shape (queries,)."""
    return np.array([_similarities(*pair)[0] for pair in _pairs(truth, answered)])


def _pairs(truth: np.ndarray, answered: np.ndarray) -> list[tuple[str, str]]:
    return [
        (str(right).strip(), str(answer).strip())
        for right, answer in zip(truth, answered, strict=True)
    ]


@lru_cache(maxsize=100_000)  # a unit's answers are measured, and then judged one by one
def _similarities(right: str, answer: str) -> tuple[float, ...]:
    """ROUGE-1, -2, -L, BLEU and Levenshtein similarity."""
    rouge, bleu, levenshtein = scorers()
    words = rouge.score(right, answer)
    of_letters = levenshtein.normalized_similarity(right, answer)
    return (
        *(float(words[name].fmeasure) for name in _ROUGE),
        min(1.0, bleu.sentence_score(answer, [right]).score / 100),
        of_letters,
    )


@cache
def scorers() -> tuple[Any, Any, Any]:
    """ROUGE, BLEU and Levenshtein; their libraries take a while to load, so they are imported only
    where texts are measured. Raises ModuleNotFoundError: the extra `evaluation` is not installed.
    """
    from rapidfuzz.distance import Levenshtein
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    return RougeScorer(list(_ROUGE), use_stemmer=True), BLEU(effective_order=True), Levenshtein
