"""The words of verdicts, each with its one meaning: what is compared decides which of them can be
said.

    (1)  d = ours - printed,  half = 1.96 sqrt(m (1 - m) / n + v / S + s^2 / 5)
    (2)  apart = 1.96 sqrt((min(m + c, 2 - m - c) - (m - c)^2) / n + v / S)

Symbols     m, v, S  our mean, variance over seeds and number of seeds; n queries; s the paper's
            deviation over its five runs; c what a constant answer has on the same queries. Of
            measures in [0, 1] that are no shares, m (1 - m) is more than the variance of one
            answer, so that half is rather too wide. (2) holds for any two measures in [0, 1] of the
            same queries: (a - b)^2 <= |a - b| <= min(a + b, 2 - a - b).
"""

from __future__ import annotations

EQUAL, BOUNDED, WITHIN, SAME = "equal", "bounded by", "within noise", "same conclusion"
UNCLEAR, MISPRINTED, DIFFERS, NOT_RUN = "too noisy to tell", "misprinted", "differs", "not run"
WIDEST = 0.1
"""Half an interval, beyond which a number that is near tells little."""
PAPER_RUNS, CERTAIN, SIGNIFICANT = 5, 1.96, 0.05

MEANINGS = {
    EQUAL: "a number that is counted or computed, without noise: the same to the last digit that is "  # noqa: E501
    "printed",
    BOUNDED: "an ε that is computed for printed noise: it is no more than the printed one, and how "
    "much less is said",
    WITHIN: "a mean: ours and the printed one differ by no more than 1.96 standard errors, of "
    "queries, seeds and the paper's five runs",
    UNCLEAR: "a mean: they differ by no more than that, but that is more than 0.1; more queries or "
    "seeds would tell",
    SAME: "a p-value: both are below 0.05, or neither is; the values may differ",
    MISPRINTED: "the paper misprints the number, and ours fits what is meant; or what is meant is not "  # noqa: E501
    "known",
    DIFFERS: "none of these; what is known to differ here and bears on this number is listed, and none "  # noqa: E501
    "of it was tested as the cause",
    NOT_RUN: "there is no number of ours, and why",
}
"""Every verdict and what it means, in the order of a page's columns."""
COUNTED = {
    EQUAL: ("is equal", "are equal"),
    BOUNDED: (
        "holds (its noise costs at most the printed ε)",
        "hold (their noise costs at most the printed ε)",
    ),
    WITHIN: ("is within noise", "are within noise"),
    UNCLEAR: ("is too noisy to tell", "are too noisy to tell"),
    SAME: ("leads to the same conclusion", "lead to the same conclusion"),
    MISPRINTED: ("is misprinted", "are misprinted"),
    DIFFERS: ("differs", "differ"),
    NOT_RUN: ("was not run", "were not run"),
}
"""Behind a number of cells, of one and of several."""
