"""Processor time of commands that a person waits for, beside a program that only imports numpy and
pyarrow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.benchmarks.figures import Figures, best_of, children, sized

ROUNDS = sized(3, 1)
PROTECT = (
    "protect",
    "breast_cancer",
    "--method",
    "gdp_tabicl",
    "--epsilon",
    "1",
    "--as",
    "jsonl",
    "--out",
)
COMMANDS = {
    "budget": (("budget",), 0.8),
    "run-dry-run": (("run", "demo", "--model", "bundled", "--dry-run"), 2.0),
    "protect": (PROTECT, 1.2),
}
"""{name: (arguments, most seconds)}; a dry run that a first one has asked the model for."""
FIRST_DRY_RUN = 10.0
"""Seconds of that first one, most of them the imports of torch and transformers."""


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    """Least of a few, after one that is not counted; `--out` names another file each time."""
    numbers = iter(range(ROUNDS + 1))

    def ask() -> None:
        file = (
            [f"{environment['DPICL_HOME']}/{next(numbers)}.jsonl"] if command[-1] == "--out" else []
        )
        subprocess.run(
            [*command, *file],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    ask()
    return best_of([ask], ROUNDS, children)[0]


def measure(figures: Figures) -> None:
    """On a home of their own; a release is made once, and read again after that."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DPICL_HOME": folder, "DPICL_RUNS": f"{folder}/runs"}
        bare = _seconds([sys.executable, "-c", "import numpy, pyarrow.parquet"], environment)
        print(f"numpy and pyarrow alone: {bare:.2f} s of processor time")
        program = str(Path(sys.executable).with_name("dpicl"))
        arguments, began = COMMANDS["run-dry-run"][0], children()
        subprocess.run(
            [program, *arguments],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        figures.at_most(
            "processor-time-of-a-first-dry-run", children() - began, FIRST_DRY_RUN, " s"
        )
        for name, (arguments, most) in COMMANDS.items():
            figures.at_most(
                f"processor-time-of-{name}",
                _seconds([program, *arguments], environment),
                most,
                " s",
            )


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
