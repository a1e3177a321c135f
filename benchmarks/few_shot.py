"""DP few-shot generation's figures: table 9, calibration, what one record moves, audits, rounding, tokens per second, invisible ink, texts by
the hundred and kills of their release.
"""

from __future__ import annotations

from benchmarks.answers import ink_texts
from benchmarks.crash import many_texts
from benchmarks.figures import Figures
from benchmarks.guarantees import subset_prompts, table_nine
from benchmarks.speed import ink_speed, text_speed, token_speed, voter_rounding


def main() -> None:
    """Measure everything; the slow parts last."""
    figures = Figures()
    for part in (subset_prompts, table_nine, voter_rounding, ink_texts, many_texts, ink_speed, text_speed, token_speed):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
