"""How near written answers come to the right ones: ROUGE, BLEU and Levenshtein similarity, each a mean over queries.

Guarantee   none spent: works on what a model said and on the held-out answers.
Paper       DP-ICL (arXiv 2305.01639): ROUGE of summaries; ROUGE-1, BLEU and Levenshtein of answers on documents.

    rouge1, rouge2, rougeL   F-measures over words, pairs of words, and the longest common subsequence
    bleu                     of each answer alone, over runs of 1 to 4 words, or of as many as it has
    levenshtein              1 - edits / letters of the longer text

All lie in [0, 1]. ROUGE takes words in lower case, without endings, and knows a-z and 0-9 only; the
others take letters as they are. BLEU is the mean over answers, as usual for short ones, not the
corpus's: its counts are not pooled, and runs that never match are smoothed exponentially.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    pairs = list(zip(_stripped(truth), _stripped(answered), strict=True))
    exact = float(np.mean([right == given for right, given in pairs]))
    near = np.mean([_similarities(right, given) for right, given in pairs], axis=0)
    return Metrics(len(pairs), exact, None, None, *near.tolist())


def _stripped(texts: Iterable[str]) -> list[str]:
    return [str(text).strip() for text in texts]


def _similarities(right: str, given: str) -> tuple[float, ...]:
    """The five measures of one answer, in the order of `Metrics`."""
    rouge, bleu, levenshtein = _scorers()
    found = rouge.score(right, given)
    measured = [float(found[name].fmeasure) for name in _ROUGE]
    return *measured, min(1.0, bleu.sentence_score(given, [right]).score / 100), levenshtein.normalized_similarity(right, given)


@cache
def _scorers() -> tuple[Any, Any, Any]:
    """ROUGE, BLEU and Levenshtein; their libraries take a while to load, so only who measures texts waits for them."""
    from rapidfuzz.distance import Levenshtein
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    return RougeScorer(list(_ROUGE), use_stemmer=True), BLEU(effective_order=True), Levenshtein
