"""Peers side by side in one run: `make peers`, then `make bench TOPIC=peers`.

A run goes on where it stopped: results are JSON lines in `.dpicl/peers`, or in the folder that
DPICL_PEERS_RUN names. One fit has a limit of processor time; two run at once. DPICL_PEERS_SEEDS
says how many seeds, DPICL_PEERS_PYTHON which interpreter has the peers' packages, DPICL_PRIVATE_PGM
where private-pgm lies. `python -m lab.benchmarks.peers tables` measures nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from lab.audit.others.worker import Worker
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.peers.list_of_systems import EPSILONS, SEEDS, SYSTEMS, System
from lab.benchmarks.peers.list_of_tables import CONTRACTS, TABLES, write_table
from lab.benchmarks.peers.report import Result, report

RUN = Path(os.environ.get("DPICL_PEERS_RUN", sized(".dpicl/peers", ".dpicl/peers-smoke")))
RESULTS = RUN / "results.jsonl"
PYTHON = ".venv-peers/bin/python"
Key = tuple[str, str, float, int]


class Run:
    """What is to be done, and what has been."""

    def __init__(self) -> None:
        (RUN / "tables").mkdir(parents=True, exist_ok=True)
        self.lock = threading.Lock()
        self.absent = set[str]()
        self.queues: dict[bool, Queue[tuple[System, dict[str, Any]]]] = {
            slow: Queue() for slow in (False, True)
        }
        known = {
            (result["system"], result["table"], result["epsilon"], result["seed"])
            for result in read_results()
        }
        seeds = int(os.environ.get("DPICL_PEERS_SEEDS", SEEDS))
        for system, table, epsilon, seed in _grid(seeds):
            if (system.name, table, epsilon, seed) not in known:
                self.queues[system.slow].put(
                    (
                        system,
                        {"system": system.name, "table": table, "epsilon": epsilon, "seed": seed},
                    )
                )

    def measure(self) -> None:
        """All that is to be done, in two processes: one begins with what is slow."""
        lanes = [
            threading.Thread(target=self._lane, args=(slow,), daemon=True) for slow in (False, True)
        ]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    def _lane(self, slow: bool) -> None:
        peers = os.environ.get("DPICL_PEERS_PYTHON", PYTHON)
        workers = {
            peer: Worker((python, "-W", "ignore", "-m", "lab.benchmarks.peers.worker"))
            for peer, python in ((False, sys.executable), (True, peers))
        }
        try:
            for queue in (self.queues[slow], self.queues[not slow]):
                with contextlib.suppress(Empty):
                    while True:
                        system, job = queue.get_nowait()
                        self._done(system, job, workers[system.peers])
        finally:
            for worker in workers.values():
                worker.close()

    def _done(self, system: System, job: dict[str, Any], worker: Worker) -> None:
        if system.name in self.absent:
            return
        path = RUN / "tables" / f"{job['table']}-{job['seed']}.npz"
        with self.lock:
            if not path.exists():
                write_table(path, job["table"], job["seed"])
        try:
            asked = {**job, "path": str(path), "contract": job["table"] in CONTRACTS}
            found = worker.ask(asked) or {"missing": "died"}
        except FileNotFoundError as error:
            found = {"absent": str(error)}
        with self.lock:
            if "absent" in found:
                if system.name not in self.absent:
                    print(f"missing: {system.title}: {found['absent']}", flush=True)
                self.absent.add(system.name)
                return
            with RESULTS.open("a") as file:
                print(json.dumps({**job, **found}), file=file, flush=True)


def _grid(seeds: int) -> Iterator[tuple[System, str, float, int]]:
    """One seed of everything before the next."""
    for seed in range(seeds):
        for system in (one for one in SYSTEMS if not one.absent):
            for table in TABLES:
                for epsilon in EPSILONS:
                    yield system, table, epsilon, seed


def read_results() -> list[Result]:
    """Of this run until now; a line that a kill cut off is done again."""
    results = []
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        try:
            results.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return results


def fits(figures: Figures) -> None:
    """What is left of the run, if the peers are here."""
    python = os.environ.get("DPICL_PEERS_PYTHON", PYTHON)
    if not Path(python).exists():
        print(f"no peers are installed at {python}: nothing is fitted; expected `make peers`")
        return
    Run().measure()


def tables(figures: Figures) -> None:
    """What was found until now."""
    if not (results := read_results()):
        print("no fit is there to report")
        return
    report(results, figures)


PARTS = (fits, tables)

if __name__ == "__main__":
    bench(PARTS)
