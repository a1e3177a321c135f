"""What running dpicl costs: starting, watching, scaling out, and a night in which everything fails.

    python -m lab.benchmarks.operations [STEP …]

drill       lab.benchmarks.installation.drill in a process of its own: what `make drill` prints
speed_up    table-3 on two data sets, one worker against two
simulated   2, 4, 8, 16 workers whose model is a server that takes its time: efficiency against two
overhead    seconds of a unit of work besides reading, scoring and fitting, against what a real
            model takes for it
new_user    lab.benchmarks.installation.new_user: from a clone to demonstrations of one's own table
pages       from starting a Prefect server, cold, and a run to what its pages first show of the run
memory      of server, scheduler and worker while work is under way
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import yaml

from lab.benchmarks.endpoint import elsewhere
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.installation.new_user import new_user
from tests.harness import DPICL, Place, World, new_place, running_server, until
from tests.ledger.postgres import programs
from tests.library.endpoint_server import Habits

WORKERS = sized((2, 4, 8, 16), (1, 2))
PAPER_SECONDS = 0.77
"""Of one prompt on the paper's card; a simulated server takes as long."""
QUERIES, UNITS, MANY_UNITS = 40, sized(24, 2), sized(1000, 4)
"""Prompts of a unit of one cell are twice as many, since zero-shot is asked too."""
BOTH_ENDS = {"handed in": "prompts.parquet", "finished": "results.json"}
SLEEPY = {"queries": 5, "epsilons": [1, 2, 5, 10, 25, 50], "seeds": list(range(sized(48, 2)))}
"""Of units that wait: three for each of the most workers, and none left over. A process remembers
answers, so that every worker asks the one zero-shot cell of all units, but once.
"""


def run_in(place: Place, *arguments: str, **extra: str) -> float:
    """Wall seconds of a command that ends well."""
    started = time.perf_counter()
    told = place.dpicl("", *arguments, timeout=3600, file_limit=None, **extra)
    assert told.returncode == 0, told.stderr
    return time.perf_counter() - started


def drill(figures: Figures) -> None:
    """The night, its figures taken over."""
    if programs() is None:
        print("there are no programs of a PostgreSQL server here: no night is drilled")
        return
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.installation.drill",
        *sized((), ("--runs", "2", "--minutes", "0.2")),
    ]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    print(told)
    found = re.findall(r"^figure (\S+): (.*) \(goal (.*)\) (ok|short)$", told, re.MULTILINE)
    assert found, "the drill printed no figure"
    figures.lines += [
        (f"drill-{name}", value, goal, verdict == "ok") for name, value, goal, verdict in found
    ]


