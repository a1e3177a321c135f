"""The crash matrix: SIGKILL at every step of the release protocol, times random schedules, on
threads and on Dask.

threads    twins are threads of one process, which dies as a whole; a fresh one goes on
Dask       twins are tasks of a real cluster, whose workers die; it resubmits them, and where it
           gives up a task is handed in again
ledger     SQLite for all schedules; some of them once more on PostgreSQL

`make chaos SCHEDULES=100` runs that many schedules for every step, and prints where the kills were.
Verdicts are kept in `.dpicl/chaos/`: a matrix that takes hours goes on where it was interrupted, as
long as the code is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import logging
import multiprocessing
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.ground.errors import LedgerError
from dpicl.ledger import Ledger
from flows.runtime import LOCAL_CLUSTER
from lab.benchmarks.crash.schedules import Rig, Scene, Schedule, Verdict, draw_schedules, rig
from lab.benchmarks.crash.steps import STEPS, in_threads, on_worker
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.fork_server import own_fork_server
from tests.harness import until
from tests.ledger.postgres import Server, programs, running_postgres

SIDE_BY_SIDE = 3
KEPT = Path(".dpicl/chaos")
_PATIENCE = 30
MODES = ("threads", "Dask")
DEATHS = sized(STEPS, STEPS[:2])
Mutation = Callable[[], None] | None
Runner = Callable[[Scene, Mutation], Verdict]
_starting = threading.Lock()
"""A thread that starts a process asks after all others, and would take an exit code from the thread
that waits for it.
"""


@contextmanager
def forks() -> Iterator[None]:
    """Children are forked from a process that has imported all they need; workers of a cluster
    too.
    """
    import dask

    warm = own_fork_server(["lab.benchmarks.crash.warm", "flows.runtime", "tests.ledger.postgres"])
    with warm, dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


def in_one_process(scene: Scene, mutate: Mutation = None) -> Verdict:
    """Start the twins until they end, the rescuers after the first death; observe after every
    death.
    """
    working, runs, unpublished, code = (
        scene.schedule.twins,
        set(scene.schedule.twins),
        0,
        -signal.SIGKILL,
    )
    for _ in range(len(scene.schedule.deaths) + 1):
        code = _one_process(scene, working, mutate)
        if code != -signal.SIGKILL:
            break
        with suppress(LedgerError):  # the verdict will say so
            unpublished += scene.observe()[1]
        working = scene.schedule.rescuers
        runs = set(working)
    if code:
        scene.note(f"the last process ended with {code}")
    return scene.judge(runs, unpublished, failed=int(code != 0))


def _one_process(scene: Scene, runs: tuple[str, ...], mutate: Mutation) -> int:
    arguments = (scene.root, scene.environment, [scene.twin(run) for run in runs], mutate)
    process = multiprocessing.get_context("forkserver").Process(target=in_threads, args=arguments)
    with _starting:
        process.start()
        multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
    process.join(120)
    assert process.exitcode is not None, "the stages hang"
    return process.exitcode


def on_cluster(client: Any, scene: Scene, mutate: Mutation = None) -> Verdict:
    """Hand in the twins, again those that the cluster gives up; then those rescuers that did not
    work yet.
    """
    late = tuple(run for run in scene.schedule.rescuers if run not in scene.schedule.twins)
    failed = sum(_handed_in(client, scene, runs, mutate) for runs in (scene.schedule.twins, late))
    pids = [int(name.split(".")[1]) for name in scene.names("kills")]
    until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids),
        30,
        "killed workers to be gone",
    )
    return scene.judge({*scene.schedule.twins, *late}, failed=failed)


def _handed_in(client: Any, scene: Scene, runs: tuple[str, ...], mutate: Mutation) -> int:
    """How many twins never ended; deaths of other schedules on the same workers count against a
    task too.
    """
    from distributed import KilledWorker

    waiting = list(runs)
    for _ in range(_PATIENCE):
        futures = [
            client.submit(
                on_worker, scene.root, scene.environment, scene.twin(run), mutate, pure=False
            )
            for run in waiting
        ]
        ends = [future.exception(timeout=120) for future in futures]
        waiting = [
            run for run, end in zip(waiting, ends, strict=True) if isinstance(end, KilledWorker)
        ]
        failed = [end for end in ends if end is not None and not isinstance(end, KilledWorker)]
        for end in failed:
            scene.note(f"a task ended with {type(end).__name__}: {end}")
        if failed or not waiting:
            return len(failed)
    scene.note(f"{len(waiting)} tasks were given up {_PATIENCE} times")
    return len(waiting)


@contextmanager
def cluster_runner(made: Rig, workers: int = 4) -> Iterator[Runner]:
    """A cluster whose workers come back; a task is given up after it lost its second worker."""
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of every death
    patient = {
        "temporary-directory": str(made.place.root / "dask"),
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    # models have nothing to do here
    options = {
        **LOCAL_CLUSTER,
        "preload": [],
        "silence_logs": logging.CRITICAL,
    }
    with (
        dask.config.set(patient),
        LocalCluster(n_workers=workers, env=made.place.environment, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.scheduler.allowed_failures = 1
        yield partial(on_cluster, client)


class Journal:
    """Verdicts of one column of the matrix, one a line; none are kept where there is no file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._lock, self.known = path, threading.Lock(), dict[str, Verdict]()
        if path and path.exists():
            whole = path.read_text().rpartition("\n")[0]
            path.write_text(whole + "\n" * bool(whole))  # a line without an end was cut off
            for line in whole.splitlines():
                name, stored = json.loads(line)
                counted = {field: Counter(stored[field]) for field in ("kills", "faults")}
                self.known[name] = Verdict(**{**stored, **counted})

    def keep(self, name: str, verdict: Verdict) -> None:
        """For the next run."""
        if self._path:
            with self._lock, self._path.open("a") as file:
                file.write(json.dumps([name, vars(verdict)]) + "\n")


