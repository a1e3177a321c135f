"""Metrics of runs and budgets for Prometheus: `dpicl metrics`. Of runs progress, prompts and stage
times; whether the ledger is intact, and what is spent.

Every scrape reads run folders and ledger anew, so that nothing is lost when this process ends.
Finished runs do not change, so they are cached until their manifest or report is written again.
Labels are names only: of pipelines, runs, data sets, methods, stages and accounts.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TypeVar

from cronsim import CronSim, CronSimError
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from rich.console import Console

import dpicl
from dpicl.ground.errors import DpiclError, RunError
from dpicl.ground.files import read_arrays, read_json
from dpicl.ground.nouns import twelve_digits
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import ANCHOR, KEY, LEDGER, Settings
from dpicl.ledger import Ledger
from dpicl.methods.tabular_answers import AVERAGED
from dpicl.release.pipelines import scheduled_pipelines
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
                # Number and hash of the last record, which stands for all before it, and those
                # of the record before; no file before the first.
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


STATES = ("finished", "unfinished")
Labels = TypeVar("Labels", bound=tuple[str, ...])


class RunsAndBudgets(Collector):
    """All metrics of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runs = RunReader(settings)
        self._ledger = LedgerReader(settings)

    def describe(self) -> Iterable[Metric]:
        """Nothing: called at registration, which must not read anything."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read all there is; what cannot be read is counted and does not stop the rest."""
        build = {"version": dpicl.__version__, "python": platform.python_version()}
        yield _gauge(
            "dpicl_build_info",
            "1, with the version of the program as a label.",
            build.keys(),
            {tuple(build.values()): 1},
        )
        runs, damaged = self._runs.read()
        try:
            intervals = {
                (name,): longest_gap(pipeline.schedule.cron)
                for name, pipeline in scheduled_pipelines(self._settings).items()
                if pipeline.schedule
            }
            refused = 0
        except (DpiclError, OSError, CronSimError):
            intervals = {}
            refused = 1
        unreadable = {("run folder",): damaged, ("pipelines.yaml",): refused}
        yield _gauge(
            "dpicl_unreadable",
            "Run folders that cannot be read, and whether pipelines.yaml cannot.",
            ["what"],
            unreadable,
        )
        yield _gauge(
            "dpicl_schedule_interval_seconds",
            "Longest time between two runs that a pipeline's schedule asks for.",
            ["pipeline"],
            intervals,
        )
        yield from _of_runs(runs)
        yield from _of_stages(runs)
        yield from _of_checks(runs)
        yield from _of_ledger(*self._ledger.read())


@lru_cache
def longest_gap(cron: str) -> float:
    """Seconds of the longest time between two dates of a schedule, of a thousand within two years;
    infinite if there is but one.
    """
    start = datetime(2024, 1, 1, tzinfo=UTC)  # a leap year, so that every date comes
    dates = islice(
        takewhile(lambda date: date < start + timedelta(days=732), CronSim(cron, start)), 1000
    )
    return max(
        ((later - earlier).total_seconds() for earlier, later in pairwise(dates)), default=math.inf
    )


