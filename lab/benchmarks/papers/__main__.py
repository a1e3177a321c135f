"""The papers whole: `make bench TOPIC=papers`.

checklist   every item of the three papers, by its command in the smallest form: what the row says
            was seen is in what the command shows
tables      `dpicl reproduce` of each paper, all of its tables, on random weights: a verdict beside
            every printed number
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.papers.evidence import COMMANDS, Evidence, run
from lab.benchmarks.real_tables import at_hand
from lab.published.cells import papers

ROOT, ITEMS = Path(__file__).parents[3], 131
STATES = ("done", "differs", "not done", "impossible")
"""`differs`: done in another way than the paper's, which `note` says."""
MINUTES = 15
SMALL = (
    "--model",
    "tiny",
    "--queries",
    "2",
    "--seeds",
    "0",
    *sized((), ("--datasets", "trec", "--epsilons", "8")),
)
SHORT = {"dp-few-shot": ("--tokens", "10")}
"""Texts of a tenth of the paper's length where it has the longest: what a table costs is tokens."""
_SUMMARY, _ASIDE = re.compile(r"Of \d+ printed numbers (.*)\."), re.compile(r"\([^)]*\)")
"""What is counted, in one sentence, and what of it is told apart."""


def items() -> list[dict[str, str]]:
    """The rows of the checklist."""
    return list(csv.DictReader(Path(__file__).with_name("checklist.csv").open(encoding="utf-8")))


def numbers(row: dict[str, str]) -> range:
    """The items of a row: `5-7` or `10`."""
    first, _, last = row["items"].partition("-")
    return range(int(first), int(last or first) + 1)


def malformed(row: dict[str, str]) -> str:
    """What a row lacks that must say something, or nothing: the code of what is done, the reason of
    what is not.
    """
    if row["state"] not in STATES:
        return f"state {row['state']}: expected one of {', '.join(STATES)}"
    if row["run"] not in COMMANDS:
        return f"run {row['run']}: expected a command of commands.yaml"
    if len(row["seen"]) < 10:
        return "seen: says nothing; expected what the command shows"
    if row["state"] == "done":
        return (
            ""
            if (ROOT / row["note"]).is_file()
            else f"note {row['note']}: expected the file that does it"
        )
    return "" if len(row["note"]) > 20 else "note: expected the reason"


def fault(row: dict[str, str], evidence: Evidence) -> str:
    """Why a row does not hold by what its command shows, or nothing."""
    if found := malformed(row):
        return found
    if "Traceback" in evidence.text or (row["state"] == "done" and any(evidence.codes)):
        return f"its command ends with {evidence.codes}: {evidence.text[-500:]}"
    return "" if evidence.shows(row["seen"]) else f"not seen: {row['seen']}"


def checklist(figures: Figures) -> None:
    """All items, once each; a command that several rows share runs once."""
    if not at_hand():
        return
    rows = items()
    assert [number for row in rows for number in numbers(row)] == list(range(1, ITEMS + 1)), (
        "items are missing or stand twice"
    )
    faults: dict[str, str] = {}
    for name in sized(tuple(dict.fromkeys(row["run"] for row in rows)), ("list",)):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            evidence = run(name, Path(folder))
            print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
        faults |= {
            row["items"]: why
            for row in rows
            if row["run"] == name and (why := fault(row, evidence))
        }
    for number, why in faults.items():
        print(f"{number}: {why}")
    counts = Counter(
        {state: sum(len(numbers(row)) for row in rows if row["state"] == state) for state in STATES}
    )
    print(f"{ITEMS} items: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    figures.exactly("papers-checklist-rows-not-seen", len(faults), 0, f" of {len(rows)}")


def tables(figures: Figures) -> None:
    """Each paper in a home of its own."""
    for name, paper in papers().items():
        if name not in sized(tuple(papers()), ("dp-icl",)):
            continue
        with tempfile.TemporaryDirectory() as home:
            began = time.perf_counter()
            environment = {**os.environ, "DPICL_HOME": f"{home}/home", "DPICL_RUNS": f"{home}/runs"}
            command = [
                sys.executable,
                "-m",
                "dpicl",
                "reproduce",
                name,
                *SMALL,
                *SHORT.get(name, ()),
            ]
            told = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            print(told.stdout[-1500:], told.stderr[-500:])
            found = _SUMMARY.search(told.stdout)
            counted = sum(map(int, re.findall(r"\d+", _ASIDE.sub("", found[1])))) if found else 0
            figures.exactly(
                f"papers-{name}-verdicts", counted, sum(len(table.cells) for table in paper.tables)
            )
            figures.at_most(f"papers-{name}-minutes", (time.perf_counter() - began) / 60, MINUTES)


PARTS = (checklist, tables)

if __name__ == "__main__":
    bench(PARTS)
