"""The night in which everything fails: scheduled runs while every part of an installation is killed
in turn.

    python -m lab.benchmarks.installation.drill --runs 24 --minutes 20     (make drill)

Real parts: PostgreSQL under ledger and Prefect server, a Dask scheduler with two workers, an
endpoint that fails one request in ten, `dpicl serve`. Every half minute one of them, or a flow's
own process once there is one, is killed, and six times a night the private rows change, so that
releases are charged all night long. At the end every run must be complete, every version of the
rows charged once, and nothing may still be said to run. Then every version is run again, left
alone: this must be free, and equal. Last, the ledger's database is restored from an old backup,
which must be noticed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.ledger import Ledger
from lab.benchmarks.figures import Figures
from lab.benchmarks.installation.site import Site, running_site
from tests.flows.test_interrupted import outcome
from tests.harness import DPICL, Place, differences, install, shop, shop_rows
from tests.ledger.postgres import programs

CAP = 40
VERSIONS = 6
"""Of the private rows, in a night."""
EPSILON = {"served": 1, "local": 2}
_GRID = {"methods": ["gdp_tabicl"], "shots": [2, 4], "seeds": [0], "baselines": False}
PIPELINES: dict[str, Any] = {
    "served": {
        "title": "A private table, asked of a server",
        "datasets": ["till"],
        "epsilons": [EPSILON["served"]],
        "model": "faulty",
        **_GRID,
    },
    "local": {
        "title": "Another one, asked of a local model",
        "datasets": ["stock"],
        "epsilons": [EPSILON["local"]],
        "model": "tiny",
        **_GRID,
    },
}
MODELS = {
    "faulty": {"kind": "endpoint", "id": "m", "url": "", "max_connections": 4},
    "tiny": {"kind": "tiny"},
    "fake": {"kind": "fake"},
}
ACCOUNTS = ("till", "stock")
"""Private tables of the pipelines, in their order."""
SHOTS_A_RUN = 2
"""Numbers of shots, each of them a release."""
VICTIMS = ("flow", "worker-0", "worker-1", "scheduler", "server", "postgres", "endpoint", "serve")
AFTERWARDS_SECONDS = 900
FLOW_WITHIN_SECONDS = 90


def prepare(place: Place) -> None:
    """Two private tables with caps."""
    for name in ACCOUNTS:
        contract = shop(name, private=True)
        contract["privacy"]["budget"]["epsilon"] = CAP
        install(place, contract, "")
    bring(place, 0)


def bring(place: Place, version: int) -> None:
    """Put this version of the rows into both tables' place, at once."""
    for seed, name in enumerate(ACCOUNTS):
        draft = place.root / "data" / f"{name}.new"
        draft.write_text(shop_rows(400, 10 * version + seed))
        os.replace(draft, place.root / "data" / f"{name}.csv")


@dataclass(frozen=True)
class Night:
    """What came of it; pipelines by flow run."""

    scheduled: dict[str, str]
    states: Counter[str]
    kills: Counter[str]
    tries: Counter[int]
    seconds: float


@dataclass(frozen=True)
class Morning:
    """Of each run the version that its files equal, None if there is none; and what the quiet runs
    were charged.
    """

    versions: list[tuple[str, int | None]]
    charged: int

    def seen(self, pipeline: str) -> set[int]:
        """Versions of the rows that a pipeline's runs met."""
        return {
            version for name, version in self.versions if name == pipeline and version is not None
        }


