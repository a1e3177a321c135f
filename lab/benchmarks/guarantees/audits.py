"""Audits at full size, as `dpicl audit --all` runs them: what holds, what is caught, how long it
takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.benchmarks.figures import Figures, sized

RUNS = sized(100_000, 2_000)
"""On each neighbour; `make audit` makes ten times as many."""


def measure(figures: Figures) -> None:
    """All audits with 100,000 runs a side; seconds are those of the clock."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [
            str(Path(sys.executable).with_name("dpicl")),
            "audit",
            "--all",
            "--runs",
            str(RUNS),
            "--out",
            folder,
        ]
        subprocess.run(command, check=False)
        seconds = time.perf_counter() - started
        audits = json.loads((Path(folder) / "audit.json").read_text())
    mutants = [mutant for audit in audits for mutant in audit["mutants"]]
    print(
        f"audits with {RUNS:,} runs a side: {sum(audit['seconds'] for audit in audits):.0f} "
        f"processor seconds"
    )
    figures.at_most("audit-1e5-seconds", seconds, 120, " s")
    figures.exactly(
        "audit-mechanisms-within-stated-epsilon",
        sum(audit["holds"] for audit in audits),
        len(audits),
    )
    figures.exactly(
        "audit-mutants-caught", sum(mutant["caught"] for mutant in mutants), len(mutants)
    )


if __name__ == "__main__":
    FIGURES = Figures()
    measure(FIGURES)
    FIGURES.finish()
