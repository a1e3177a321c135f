"""What DP-ICL printed (arXiv 2305.01639): accuracies of GPT-3, and how near its written answers come to the right ones.

All are fractions of 4-shot prompts, at the epsilon that the paper states for all queries together:
accuracies under noisy votes (RNM-Gaussian), ROUGE, BLEU and Levenshtein similarity of answers on
DocVQA, and ROUGE of summaries of SAMSum. For sums of embeddings the paper counts one changed
exemplar as sensitivity 1; it is up to 2, and with the printed noise SAMSum costs epsilon 5.3, 19.8
and 51.4 where 1, 3 and 8 stand.

Aggregations: `votes`, `embedding`, `keywords` (DocVQA; its way to choose them is not printed beside
the numbers), and `few-shot` for real rows in one prompt. The ROUGE of propose-test-release on
SAMSum stands without an epsilon, and is left out.
"""

from __future__ import annotations

from functools import cache

from dpicl.methods.published.files import read_table

TABLES = ("classification", "docvqa", "samsum")

_Cell = tuple[str, str, str, str, float]


def ensemble_number(dataset: str, metric: str, aggregation: str, epsilon: float, model: str = "babbage") -> float | None:
    """What the paper prints for a cell, or None where it prints nothing.

    Args:
        metric: a column of results, such as `accuracy` or `rouge1`.
        aggregation: how answers become one; at epsilon 0, zero-shot, there is none.
        epsilon: `inf` for no noise; both ways of DocVQA have one number there.
        model: `babbage` or `davinci`; the paper names one for labels, and written answers have one model only.
    """
    combined = aggregation if epsilon else ""
    found = _numbers().get((dataset, metric, model, combined, epsilon))
    return _numbers().get((dataset, metric, "", combined, epsilon)) if found is None else found


@cache
def _numbers() -> dict[_Cell, float]:
    """Values by data set, metric, model (empty of written answers), aggregation and epsilon."""
    rows = (row for table in TABLES for row in read_table(f"dp-icl-{table}"))
    return {(row["dataset"], row["metric"], row["model"], row["aggregation"], float(row["epsilon"])): float(row["value"]) for row in rows}
