"""State of runs and accounts for metrics: progress, prompts, stage times; whether the ledger is
intact, and what is spent.

Everything is read from durable files when it is asked for. Finished runs do not change, so they are
cached until their manifest or report is written again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dpicl.ground.errors import DpiclError
from dpicl.ground.files import read_arrays, read_json
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import ANCHOR, KEY, LEDGER, Settings
from dpicl.ledger import Ledger
from dpicl.methods.tabular_answers import AVERAGED
from dpicl.release.table_files import read_table
from dpicl.runs.artefacts import PREDICTIONS, RESULTS
from dpicl.runs.results import MANIFEST
from dpicl.runs.run_folder import not_run, read_plan

REPORT = "report.html"
TOKENS = ("prompt", "completion")


@dataclass(frozen=True)
class Checked:
    """The last validation of a data set in a run: when, and how many rules are broken by
    severity.
    """

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
        self._home = settings.home
        self._runs = settings.runs
        self._finished: dict[Path, tuple[object, RunFacts]] = {}

    def read(self) -> tuple[list[RunFacts], int]:
        """Every run that can be read, and how many folders cannot."""
        runs = []
        finished = {}
        unreadable = 0
        for folder in sorted(self._runs.glob("[!.]*/")):
            try:
                stamp = _stamp(folder)
                cached = self._finished.get(folder)
                facts = (
                    cached[1]
                    if cached is not None and cached[0] == stamp
                    else _run_facts(folder, self._home)
                )
            except Exception:  # noqa: BLE001 - whatever is wrong with one folder, the others are read
                unreadable += 1
                continue
            if facts is None:
                continue
            runs.append(facts)
            if facts.finished is not None:
                finished[folder] = (stamp, facts)
        self._finished = finished
        return runs, unreadable


def _stamp(folder: Path) -> object:
    """Changes whenever a run is collected or reported again; None before."""
    try:
        return tuple((folder / name).stat().st_mtime_ns for name in (MANIFEST, REPORT))
    except FileNotFoundError:
        return None


def _run_facts(folder: Path, home: Path) -> RunFacts:
    plan = read_plan(folder)
    units = plan.units
    done = sum((folder / "units" / key / RESULTS).exists() for key in units)
    ended = (
        done + sum(map(len, not_run(folder, plan).values())) == len(units)
        and _stamp(folder) is not None
    )
    tokens: Counter[str] = Counter()  # of served models only
    for path in folder.glob("units/*/scored/[0-9]*.json"):
        tally = read_json(path)
        tokens.update(
            {kind: tally[f"{kind}_tokens"] for kind in TOKENS if f"{kind}_tokens" in tally}
        )
    stages: dict[tuple[str, str], list[float]] = {}
    for path in folder.glob("timings/*/*.json"):
        timing = read_json(path)
        method = units[timing["owner"]].method if timing["owner"] in units else ""
        stages.setdefault((timing["stage"], method), []).append(float(timing["seconds"]))
    prompts = 0  # that a model has answered so far
    for unit in (folder / "units" / key for key in units):
        if (unit / PREDICTIONS).exists():
            cells = read_table(unit / PREDICTIONS, ["cell"]).column("cell").to_pylist()
            prompts += sum(not cell.startswith(AVERAGED) for cell in cells)
        else:
            prompts += sum(
                len(scores)
                for path in unit.glob("scored/[0-9]*.npz")
                for scores in read_arrays(path).values()
            )
    checked = {}
    for name in plan.pipeline.datasets:
        if (path := folder / "validation" / f"{name}.json").exists():
            broken = Counter({"fail": 0, "warn": 0})
            broken.update(row["severity"] for row in read_json(path) if not row["holds"])
            checked[name] = Checked(path.stat().st_mtime, dict(broken))
    return RunFacts(
        name=folder.name,
        pipeline=plan.pipeline_name,
        units_planned=len(units),
        units_done=done,
        finished=datetime.fromisoformat(read_json(folder / MANIFEST)["created_utc"]).timestamp()
        if ended
        else None,
        written=max(
            (
                time
                for place in (folder, *(home / "private").glob(f"*/{folder.name}"))
                for time in _written(place)
            ),
            default=0.0,
        ),
        prompts=prompts,
        tokens=tokens,
        stages=stages,
        checked=checked,
    )


def _written(folder: Path) -> Iterator[float]:
    """When everything in a folder was written; nothing else of private files is read."""
    for path in (
        folder,
        *(Path(parent, name) for parent, _, names in os.walk(folder) for name in names),
    ):
        with suppress(OSError):  # a temporary file that has been renamed meanwhile
            yield path.lstat().st_mtime


@dataclass(frozen=True)
class AccountFacts:
    """One account: epsilon in nats, None for a benchmark's cap; releases by `reserved` and
    `published`.
    """

    name: str
    spent: float
    delta: float
    cap: float | None
    delta_cap: float
    releases: Mapping[str, int]

    @property
    def left(self) -> float | None:
        """Epsilon left; None without a cap."""
        return None if self.cap is None else self.cap - self.spent


class LedgerReader:
    """Verifies the whole chain every time; composes the accounts again only if a record was added.

    A process that sees no home has no key: it reads the accounts of a ledger on a server as they
    are, and says nothing of the chain.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._anchor = settings.home / ANCHOR
        self._read: tuple[bytes, tuple[AccountFacts, ...]] | None = None

    def read(self) -> tuple[bool | None, tuple[AccountFacts, ...]]:
        """Whether the chain is intact, None where there is no ledger or no key to check it with;
        and its accounts, unless it is not.
        """
        if not (
            self._settings.ledger
            or self._anchor.exists()
            or (self._settings.home / LEDGER).exists()
        ):
            return None, ()
        try:
            if self._settings.ledger and not (
                self._anchor.exists() or (self._settings.home / KEY).exists()
            ):
                with Ledger.open(self._settings.ledger, None, self._anchor) as ledger:
                    return None, _accounts(ledger)
            with open_ledger(self._settings) as opened:
                opened.verify()
                # Number and hash of the last record, which stands for all before it; no file before
                # the first.
                end = self._anchor.read_bytes() if self._anchor.exists() else b""
                if self._read is None or self._read[0] != end:
                    self._read = end, _accounts(opened)
                return True, self._read[1]
        except (DpiclError, OSError):
            return False, ()


def _accounts(ledger: Ledger) -> tuple[AccountFacts, ...]:
    accounts = []
    for account in ledger.accounts():
        spent = ledger.spent(account.name)
        states = Counter({"reserved": 0, "published": 0})
        states.update(entry.state for entry in ledger.entries(account.name))
        caps = account.epsilon_cap, account.delta_cap
        accounts.append(AccountFacts(account.name, spent.epsilon, spent.delta, *caps, dict(states)))
    return tuple(accounts)
