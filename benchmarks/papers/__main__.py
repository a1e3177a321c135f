"""The papers whole: `make bench TOPIC=papers`.

checklist   every item of the three papers is done, by a file and a command that are there, or impossible for a stated reason
tables      `dpicl reproduce` of each paper, all of its tables, on random weights: a verdict beside every printed number
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figures
from dpicl.methods.published.cells import papers

ROOT, ITEMS = Path(__file__).parents[2], 131
MINUTES = 15
SMALL = ("--model", "tiny", "--queries", "2", "--seeds", "0")
SHORT = {"dp-few-shot": ("--tokens", "10")}
"""Texts of a tenth of the paper's length where it has the longest: what a table costs is tokens."""
_SUMMARY, _ASIDE = re.compile(r"Of \d+ printed numbers (.*)\."), re.compile(r"\([^)]*\)")
"""What is counted, in one sentence, and what of it is told apart."""


def items() -> list[dict[str, str]]:
    """The rows of the checklist."""
    return list(csv.DictReader((ROOT / "benchmarks" / "papers" / "checklist.csv").open(encoding="utf-8")))


def numbers(row: dict[str, str]) -> range:
    """The items of a row: `5-7` or `10`."""
    first, _, last = row["items"].partition("-")
    return range(int(first), int(last or first) + 1)


def is_settled(row: dict[str, str]) -> bool:
    """Done, with a file that is there, or impossible with a reason."""
    return (ROOT / row["note"]).is_file() if row["state"] == "done" else row["state"] == "impossible" and len(row["note"]) > 20


def checklist(figures: Figures) -> None:
    """All items, once each."""
    counted = [number for row in items() for number in numbers(row)]
    assert counted == list(range(1, ITEMS + 1)), "items are missing or stand twice"
    settled = sum(len(numbers(row)) for row in items() if is_settled(row))
    impossible = sum(len(numbers(row)) for row in items() if row["state"] == "impossible")
    print(f"{ITEMS} items: {settled - impossible} done, {impossible} impossible here")
    figures.exactly("papers-checklist-done-or-impossible", f"{100 * settled / ITEMS:.0f} %", "100 %")


def tables(figures: Figures) -> None:
    """Each paper in a home of its own."""
    for name, paper in papers().items():
        with tempfile.TemporaryDirectory() as home:
            began = time.perf_counter()
            environment = {**os.environ, "DPICL_HOME": f"{home}/home", "DPICL_RUNS": f"{home}/runs"}
            command = [sys.executable, "-m", "dpicl.cli", "reproduce", name, *SMALL, *SHORT.get(name, ())]
            told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            print(told.stdout[-1500:], told.stderr[-500:])
            found = _SUMMARY.search(told.stdout)
            counted = sum(map(int, re.findall(r"\d+", _ASIDE.sub("", found[1])))) if found else 0
            figures.exactly(f"papers-{name}-verdicts", counted, sum(len(table.cells) for table in paper.tables))
            figures.at_most(f"papers-{name}-minutes", (time.perf_counter() - began) / 60, MINUTES)


def main() -> None:
    """The checklist first: it takes no time."""
    figures = Figures()
    for part in (checklist, tables):
        part(figures)
    figures.finish()


if __name__ == "__main__":
    main()
