"""Attacks on what was released, as `dpicl audit membership` makes them: what holds, what is found out, how long it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figures


def measure(figures: Figures) -> None:
    """All methods at all epsilons with the default of releases; seconds are those of the clock."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([str(Path(sys.executable).with_name("dpicl")), "audit", "membership", "--out", folder], check=False)
        seconds = time.perf_counter() - started
        attacks = json.loads((Path(folder) / "membership.json").read_text())["attacks"]
    mutants, methods = ([one for one in attacks if bool(one["mutant"]) is broken] for broken in (True, False))
    figures.at_most("membership-seconds", seconds, 600, " s")
    figures.exactly("membership-within-what-epsilon-allows", sum(one["passed"] for one in methods), len(methods))
    figures.at_least("membership-nearest-to-what-epsilon-allows", max(one["at_least"] / one["allowed"] for one in methods), 0.75)
    figures.exactly("membership-mutants-caught", sum(one["passed"] for one in mutants), len(mutants))


if __name__ == "__main__":
    FIGURES = Figures()
    measure(FIGURES)
    FIGURES.finish()
