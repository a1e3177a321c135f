"""DP few-shot generation's figures: table 9, calibration, what one record moves, audits, rounding,
tokens per second, invisible ink, texts by the hundred and kills of their release.
"""

from __future__ import annotations

from lab.benchmarks.answers import ink_texts
from lab.benchmarks.crash import many_texts
from lab.benchmarks.figures import bench
from lab.benchmarks.guarantees import subset_prompts, table_nine
from lab.benchmarks.speed import ink_speed, text_speed, token_speed, voter_rounding

PARTS = (
    subset_prompts.measure,
    table_nine.measure,
    voter_rounding.measure,
    ink_texts.measure,
    many_texts.measure,
    ink_speed.measure,
    text_speed.measure,
    token_speed.measure,
)

if __name__ == "__main__":
    bench(PARTS)