def speed_up(figures: Figures) -> None:
    """Steady state: orchestrator and workers are up before the clock starts; the model in the box,
    since one of random weights takes no time.
    """
    seconds = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "lab.benchmarks.speed.steady", str(workers), "bundled"]
            told = subprocess.run(
                command,
                env={**os.environ, "DPICL_HOME": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            seconds[workers] = float(told.stdout.split()[-1])
    print(
        f"table-3, blood and heart, two seeds: {seconds[1]:.1f} s on one worker, {seconds[2]:.1f} "
        f"s on two"
    )
    print(
        f"two processes that only multiply matrices: {of_two_processes():.2f} times as fast as "
        f"one on this machine"
    )
    figures.at_least("speed-up-of-two-workers", seconds[1] / seconds[2], 1.7, "x")


def of_two_processes() -> float:
    """What the machine itself allows, without orchestrator or workers."""
    with multiprocessing.Pool(2) as pool:
        pool.map(multiplied, (0, 0), chunksize=1)
        alone = min(pool.map(multiplied, (0,))[0] for _ in range(5))
        beside = min(max(pool.map(multiplied, (0, 0), chunksize=1)) for _ in range(5))
    return 2 * alone / beside


def multiplied(_: int) -> float:
    """Seconds of a fixed number of products on one thread."""
    torch.set_num_threads(1)
    matrix, began = torch.ones(512, 512), time.perf_counter()
    for _ in range(150):
        matrix = torch.tanh(matrix @ matrix * 0.01)
    return time.perf_counter() - began


def simulated(figures: Figures) -> None:
    """Only waiting is shared out, so that more workers than cores mean something; starting so many
    on two cores, and a first unit, are taken off.
    """
    with (
        elsewhere(Habits(delay_seconds=sized(PAPER_SECONDS, 0.05))) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        place = slow_place(Path(folder) / "place", url, SLEEPY)
        whole, first = (
            {
                count: run_in(
                    place,
                    "run",
                    "sleepy",
                    "--run-id",
                    f"{name}{count}",
                    "--workers",
                    str(count),
                    *few,
                )
                for count in WORKERS
            }
            for name, few in (("w", ()), ("first", ("--seeds", "0")))
        )
    shared = {count: whole[count] - first[count] for count in WORKERS}
    for count in WORKERS:
        print(
            f"{count} workers: {whole[count]:.1f} s, the first seed alone {first[count]:.1f} s; "
            f"the other seeds took {shared[count]:.1f} s"
        )
    for count in WORKERS[1:]:
        share = shared[2] * 2 / (shared[count] * count)
        figures.at_least(f"efficiency-of-{count}-simulated-workers", share, 0.8)


def slow_place(root: Path, url: str, changes: Mapping[str, Any]) -> Place:
    """A place with a model that takes its time, one answer after the other; `changes` to its
    pipeline of units of one cell.
    """
    place = new_place(root)
    content: dict[str, Any] = yaml.safe_load((root / "pipelines.yaml").read_text())
    content["models"]["slow"] = {"kind": "endpoint", "id": "m", "url": url, "max_connections": 1}
    content["pipelines"]["sleepy"] = {
        "title": "Units that mostly wait",
        "methods": ["gdp_tabicl"],
        "datasets": ["breast_cancer"],
        "epsilons": [1],
        "shots": [2],
        "seeds": list(range(UNITS)),
        "queries": QUERIES,
        "baselines": False,
        "model": "slow",
        **changes,
    }
    (root / "pipelines.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return place


def overhead(figures: Figures) -> None:
    """Many units with a model that costs nothing: all that is left is ours and the
    orchestrator's.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = slow_place(Path(folder) / "place", "http://127.0.0.1:9/v1", {})
        grid = ("--model", "fake", "--run-id")
        few = run_in(place, "run", "sleepy", *grid, "few", "--seeds", "0,1")
        many = run_in(
            place, "run", "sleepy", *grid, "many", "--seeds", ",".join(map(str, range(MANY_UNITS)))
        )
        tenths = {
            name: tenths_of(place.run("many").glob(f"units/*/{file}"))
            for name, file in BOTH_ENDS.items()
        }
        share = (many - few) / (MANY_UNITS - 2)
    print(
        f"a unit costs {share:.2f} s besides its model; {MANY_UNITS} units {many:.0f} s, so "
        f"10,000 units {10_000 * share / 3600:.1f} h"
    )
    for name, taken in tenths.items():
        print(
            f"seconds in which each tenth of the units was {name}: "
            f"{' '.join(f'{tenth:.0f}' for tenth in taken)}"
        )
    figures.at_most(
        "overhead-of-a-unit-against-the-paper's-model",
        100 * share / (2 * QUERIES * PAPER_SECONDS),
        5,
        " %",
    )


def tenths_of(files: Iterable[Path]) -> list[float]:
    """Seconds that each tenth of the files took to appear: whether a long run grows slower."""
    return [
        float(np.ptp(part))
        for part in np.array_split(np.sort([file.stat().st_mtime for file in files]), 10)
        if part.size
    ]


@contextmanager
def running_demo(place: Place, **extra: str) -> Iterator[subprocess.Popen[str]]:
    """A run with workers of its own, and a server too unless it is told of one."""
    line = "run demo --model fake --run-id start"
    process = place.start(line, file_limit=None, **extra)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def pages(figures: Figures) -> None:
    """A new place, nothing running: what one waits who starts a server to watch, then a run; asked
    for as the pages ask.
    """
    with tempfile.TemporaryDirectory() as folder:
        place, began = new_place(Path(folder) / "place"), time.perf_counter()
        with running_server(place) as url, running_demo(place, PREFECT_API_URL=f"{url}/api"):
            server = World(place.root, url, scheduler="")
            for row in ("task-run", "artifact"):
                path = f"{row.replace('-', '_')}s/filter"
                until(
                    partial(server.ask, path, {"limit": 1}),
                    300,
                    f"the first {row}",
                    every=0.1,
                )
                figures.at_most(
                    f"seconds-from-cold-to-first-{row}-on-the-pages",
                    time.perf_counter() - began,
                    60,
                    " s",
                )


def memory(figures: Figures) -> None:
    """What the processes of a run hold once its first prompts are scored."""
    with tempfile.TemporaryDirectory() as folder:
        place = new_place(Path(folder) / "place")
        with running_demo(place) as process:
            until(
                lambda: list(place.run("start").glob("units/*/scored/*.npz")),
                300,
                "the first scores",
                every=0.05,
            )
            for name, size in memory_of(psutil.Process(process.pid)).items():
                figures.at_most(f"memory-of-{name}", size / 2**20, 1024, " MiB")


def memory_of(process: psutil.Process) -> dict[str, int]:
    """Proportional set size of flow, server and the largest worker, in bytes."""
    sizes = {"flow-and-scheduler": process.memory_full_info().pss}
    for child in process.children(recursive=True):
        try:
            name = (
                "server"
                if "uvicorn" in child.cmdline()
                else "worker"
                if any("fork" in word for word in child.cmdline())
                else ""
            )
            if name:
                sizes[name] = max(sizes.get(name, 0), child.memory_full_info().pss)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return sizes


PARTS = (pages, memory, overhead, speed_up, simulated, new_user, drill)

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn", force=True)
    assert DPICL.exists()
    bench(PARTS)