def _gauge(
    name: str, meaning: str, labels: Iterable[str], values: Mapping[Labels, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=list(labels))
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _of_runs(runs: list[RunFacts]) -> Iterator[Metric]:
    pipelines: dict[str, list[RunFacts]] = {}
    for run in runs:
        pipelines.setdefault(run.pipeline, []).append(run)
    counts = {(name, state): 0 for name in pipelines for state in STATES}
    for run in runs:
        counts[run.pipeline, STATES[run.finished is None]] += 1
    yield _gauge(
        "dpicl_runs",
        "Run folders by state; a run that failed or was killed is unfinished.",
        ["pipeline", "state"],
        counts,
    )
    planned = {(name,): sum(run.units_planned for run in mine) for name, mine in pipelines.items()}
    yield _gauge("dpicl_units_planned", "Units of all run folders.", ["pipeline"], planned)
    done = {(name,): sum(run.units_done for run in mine) for name, mine in pipelines.items()}
    yield _gauge(
        "dpicl_units_done", "Units of all run folders that have results.", ["pipeline"], done
    )
    last = {
        (name,): max(times)
        for name, mine in pipelines.items()
        if (times := [run.finished for run in mine if run.finished is not None])
    }
    yield _gauge(
        "dpicl_run_last_finished_timestamp_seconds",
        "When the newest finished run was collected.",
        ["pipeline"],
        last,
    )
    written = {(run.pipeline, run.name): run.written for run in runs if run.finished is None}
    yield _gauge(
        "dpicl_run_last_written_timestamp_seconds",
        "When an unfinished run last wrote a file.",
        ["pipeline", "run"],
        written,
    )
    prompts = CounterMetricFamily(
        "dpicl_prompts_answered", "Prompts that a model has answered.", labels=["pipeline"]
    )
    tokens = CounterMetricFamily(
        "dpicl_tokens", "Tokens that a served model counted.", labels=["pipeline", "kind"]
    )
    for name, mine in pipelines.items():
        prompts.add_metric([name], sum(run.prompts for run in mine))
        for kind in TOKENS:
            if counted := [run.tokens[kind] for run in mine if kind in run.tokens]:
                tokens.add_metric([name, kind], sum(counted))
    yield prompts
    yield tokens


def _of_stages(runs: list[RunFacts]) -> Iterator[Metric]:
    by_stage: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for key, seconds in run.stages.items():
            by_stage.setdefault(key, []).extend(seconds)
    meaning = "How long stages took, by their last attempts; stages of a data set have no method."
    family = SummaryMetricFamily("dpicl_stage_seconds", meaning, labels=["stage", "method"])
    for key, seconds in sorted(by_stage.items()):
        family.add_metric(key, len(seconds), sum(seconds))
    yield family


def _of_checks(runs: list[RunFacts]) -> Iterator[Metric]:
    newest: dict[str, tuple[float, Mapping[str, int]]] = {}
    for run in runs:
        for dataset, checked in run.checked.items():
            if dataset not in newest or newest[dataset][0] < checked.time:
                newest[dataset] = (checked.time, checked.broken)
    broken = {
        (dataset, severity): count
        for dataset, (_, counts) in newest.items()
        for severity, count in counts.items()
    }
    meaning = "Rules of a data set's contract that did not hold when it was last checked."
    yield _gauge("dpicl_validation_broken_rules", meaning, ["dataset", "severity"], broken)


def _of_ledger(intact: bool | None, accounts: tuple[AccountFacts, ...]) -> Iterator[Metric]:
    """Nothing before there is a ledger; no account of a ledger that is not intact, and without its
    key nothing of that.
    """
    if intact is not None:
        yield _gauge(
            "dpicl_ledger_intact",
            "1 if every record of the ledger was checked and fits, else 0.",
            [],
            {(): intact},
        )
    elif not accounts:
        return
    by_state = {
        (account.name, state): count
        for account in accounts
        for state, count in account.releases.items()
    }
    yield _gauge(
        "dpicl_releases",
        "Releases that are charged, by whether they are published.",
        ["account", "state"],
        by_state,
    )
    for name, fact, meaning in (
        ("epsilon_spent", "spent", "Epsilon that an account has spent, in nats."),
        ("epsilon_cap", "cap", "Epsilon that an account may spend; none for a benchmark."),
        ("epsilon_left", "left", "Epsilon that an account has left."),
        ("delta_spent", "delta", "Delta at which the spent epsilon holds."),
        ("delta_cap", "delta_cap", "Delta that an account may spend."),
    ):
        values = {(account.name,): getattr(account, fact) for account in accounts}
        known = {key: twelve_digits(value) for key, value in values.items() if value is not None}
        yield _gauge(f"dpicl_{name}", meaning, ["account"], known)


def registry_of(settings: Settings) -> CollectorRegistry:
    """A registry with nothing but this installation's metrics."""
    registry = CollectorRegistry()
    registry.register(RunsAndBudgets(settings))
    return registry


def print_metrics(settings: Settings) -> None:
    """The metrics once, in the text format of Prometheus."""
    sys.stdout.write(generate_latest(registry_of(settings)).decode())


def serve_metrics(settings: Settings, host: str, port: int, console: Console) -> None:
    """Answer scrapes until interrupted.

    Raises:
        RunError: nothing can listen there.
    """
    registry = registry_of(settings)
    # the first reading of many finished runs may take longer than a scraper waits
    generate_latest(registry)
    try:
        server, answering = start_http_server(port, host, registry)
    except OSError as error:
        raise RunError(
            f"metrics cannot be served at {host[:60]} port {port}: {error.strerror}"
        ) from None
    console.print(
        f"metrics at http://{host}:{server.server_port}/metrics", highlight=False, soft_wrap=True
    )
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.shutdown()
        answering.join()