def play(
    made: Rig,
    schedules: Iterable[Schedule],
    runner: Runner,
    *,
    mutate: Mutation = None,
    url: Callable[[], str] | None = None,
    journal: Journal | None = None,
) -> list[Verdict]:
    """The verdict on every schedule, a few at a time; each in a folder that is removed after it."""
    kept = journal or Journal()

    def one(schedule: Schedule) -> Verdict:
        if schedule.name in kept.known:
            return kept.known[schedule.name]
        root = Path(tempfile.mkdtemp(prefix=f"{schedule.name}-", dir=made.place.root))
        verdict = runner(made.start(schedule, root, url() if url else None), mutate)
        if verdict.harm:
            print(f"harm: {schedule}\n      {verdict}", flush=True)
        # a cluster may still repeat a task whose result it lost
        shutil.rmtree(root, ignore_errors=True)
        kept.keep(schedule.name, verdict)
        return verdict

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(one, schedules))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is such a place: a kill cannot tell, only a power cut
    could.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def copied_databases(server: Server, made: Rig) -> Callable[[], str]:
    """Gives the address of another database with an empty ledger at each call."""
    numbers, address = itertools.count(), server.url().rpartition("/")[0]
    server.execute("CREATE DATABASE made")
    with Ledger.open(f"{address}/made", bytes(32), made.place.root / "made.json"):
        pass

    def another() -> str:
        name = f"ledger_{next(numbers)}"
        server.execute(f"CREATE DATABASE {name} TEMPLATE made")
        return f"{address}/{name}"

    return another


def run_matrix(schedules: int, seed: int = 0) -> dict[str, list[Verdict]]:
    """Verdicts by mode and database."""
    KEPT.mkdir(parents=True, exist_ok=True)
    folders = ("lab", "dpicl", "flows", "tasks", "tests")
    sources = [
        Path("requirements.lock"),
        *sorted(path for folder in folders for path in Path(folder).rglob("*.py")),
    ]
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]
    verdicts: dict[str, list[Verdict]] = {}
    with ExitStack() as stack:
        made = stack.enter_context(rig(stack.enter_context(scratch()) / "place"))
        stack.enter_context(forks())
        few = max(1, schedules // 20)
        databases = (
            copied_databases(stack.enter_context(running_postgres(durable=False)), made)
            if programs()
            else None
        )
        for mode in MODES:
            runner: Runner = (
                in_one_process if mode == "threads" else stack.enter_context(cluster_runner(made))
            )
            for backend, count, url in (
                ("SQLite", schedules, None),
                ("PostgreSQL", few, databases),
            ):
                if backend == "SQLite" or url:
                    started = time.perf_counter()
                    journal = Journal(KEPT / f"{mode}-{backend}-{count}-{seed}-{code}.jsonl")
                    found = play(
                        made,
                        draw_schedules(count, seed=seed, steps=DEATHS),
                        runner,
                        url=url,
                        journal=journal,
                    )
                    verdicts[f"{mode} {backend}"] = found
                    print(
                        f"{mode} on {backend}: {len(found)} schedules in "
                        f"{time.perf_counter() - started:.0f} s",
                        flush=True,
                    )
    return verdicts


def print_kills(verdicts: dict[str, list[Verdict]]) -> None:
    """Where processes died, and what else is worth knowing."""
    kills = {
        column: sum((verdict.kills for verdict in found), Counter[str]())
        for column, found in verdicts.items()
    }
    print("\n" + f"{'killed':22}" + "".join(f"{column:>20}" for column in kills))
    for step in STEPS:
        print(f"{step:22}" + "".join(f"{count[step]:20,}" for count in kills.values()))
    print(f"{'in all':22}" + "".join(f"{count.total():20,}" for count in kills.values()))
    everything = [verdict for found in verdicts.values() for verdict in found]
    for fault, count in sum(
        (verdict.faults for verdict in everything), Counter[str]()
    ).most_common():
        print(f"tried again {count} times after: {fault}")
    print(
        f"charged and not yet published at a death, published later at no cost: "
        f"{sum(v.unpublished for v in everything):,} releases"
    )
    print(f"drafts left behind, read by nobody: {sum(v.drafts for v in everything):,}")


def measure(figures: Figures, schedules: int = sized(100, 1)) -> None:
    """The matrix and its figures."""
    logging.getLogger("dpicl.tasks").setLevel(logging.WARNING)
    verdicts = run_matrix(schedules)
    shutil.rmtree(KEPT)
    print_kills(verdicts)
    everything = [verdict for found in verdicts.values() for verdict in found]
    figures.exactly(
        "crash-matrix-schedules-without-a-kill", sum(not verdict.kills for verdict in everything), 0
    )
    figures.exactly(
        "crash-matrix-second-draws-visible", sum(verdict.second_draws for verdict in everything), 0
    )
    figures.exactly(
        "crash-matrix-under-accounted", sum(verdict.under_accounted for verdict in everything), 0
    )
    figures.exactly(
        "crash-matrix-overcharged-unstated", sum(verdict.overcharged for verdict in everything), 0
    )
    figures.at_least(
        "crash-matrix-recovered",
        100 * sum(not v.unrecovered for v in everything) / len(everything),
        100,
        " %",
    )


def main() -> None:
    """Run the matrix alone."""
    parser = argparse.ArgumentParser(description="Kill the release protocol at every step.")
    parser.add_argument(
        "--schedules", type=int, default=100, help="random schedules for every step"
    )
    figures = Figures()
    measure(figures, parser.parse_args().schedules)
    figures.finish()


if __name__ == "__main__":
    main()
