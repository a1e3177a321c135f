"""How near written answers come to the right ones: ROUGE, BLEU and Levenshtein similarity, each a
mean over queries.

Guarantee   none spent: works on a model's answers and the held-out ones.
Paper       DP-ICL (arXiv 2305.01639): ROUGE of summaries; ROUGE-1, BLEU and Levenshtein of answers
            on documents.

    rouge1, rouge2, rougeL   F-measures over words, pairs of words, and the longest common
                             subsequence
    bleu                     of each answer alone, over runs of 1 to 4 words, or of as many as it
                             has
    levenshtein              1 - edits / letters of the longer text

All lie in [0, 1]. ROUGE takes words in lower case, without endings, and only a-z and 0-9; the
others take letters as they are. BLEU is the mean over answers, as usual for short ones, not the
corpus's: its counts are not pooled, and runs that never match are smoothed exponentially.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from dpicl.evaluation import Metrics

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
