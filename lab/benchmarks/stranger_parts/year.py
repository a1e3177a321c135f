"""An installation of a year: 365 scheduled runs, cleaned daily with the default retention; how many
megabytes it holds in the end.

    python -m lab.benchmarks.stranger_parts.year

Every day is a day of its own for the ledger: its releases are named by that day, charged, published
and received. Every fifteenth run is done in whole; the others copy the folder of the last one, and
publish its artefacts under the names of their day. At the end of a day all runs become a day older,
and what `dpicl state clean` removes by default goes. Runs on a real Prefect server tell what one
adds to its database; of as many as the retention keeps, that and as many free pages as are left
there are added.

Megabytes are what the disk gives away, in blocks; those of the files are printed too.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpicl.home.accounts import one_ledger, open_ledger
from dpicl.home.settings import Settings
from dpicl.installation.clean import clean
from dpicl.report import report_steps
from dpicl.runs.artefacts import gathered
from dpicl.runs.draw import releases_of
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.plan import make_plan, periods_of
from dpicl.runs.run_folder import PLAN, open_unit, read_plan, run_folder, write_plan
from lab.benchmarks.figures import Figures, sized
from tests.harness import (
    Place,
    World,
    install,
    new_place,
    running_cluster,
    running_server,
    shop,
    shop_rows,
)

DAYS, WHOLE_EVERY, GOAL_MB = sized(365, 4), 15, 200.0
ORCHESTRATED = sized(4, 2)
"""Runs on a real Prefect server."""
EVENT_DAYS = 7
"""How long a server keeps events: PREFECT_SERVER_EVENTS_RETENTION_PERIOD as it is shipped."""
FREE_SHARE = 0.25
"""Free pages beside the used ones that a database keeps: `flows.maintenance` gives them back beyond
a fifth of all.
"""
_DAY, _CAP = 86_400.0, 10**6
_DATASETS = ["till"]
_GRID = {"datasets": _DATASETS, "epsilons": ["1"], "shots": [1, 2], "seeds": [0], "model": "fake"}


def blocks(folder: Path) -> int:
    """Bytes of the disk that a folder takes."""
    return sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))


def sizes(folder: Path) -> int:
    """Bytes of its files."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass
class Year:
    """A state home in which a day passes at a time."""

    settings: Settings
    last: Path | None = None

    def day(self, number: int) -> int:
        """A scheduled run, then the cleaning; gives how many runs went."""
        when, name = datetime.now(UTC) + timedelta(days=number), f"private-{number:03d}"
        if number % WHOLE_EVERY == 0 or self.last is None:
            self.last = make_plan("private", _GRID, name, when=when)
            run_units(self.last, InProcess(), report_steps(self.last))
        else:
            self.last = self._copied(self.last, run_folder(self.settings, name), when)
        self._grow_older()
        return sum(one.is_run for one in clean(self.settings, self.settings.keep_days))

    def _copied(self, before: Path, run: Path, when: datetime) -> Path:
        """What a run of the same grid leaves: releases of its own, and files of the same size."""
        plan = replace(
            read_plan(before),
            run_id=run.name,
            periods=periods_of(_DATASETS, self.settings, when=when),
        )
        shutil.copytree(before, run, ignore=shutil.ignore_patterns(PLAN))
        write_plan(run, plan)
        with one_ledger(self.settings), open_ledger(self.settings) as ledger:
            for key in plan.units:
                unit = open_unit(str(run), key)
                contents = gathered(unit)
                for key, named in releases_of(ledger, unit).items():
                    if named.reserve(ledger).is_missing:
                        ledger.begin_drawing(named.charge.release_id)
                        named.publish(ledger, contents[key])
        return run

    def _grow_older(self) -> None:
        """All runs, by a day."""
        for parent, folders, files in os.walk(self.settings.runs):
            for path in (os.path.join(parent, name) for name in (*folders, *files)):  # noqa: PTH118 - of thousands
                written = os.lstat(path).st_mtime - _DAY
                os.utime(path, (written, written))


def measure_home(place: Place) -> float:
    """Megabytes of the state home and the runs in it after a year."""
    started, removed = time.perf_counter(), 0
    with place.entered():
        settings = Settings.from_environment()
        year = Year(settings)
        for number in range(DAYS):
            removed += year.day(number)
        with open_ledger(settings) as ledger:
            records, releases = ledger.verify(), len(ledger.copy().published)
        left = sum(1 for _ in settings.runs.glob("*/plan.json"))
    kinds = Counter(
        {
            path.name: blocks(path) if path.is_dir() else path.lstat().st_blocks * 512
            for path in place.home.iterdir()
        }
    )
    print(
        f"{DAYS} days in {time.perf_counter() - started:.0f} s: {releases} releases, {records} "
        f"records, {removed} runs removed, {left} left"
    )
    for name, size in kinds.most_common(4):
        path = place.home / name
        print(
            f"  {name}: {size / 1e6:.1f} MB on the disk, "
            f"{(sizes(path) if path.is_dir() else path.stat().st_size) / 1e6:.1f} MB in files"
        )
    return sum(kinds.values()) / 1e6


def measure_prefect(place: Place, keep_days: int) -> float:
    """Megabytes of Prefect's database after a year, from what real flow runs add to it: events for
    a week, all else as long as runs are kept.
    """
    database, grown = place.root / "prefect" / "prefect.db", []
    with running_server(place) as url, running_cluster(place) as cluster:
        world = World(place.root, url, cluster.scheduler_address)
        for number in range(ORCHESTRATED):
            world.sweep(f"orchestrated-{number}", _GRID, pipeline="private")
            time.sleep(6)  # the last lines of its log, and events, are on their way
            with closing(sqlite3.connect(database, timeout=60)) as connection:
                named = "SELECT name LIKE '%event%', sum(pgsize) FROM dbstat GROUP BY 1"
                grown.append(dict(connection.execute(named).fetchall()))
    (rest, events), base = (
        ((grown[-1][kind] - grown[0][kind]) / (ORCHESTRATED - 1) for kind in (0, 1)),
        sum(grown[0].values()),
    )
    year = (base + keep_days * rest + EVENT_DAYS * events) * (1 + FREE_SHARE) / 1e6
    print(
        f"Prefect's database: {base / 1e6:.1f} MB with a run; each further one adds "
        f"{rest / 1e3:.0f} kB for {keep_days} days, "
    )
    print(f"  and {events / 1e3:.0f} kB of events for {EVENT_DAYS}; {year:.1f} MB in a year")
    return year


def measure(figures: Figures) -> None:
    """Both together."""
    contract = shop("till", private=True, releases={"every": "day"})
    contract["privacy"] = {**contract["privacy"], "budget": {"epsilon": _CAP}}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        places = [new_place(Path(scratch) / name) for name in ("home", "orchestrated")]
        for place in places:
            install(place, contract, shop_rows(200))
        with places[0].entered():
            keep = Settings.from_environment().keep_days
        assert keep is not None
        figures.at_most(
            "state after a year, MB",
            measure_home(places[0]) + measure_prefect(places[1], keep),
            GOAL_MB,
        )


if __name__ == "__main__":
    figures = Figures()
    measure(figures)
    figures.finish()
