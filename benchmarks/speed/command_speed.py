"""Processor time of commands that a person waits for, beside a program that only imports numpy and pyarrow."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figures

ROUNDS = 3
PROTECT = ("protect", "breast_cancer", "--method", "gdp_tabicl", "--epsilon", "1", "--as", "jsonl", "--out")
COMMANDS = {"budget": (("budget",), 0.8), "run --dry-run": (("run", "demo", "--dry-run"), 2.0), "protect": (PROTECT, 1.2)}
"""{name: (arguments, most seconds)}."""


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    """Least of a few, after one that is not counted; `--out` names another file each time."""
    taken = []
    for number in range(ROUNDS + 1):
        file = [f"{environment['DPICL_HOME']}/{number}.jsonl"] if command[-1] == "--out" else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, *file], env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken[1:])


def measure(figures: Figures) -> None:
    """On a home of their own; a release is made once, and read again after that."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DPICL_HOME": folder, "DPICL_RUNS": f"{folder}/runs"}
        bare = _seconds([sys.executable, "-c", "import numpy, pyarrow.parquet"], environment)
        print(f"numpy and pyarrow alone: {bare:.2f} s of processor time")
        for name, (arguments, most) in COMMANDS.items():
            program = str(Path(sys.executable).with_name("dpicl"))
            figures.at_most(f"processor-time-of-{name}", _seconds([program, *arguments], environment), most, " s")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
