"""Models: how soon one that cannot be used is refused, what a server has to do for a query, what
shared beginnings spare on a CPU.

And what becomes of every architecture of transformers, compared with transformers alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from lab.architectures.__main__ import RESULTS
from lab.benchmarks import scoring
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.models_parts import refusals, served


def architectures(figures: Figures) -> None:
    """All of them anew, about half an hour on two cores."""
    with tempfile.TemporaryDirectory() as folder:
        results = sized(RESULTS, Path(folder) / "results.json")
        command = [
            sys.executable,
            "-m",
            "lab.architectures",
            "--results",
            str(results),
            *sized((), ("llama",)),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts = Counter(
            finding["verdict"]
            for finding in json.loads(results.read_text(encoding="utf-8"))["findings"]
        )
    built = counts.total() - counts["not built"]
    print(f"{counts.total()} architectures and variants, {built} built small: {dict(counts)}")
    figures.exactly("architectures-wrong-in-silence", counts["wrong"], 0)
    figures.exactly("architectures-crashed-after-a-charge", counts["crashed"], 0)
    figures.at_least(
        "architectures-right-or-refused",
        100 * (counts["right"] + counts["refused"]) / built,
        100,
        " %",
    )


PARTS = (refusals.measure, served.measure, scoring.central_prompts, architectures)

if __name__ == "__main__":
    bench(PARTS)
