"""A night's whole command late in a horizon beside one early in it: `dpicl synth` of a table of
eleven columns and 60,000 rows, read anew each night. Processor time of the process, the least of
some tries.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpicl.home.settings import Settings
from dpicl.release.horizon import release_planned
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from lab.benchmarks.figures import Figures, children, sized
from lab.benchmarks.series.counters import PERIODS
from tests.harness import Place, new_place
from tests.library.series_contracts import NAME, series_tree

SHORT, TRIES, ROWS, COLUMNS, BINS = sized(30, 8), sized(3, 1), sized(60_000, 2_000), 10, 8


def measure(figures: Figures) -> None:
    """All nights but the last are made here; the last by the command, in copies of the place."""
    with tempfile.TemporaryDirectory() as folder:
        early, late = (_command(Path(folder) / str(nights), nights) for nights in (SHORT, PERIODS))
    print(
        f"`dpicl synth` of a night, processor seconds: night {SHORT} {early:.2f}, night {PERIODS} "
        f"{late:.2f}"
    )
    figures.at_most(f"command-of-night-{PERIODS}-over-night-{SHORT}", late / early, 1.2, "x")


def _command(root: Path, nights: int) -> float:
    place, today = new_place(root), datetime.now(UTC)
    _install(place, first=today.date() - timedelta(days=nights))
    with place.entered():
        settings = Settings.from_environment()
        release_planned(
            planned_table(ReleaseRequest(dataset=NAME, epsilon=2, shots=1), settings),
            settings,
            now=today - timedelta(days=1),
        )
    spent = []
    for number in range(TRIES):
        shutil.copytree(place.home, home := root / f"home-{number}")
        # with a width, the command is a process of its own, whose imports count
        before = children()
        made = place.dpicl(
            "synth",
            NAME,
            "--epsilon",
            "2",
            "--out",
            f"{number}.csv",
            timeout=600,
            DPICL_HOME=str(home),
            XDG_CONFIG_HOME=f"{home}-settings",
            COLUMNS="120",
        )
        spent.append(children() - before)
        assert f"1 period released now, {nights} of" in made.stdout, made.stderr
    return min(spent)


def _install(place: Place, *, first: date) -> None:
    columns: dict[str, Any] = {
        f"c{i}": {"type": "category", "categories": [str(bin_) for bin_ in range(BINS)]}
        for i in range(COLUMNS)
    }
    tree = series_tree(
        releases={"every": "day", "horizon": PERIODS + 1, "first": first.isoformat()}
    )
    tree["columns"] = {**columns, "buys": tree["columns"]["buys"]}
    (place.root / "contracts" / f"{NAME}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    chance = np.random.default_rng(0)
    hidden, days = chance.integers(BINS, size=ROWS), chance.integers(PERIODS, size=ROWS)
    cells = (hidden[:, np.newaxis] + chance.integers(2, size=(ROWS, COLUMNS))) % BINS
    with (place.root / "data" / f"{NAME}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "day", *columns, "buys"])
        for row in range(ROWS):
            day = (first + timedelta(days=int(days[row]))).isoformat()
            rows.writerow(
                [
                    f"p{chance.integers(ROWS // 2)}",
                    day,
                    *cells[row].tolist(),
                    "yes" if hidden[row] > BINS // 2 else "no",
                ]
            )
