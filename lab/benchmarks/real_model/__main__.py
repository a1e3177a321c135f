"""`python -m lab.benchmarks.real_model`: keep a run's answers, or write the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.home.settings import Settings
from lab.benchmarks.real_model.page import write_pages
from lab.benchmarks.real_model.results import collect

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.real_model", description=__doc__
    )
    todo = parser.add_subparsers(dest="todo", required=True)
    kept = todo.add_parser(
        "collect",
        help="keep a run's answers, and what the bundled model answers to the same prompts",
    )
    kept.add_argument("run", type=Path, help="folder of the run")
    kept.add_argument(
        "model",
        help="what the page calls the model that answered: smollm2, or that of another column",
    )
    todo.add_parser("write", help="write docs/real-model.md and the table of README.md")
    chosen = parser.parse_args()
    if chosen.todo == "collect":
        with Settings.from_environment().entered():
            print(*collect(chosen.run, chosen.model), sep="\n")
    else:
        print(*write_pages(), sep="\n")