def morning(site: Site, came: Night) -> Morning:
    """Run every version again, left alone, and hold the night's runs against it."""
    before, expected = ledger_facts(site)[1], dict[tuple[str, int], dict[str, bytes]]()
    for version in tqdm(range(VERSIONS), unit="version", desc="quiet runs"):
        bring(site.place, version)
        for name in PIPELINES:
            told = dpicl(site, "run", name, "--run-id", f"quiet-{name}-{version}")
            assert told.returncode == 0, told.stderr
            expected[name, version] = result(site.place.run(f"quiet-{name}-{version}"))
    versions = list[tuple[str, int | None]]()
    for identity, name in came.scheduled.items():
        folder = _folder(site, identity)
        gave = {} if folder is None else result(folder)
        versions.append(
            (
                name,
                next(
                    (one for one in range(VERSIONS) if not differences(gave, expected[name, one])),
                    None,
                ),
            )
        )
    unseen = sum(
        SHOTS_A_RUN for name in PIPELINES for one in range(VERSIONS) if (name, one) not in versions
    )
    return Morning(versions, ledger_facts(site)[1] - before - unseen)


def dpicl(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line on this installation."""
    command = [str(DPICL), *arguments]
    return subprocess.run(
        command,
        check=False,
        env=site.environment,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=site.place.root,
    )


def result(run: Path) -> dict[str, bytes]:
    """What a run gives: all but names, dates, times, charges, and how often a faulty server had to
    be asked.
    """
    return {
        name: data
        for name, data in outcome(run).items()
        if not ("/scored/" in name and name.endswith(".json"))
    }


def night(site: Site, runs: int, minutes: float, seed: int) -> Night:
    """Schedule the runs over the time, kill something every half minute, and wait until all have
    ended.
    """
    began, version = time.monotonic(), 0
    scheduled = _schedule(site, runs, minutes)
    kills, victims = Counter[str](), _in_turn(random.Random(seed))
    with tqdm(total=runs, unit="run") as bar:
        while (passed := time.monotonic() - began) < 60 * minutes + AFTERWARDS_SECONDS:
            if passed < 60 * minutes:
                if (due := int(VERSIONS * passed / (60 * minutes))) > version:
                    bring(site.place, version := due)
                kills[_kill(site, next(victims))] += 1
            time.sleep(30)
            states = _states(site, scheduled)
            bar.update(states["COMPLETED"] - bar.n)
            bar.set_postfix_str(
                ", ".join(f"{name.lower()} {count}" for name, count in states.items())
            )
            if states["COMPLETED"] + states["FAILED"] == runs:
                break
    tries = Counter(site.ask(f"flow_runs/{identity}")["run_count"] for identity in scheduled)
    return Night(scheduled, _states(site, scheduled), kills, tries, time.monotonic() - began)


def _in_turn(rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(VICTIMS, len(VICTIMS))


def _schedule(site: Site, runs: int, minutes: float) -> dict[str, str]:
    """Flow runs of the deployments, evenly spread; gives pipelines by flow run."""
    known = {found["name"]: found["id"] for found in site.ask("deployments/filter", {})}
    scheduled = {}
    for number in range(runs):
        name = list(PIPELINES)[number % len(PIPELINES)]
        due = datetime.now(UTC) + timedelta(seconds=60 * minutes * number / runs)
        state = {"type": "SCHEDULED", "state_details": {"scheduled_time": due.isoformat()}}
        scheduled[
            str(site.ask(f"deployments/{known[name]}/create_flow_run", {"state": state})["id"])
        ] = name
    return scheduled


def _kill(site: Site, victim: str) -> str:
    """SIGKILL one part, or all processes of runs under way; a run is waited for until the next but
    one is due.
    """
    if victim != "flow":
        site.parts[victim].kill()
        return victim
    until_then = time.monotonic() + FLOW_WITHIN_SECONDS
    while not (found := site.flow_processes()) and time.monotonic() < until_then:
        time.sleep(0.5)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return victim if found else "flow (none was there)"


def _states(site: Site, scheduled: dict[str, str]) -> Counter[str]:
    try:
        found = site.ask(
            "flow_runs/filter", {"flow_runs": {"id": {"any_": list(scheduled)}}, "limit": 200}
        )
    except OSError:
        return Counter()
    return Counter(run["state_type"] for run in found)


def _folder(site: Site, flow_run: str) -> Path | None:
    return next(
        (
            path.parent
            for path in (site.place.home / "runs").glob(
                f"*-{flow_run.replace('-', '')[-12:]}/results.csv"
            )
        ),
        None,
    )


def ledger_facts(site: Site) -> tuple[dict[str, float], int, int]:
    """Spent by account, entries in all, and drafts that nobody will publish."""
    key = (site.place.home / "keys" / "ledger.key").read_bytes()
    with Ledger.open(
        site.environment["DPICL_LEDGER"], key, site.place.home / "ledger.anchor.json"
    ) as ledger:
        ledger.verify()
        spent = {account.name: ledger.spent(account.name).epsilon for account in ledger.accounts()}
        entries = sum(len(ledger.entries(name)) for name in spent)
    drafts = sum(1 for _ in (site.place.home / "released").rglob("*.draft"))
    return spent, entries, drafts


def restored(site: Site) -> bool:
    """Whether a release is refused after the ledger's database was put back to an earlier hour."""
    folder, backup = programs(), site.place.root / "ledger.dump"
    assert folder is not None
    subprocess.run(
        [folder / "pg_dump", "--format=custom", f"--file={backup}", site.ledger_url], check=True
    )
    told = dpicl(
        site,
        "protect",
        "till",
        "--epsilon",
        "1",
        "--shots",
        "8",
        "--out",
        str(site.place.root / "1.jsonl"),
    )
    assert told.returncode == 0, told.stderr
    subprocess.run(
        [folder / "pg_restore", "--clean", f"--dbname={site.ledger_url}", backup], check=True
    )
    told = dpicl(
        site, "protect", "till", "--epsilon", "2", "--out", str(site.place.root / "2.jsonl")
    )
    print(
        f"an old backup in place of the ledger: exit code {told.returncode}, {told.stderr.strip()}"
    )
    return told.returncode == 2 and "rolled back" in told.stderr


def main() -> None:
    """Print what happened, then the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.installation.drill", description=__doc__
    )
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if programs() is None:
        parser.error(
            "there are no programs of a PostgreSQL server here; install Debian's package postgresql"
        )
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="dpicl-drill-") as folder,
        running_site(Path(folder) / "site", PIPELINES, MODELS, prepare) as site,
    ):
        came = night(site, asked.runs, asked.minutes, asked.seed)
        zombies = len(
            site.ask(
                "flow_runs/filter",
                {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}},
            )
        )
        spent, entries, drafts = ledger_facts(site)
        starts = {name: part.starts for name, part in site.parts.items()}
        found = morning(site, came)
        noticed = restored(site)
    print(
        f"{came.seconds / 60:.1f} min, killed: {dict(came.kills)}, starts: {starts}, tries of a "
        f"run: {dict(came.tries)}"
    )
    met = {name: found.seen(name) for name in PIPELINES}
    print(f"versions of the rows that runs met: {met}")
    figures.exactly("runs-completed", came.states["COMPLETED"], asked.runs)
    figures.exactly(
        "runs-differing-from-a-quiet-one", sum(version is None for _, version in found.versions), 0
    )
    figures.exactly(
        "releases-charged", entries, sum(SHOTS_A_RUN * len(versions) for versions in met.values())
    )
    figures.exactly("charged-for-the-same-rows-again", found.charged, 0)
    figures.exactly(
        "epsilon-spent", {name: round(value, 6) for name, value in spent.items()}, _wanted(met)
    )
    figures.exactly("drafts-left", drafts, 0)
    figures.exactly("runs-left-running", zombies, 0)
    figures.exactly("old-backup-noticed", noticed, True)
    figures.finish()


def _wanted(met: dict[str, set[int]]) -> dict[str, float]:
    """Epsilon by account: every version of the rows once for each number of shots, amplified by the
    contract's subsample.
    """
    one = {name: amplified_epsilon(EPSILON[name], Fraction(1, 2)) for name in PIPELINES}
    return {
        account: round(SHOTS_A_RUN * len(met[name]) * one[name], 6)
        for account, name in sorted(zip(ACCOUNTS, PIPELINES, strict=True))
    }


if __name__ == "__main__":
    main()
