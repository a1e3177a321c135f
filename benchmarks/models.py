"""Models: how soon one that cannot be used is refused, what a server has to do for a query, what shared beginnings spare on a CPU.

And what becomes of every architecture of transformers, compared with transformers alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

from benchmarks import scoring
from benchmarks.figures import Figures
from benchmarks.models_parts import refusals, served
from tools.architectures.__main__ import RESULTS


def architectures(figures: Figures) -> None:
    """All of them anew, about half an hour on two cores."""
    subprocess.run([sys.executable, "-m", "tools.architectures"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    counts = Counter(one["verdict"] for one in json.loads(RESULTS.read_text(encoding="utf-8"))["findings"])
    built = counts.total() - counts["not built"]
    print(f"{counts.total()} architectures and variants, {built} built small: {dict(counts)}")
    figures.exactly("architectures-wrong-in-silence", counts["wrong"], 0)
    figures.exactly("architectures-crashed-after-a-charge", counts["crashed"], 0)
    figures.at_least("architectures-right-or-refused", 100 * (counts["right"] + counts["refused"]) / built, 100, " %")


def main() -> None:
    """Print every figure; the slow ones last."""
    figures = Figures()
    refusals.measure(figures)
    served.measure(figures)
    scoring.central_prompts(figures)
    architectures(figures)
    figures.finish()


if __name__ == "__main__":
    main()
