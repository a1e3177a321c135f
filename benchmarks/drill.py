"""The night in which everything fails: scheduled runs while every part of an installation is killed in turn.

    python -m benchmarks.drill --runs 24 --minutes 20     (make drill)

Real parts: PostgreSQL under ledger and Prefect server, a Dask scheduler with two workers, an endpoint that fails one
request in ten, `dpicl serve`. Every half minute one of them, or a flow's own process once there is one, is killed. At the end every
run must be complete and equal to one that was left alone, the ledger exact, and nothing may still be said to run.
Then, on an installation of its own: a ledger restored from an old backup must be noticed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
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

from benchmarks.figures import Figures
from benchmarks.site import Site, running_site
from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.ledger import Ledger
from tests.flows.test_interrupted import outcome
from tests.harness import DPICL, Place, differences, install, new_place, shop, shop_rows
from tests.ledger.postgres import programs

CAP = 10
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
MODELS = {"faulty": {"kind": "endpoint", "id": "m", "url": "", "max_connections": 4}, "tiny": {"kind": "tiny"}, "fake": {"kind": "fake"}}
VICTIMS = ("flow", "worker-0", "worker-1", "scheduler", "server", "postgres", "endpoint", "serve")
AFTERWARDS_SECONDS = 900
FLOW_WITHIN_SECONDS = 90


def prepare(place: Place) -> None:
    """Two private tables with caps."""
    for seed, name in enumerate(("till", "stock")):
        contract = shop(name, private=True)
        contract["privacy"]["budget"]["epsilon"] = CAP
        install(place, contract, shop_rows(400, seed))


@dataclass(frozen=True)
class Night:
    """What came of it."""

    states: Counter[str]
    kills: Counter[str]
    tries: Counter[int]
    differing: int
    seconds: float


def quiet(site: Site) -> dict[str, dict[str, bytes]]:
    """Outcome of each pipeline, left alone."""
    found = {}
    for name in PIPELINES:
        command = [str(DPICL), "run", name, "--run-id", f"quiet-{name}"]
        subprocess.run(command, env=site.environment, check=True, capture_output=True, timeout=300, cwd=site.place.root)
        found[name] = result(site.place.run(f"quiet-{name}"))
    return found


def result(run: Path) -> dict[str, bytes]:
    """What a run gives: all but names, dates, times, charges, and how often a faulty server had to be asked."""
    return {name: data for name, data in outcome(run).items() if not ("/scored/" in name and name.endswith(".json"))}


def night(site: Site, runs: int, minutes: float, seed: int) -> Night:
    """Schedule the runs over the time, kill something every half minute, and wait until all have ended."""
    expected, began = quiet(site), time.monotonic()
    scheduled = _schedule(site, runs, minutes)
    kills, rng = Counter[str](), random.Random(seed)
    victims = _in_turn(rng)
    with tqdm(total=runs, unit="run") as bar:
        while time.monotonic() - began < 60 * minutes + AFTERWARDS_SECONDS:
            if time.monotonic() - began < 60 * minutes:
                kills[_kill(site, next(victims))] += 1
            time.sleep(30)
            states = _states(site, scheduled)
            bar.update(states["COMPLETED"] - bar.n)
            bar.set_postfix_str(", ".join(f"{name.lower()} {count}" for name, count in states.items()))
            if states["COMPLETED"] + states["FAILED"] == runs:
                break
    states = _states(site, scheduled)
    tries = Counter(site.ask(f"flow_runs/{identity}")["run_count"] for identity in scheduled)
    folders = [(name, _folder(site, identity)) for identity, name in scheduled.items()]
    found = [[("all of it", b"", b"")] if folder is None else differences(result(folder), expected[name]) for name, folder in folders]
    differing = sum(one != [] for one in found)
    print({name for one in found for name, *_ in one} or "every run equals the quiet one")
    return Night(states, kills, tries, differing, time.monotonic() - began)


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
        scheduled[str(site.ask(f"deployments/{known[name]}/create_flow_run", {"state": state})["id"])] = name
    return scheduled


def _kill(site: Site, victim: str) -> str:
    """SIGKILL one part, or all processes of runs under way; a run is waited for until the next but one is due."""
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
        found = site.ask("flow_runs/filter", {"flow_runs": {"id": {"any_": list(scheduled)}}, "limit": 200})
    except OSError:
        return Counter()
    return Counter(run["state_type"] for run in found)


def _folder(site: Site, flow_run: str) -> Path | None:
    return next((path.parent for path in (site.place.home / "runs").glob(f"*-{flow_run.replace('-', '')[-12:]}/results.csv")), None)


def ledger_facts(site: Site) -> tuple[dict[str, float], int, int]:
    """Spent by account, entries in all, and drafts that nobody will publish."""
    key = (site.place.home / "keys" / "ledger.key").read_bytes()
    with Ledger.open(site.environment["DPICL_LEDGER"], key, site.place.home / "ledger.anchor.json") as ledger:
        ledger.verify()
        spent = {account.name: ledger.spent(account.name).epsilon for account in ledger.accounts()}
        entries = sum(len(ledger.entries(name)) for name in spent)
    drafts = sum(1 for _ in (site.place.home / "released").rglob("*.draft"))
    return spent, entries, drafts


def restored(place: Place) -> bool:
    """Whether a release is refused after the ledger's file was put back to an earlier day."""
    prepare(place)
    database, backup = place.home / "ledger.db", place.root / "backup.db"
    told = place.dpicl("protect", "till", "--epsilon", "1", "--shots", "2", "--out", str(place.root / "1.jsonl"))
    shutil.copyfile(database, backup)
    assert told.returncode == 0 and place.dpicl("protect", "till", "--epsilon", "2", "--out", str(place.root / "2.jsonl")).returncode == 0
    shutil.copyfile(backup, database)
    told = place.dpicl("protect", "till", "--epsilon", "3", "--out", str(place.root / "3.jsonl"))
    print(f"an old backup in place of the ledger: exit code {told.returncode}, {told.stderr.strip()}")
    return told.returncode == 2 and "rolled back" in told.stderr


def main() -> None:
    """Print what happened, then the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drill", description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if programs() is None:
        parser.error("there are no programs of a PostgreSQL server here; install Debian's package postgresql")
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="dpicl-drill-") as folder:
        with running_site(Path(folder) / "site", PIPELINES, MODELS, prepare) as site:
            came = night(site, asked.runs, asked.minutes, asked.seed)
            zombies = len(site.ask("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}))
            spent, entries, drafts = ledger_facts(site)
            starts = {name: part.starts for name, part in site.parts.items()}
        noticed = restored(new_place(Path(folder) / "restored"))
    print(f"{came.seconds / 60:.1f} min, killed: {dict(came.kills)}, starts: {starts}, tries of a run: {dict(came.tries)}")
    figures.exactly("runs-completed", came.states["COMPLETED"], asked.runs)
    figures.exactly("runs-differing-from-a-quiet-one", came.differing, 0)
    figures.exactly("releases-charged", entries, 4)
    rate = Fraction(1, 2)  # of the contract's subsample
    wanted = {"stock": amplified_epsilon(EPSILON["local"], rate), "till": amplified_epsilon(EPSILON["served"], rate)}
    figures.exactly(
        "epsilon-spent", {name: round(value, 6) for name, value in spent.items()}, {k: round(2 * v, 6) for k, v in wanted.items()}
    )
    figures.exactly("drafts-left", drafts, 0)
    figures.exactly("runs-left-running", zombies, 0)
    figures.exactly("old-backup-noticed", noticed, True)
    figures.finish()


if __name__ == "__main__":
    main()
