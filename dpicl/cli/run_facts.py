"""What run folders tell: how far each run is, what it answered, how long its stages took.

Everything is read from what is durable, at the time it is asked for. Finished runs do not change,
so what was read of them is kept until their manifest or report is written again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dpicl.engine.artefacts import PREDICTIONS, RESULTS
from dpicl.engine.collect import MANIFEST
from dpicl.engine.files import read_arrays, read_json
from dpicl.engine.one_release import ONE_RELEASE, ONE_RELEASE_TITLE
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.pipeline import Unit

REPORT = "report.html"
TOKENS = ("prompt", "completion")


@dataclass(frozen=True)
class Checked:
    """The last validation of a data set in a run: when, and how many rules are broken by severity."""

    time: float
    broken: Mapping[str, int]


@dataclass(frozen=True)
class RunFacts:
    """One run; times are seconds since 1970. Counts and public names only."""

    name: str
    pipeline: str
    units_planned: int
    units_done: int
    finished: float | None
    """When all of it was collected; None as long as a unit or the report is missing."""
    written: float
    """When a file of it was last written."""
    prompts: int
    tokens: Mapping[str, float]
    stages: Mapping[tuple[str, str], list[float]]
    """Seconds by stage and method; those of a data set have no method."""
    checked: Mapping[str, Checked]


class RunReader:
    """Reads all runs of an installation, finished ones once."""

    def __init__(self, settings: Settings) -> None:
        self._home, self._runs = settings.home, settings.runs
        self._finished: dict[Path, tuple[object, RunFacts]] = {}

    def read(self) -> tuple[list[RunFacts], int]:
        """Every run that can be read, and how many folders cannot."""
        found, kept, unreadable = [], {}, 0
        for folder in self._folders():
            try:
                stamp = _stamp(folder)
                known = self._finished.get(folder)
                facts = known[1] if known is not None and known[0] == stamp else _facts(folder, self._home)
            except Exception:  # noqa: BLE001 - whatever is wrong with one folder, the others are told
                unreadable += 1
                continue
            if facts is None:
                continue
            found.append(facts)
            if facts.finished is not None:
                kept[folder] = (stamp, facts)
        self._finished = kept
        return found, unreadable

    def _folders(self) -> list[Path]:
        try:
            with os.scandir(self._runs) as entries:
                return sorted(Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith("."))
        except FileNotFoundError:
            return []


def _stamp(folder: Path) -> object:
    """Changes whenever a run is collected or reported again; None before."""
    try:
        return tuple((folder / name).stat().st_mtime_ns for name in (MANIFEST, REPORT))
    except FileNotFoundError:
        return None


def _facts(folder: Path, home: Path) -> RunFacts | None:
    """None of a `dpicl protect` that was killed: it is typed again, and goes on in a folder of its own."""
    plan = read_plan(folder)
    if (plan.pipeline_name, plan.pipeline.title) == (ONE_RELEASE, ONE_RELEASE_TITLE):
        return None
    units = plan.units
    done = sum((folder / "units" / key / RESULTS).exists() for key in units)
    ended = done == len(units) and _stamp(folder) is not None
    return RunFacts(
        name=folder.name,
        pipeline=plan.pipeline_name,
        units_planned=len(units),
        units_done=done,
        finished=datetime.fromisoformat(read_json(folder / MANIFEST)["created_utc"]).timestamp() if ended else None,
        written=_last_written(folder, *(home / "private").glob(f"*/{folder.name}")),
        prompts=sum(_prompts(folder / "units" / key) for key in units),
        tokens=_tokens(folder),
        stages=_stages(folder, units),
        checked={name: _checked(path) for name in plan.pipeline.datasets if (path := folder / "validation" / f"{name}.json").exists()},
    )


def _last_written(*folders: Path) -> float:
    """Of the files and folders below these; of private ones nothing else is looked at."""
    latest = 0.0
    for folder in folders:
        for path in _everything(folder):
            with suppress(OSError):  # a draft that has got its name meanwhile
                latest = max(latest, path.lstat().st_mtime)
    return latest


def _everything(folder: Path) -> Iterator[Path]:
    yield folder
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _prompts(unit: Path) -> int:
    """Prompts that a model has answered so far."""
    if (unit / PREDICTIONS).exists():
        return int(pq.read_metadata(unit / PREDICTIONS).num_rows)
    return sum(len(said) for path in unit.glob("scored/[0-9]*.npz") for said in read_arrays(path).values())


def _tokens(folder: Path) -> Counter[str]:
    """What a served model counted; of others nothing is known."""
    total: Counter[str] = Counter()
    for path in folder.glob("units/*/scored/[0-9]*.json"):
        tally = read_json(path)
        total.update({kind: tally[f"{kind}_tokens"] for kind in TOKENS if f"{kind}_tokens" in tally})
    return total


def _stages(folder: Path, units: Mapping[str, Unit]) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for path in folder.glob("timings/*/*.json"):
        timing: dict[str, Any] = read_json(path)
        method = units[timing["owner"]].method if timing["owner"] in units else ""
        found.setdefault((timing["stage"], method), []).append(float(timing["seconds"]))
    return found


def _checked(path: Path) -> Checked:
    broken = Counter({"fail": 0, "warn": 0})
    broken.update(row["severity"] for row in read_json(path) if not row["holds"])
    return Checked(path.stat().st_mtime, dict(broken))
