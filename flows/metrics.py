"""Metrics of runs and budgets for Prometheus: `dpicl metrics`.

Every scrape reads run folders and ledger anew, so that nothing is lost when this process ends.
Labels are names only: of pipelines, runs, data sets, methods, stages and accounts.
"""

from __future__ import annotations

import math
import platform
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
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
from dpicl.cli.facts import TOKENS, AccountFacts, LedgerReader, RunFacts, RunReader
from dpicl.ground.errors import DpiclError, RunError
from dpicl.home.settings import Settings
from dpicl.release.pipelines import load_pipelines

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
            pipelines = load_pipelines(self._settings.pipelines).pipelines
            intervals = {
                (name,): longest_gap(pipeline.schedule.cron)
                for name, pipeline in pipelines.items()
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
        known = {key: value for key, value in values.items() if value is not None}
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
