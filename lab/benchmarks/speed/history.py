"""The ratios of the last ten commits that were measured, and how a new one stands beside them.

Ratios only: two timings of one run, which another machine, or a busier one, changes alike.
"""

from __future__ import annotations

import csv
import statistics
import subprocess
from pathlib import Path

from lab.benchmarks.figures import SMOKE, Figures

TABLE, COMMITS, LEAST = Path(__file__).with_name("ratios.csv"), 10, 0.85
Ratios = dict[str, dict[str, float]]
"""By commit, the oldest first: the value of each figure."""


def read() -> Ratios:
    """What the table holds."""
    found: Ratios = {}
    if TABLE.exists():
        for commit, name, value in csv.reader(TABLE.open()):
            found.setdefault(commit, {})[name] = float(value)
    return found


def write(found: Ratios) -> None:
    """Keep the last ten."""
    with TABLE.open("w", newline="") as file:
        kept = list(found.items())[-COMMITS:]
        csv.writer(file, lineterminator="\n").writerows(
            (commit, name, f"{value:.4g}") for commit, own in kept for name, value in own.items()
        )


def add(figures: Figures) -> None:
    """Put this commit's ratios into the table, and ask of each that it is not below 85 % of the
    median of those before; none of a smoke.
    """
    if SMOKE:
        return
    before = read()
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    own = before.pop(told, {})  # of parts of this commit that were measured before
    for name, shown, goal, _ in list(figures.lines):
        if not shown.endswith("x") or name in figures.disturbed:
            continue
        own[name] = value = float(shown.removesuffix("x").replace(",", ""))
        if earlier := [ratios[name] for ratios in before.values() if name in ratios]:
            usual = statistics.median(earlier)
            figures.at_least(
                f"{name}-against-the-last-commits",
                value / usual if goal.startswith(">=") else usual / value,
                LEAST,
            )
    write({**before, told or "unknown": own})
