"""How near written answers come to the right ones: ROUGE, BLEU and Levenshtein similarity, each a mean over queries.

Guarantee   none spent: works on a model's answers and the held-out ones.
Paper       DP-ICL (arXiv 2305.01639): ROUGE of summaries; ROUGE-1, BLEU and Levenshtein of answers on documents.

    rouge1, rouge2, rougeL   F-measures over words, pairs of words, and the longest common subsequence
    bleu                     of each answer alone, over runs of 1 to 4 words, or of as many as it has
    levenshtein              1 - edits / letters of the longer text

All lie in [0, 1]. ROUGE takes words in lower case, without endings, and only a-z and 0-9; the
others take letters as they are. BLEU is the mean over answers, as usual for short ones, not the
corpus's: its counts are not pooled, and runs that never match are smoothed exponentially.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dpicl.evaluation import Metrics

_ROUGE = ("rouge1", "rouge2", "rougeL")


def measure_texts(truth: np.ndarray, answered: np.ndarray) -> Metrics:
    """Compare texts with the right ones, blanks at their ends aside; accuracy is the share of exact matches.

    Args:
        truth, answered: texts, shape (queries,); at least one query.
    """
    rouge, bleu, levenshtein = scorers()
    pairs = [(str(right).strip(), str(answer).strip()) for right, answer in zip(truth, answered, strict=True)]
    similarities = []
    for right, answer in pairs:
        words = rouge.score(right, answer)
        measures = [float(words[name].fmeasure) for name in _ROUGE]
        measures += [min(1.0, bleu.sentence_score(answer, [right]).score / 100), levenshtein.normalized_similarity(right, answer)]
        similarities.append(measures)
    exact = float(np.mean([right == answer for right, answer in pairs]))
    return Metrics(len(pairs), exact, None, None, *np.mean(similarities, axis=0).tolist())


@cache
def scorers() -> tuple[Any, Any, Any]:
    """ROUGE, BLEU and Levenshtein; their libraries take a while to load, so they are imported only where texts are measured.
    Raises ModuleNotFoundError: the extra `evaluation` is not installed.
    """
    from rapidfuzz.distance import Levenshtein
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    return RougeScorer(list(_ROUGE), use_stemmer=True), BLEU(effective_order=True), Levenshtein
