"""A large table on hosts of its own: four workers that lose a process and the network, and what a
plan for more needs to know.

`python -m lab.benchmarks.scale_out 2000000` makes five hosts, network namespaces of this machine: a
boss with the flow, Prefect's server, Dask's scheduler, a ledger in PostgreSQL and an object store,
and four workers of one process each. The rows lie in the store as Parquet files.
The same run is done three times, each from a new state folder, ledger and workers: on a tenth of
the rows, on all of them undisturbed, and on all of them while one worker is killed as it reads rows
and another one loses the network for a minute as it counts for a charged release.

Processor seconds are those that stages note, and of the boss's processes those of the whole run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from dpicl.ground import objects
from dpicl.home.benchmarks import REGISTRY
from dpicl.home.settings import PRIVATE
from dpicl.ledger import Entry
from dpicl.runs.draw import CHARGED
from dpicl.runs.execute import PARTS_A_WORKER
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.scale import files_of, stage_seconds, write_file, write_settings
from tests.flows.test_interrupted import outcome
from tests.harness import DPICL, REPOSITORY, Place, charged, differences
from tests.infra.hosts import Host, linked
from tests.infra.spread import Spread, spread_over
from tests.ledger.postgres import Server, running_postgres
from tests.object_store import running_store

ROWS = sized(200_000_000, 1_100_000)
WORKERS = ("one", "two", "three", "four")
KILLED, CUT, CUT_SECONDS = "one", "two", 60.0
PLANNED_ROWS, PLANNED_WORKERS = 10_000_000_000, 100
ALONE = ("ingest", "validate", "split", "subsample", "aggregate", "randomise")
"""Stages that are no pieces of work."""
BUCKET, TENTH, ALL = "large-rows", "tenth", "large"
RELEASES, MOST_MEMORY = 2, 1.2
MOST_SECONDS, BACK_SECONDS = 12 * 3600, 180
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "a-key",
    "AWS_SECRET_ACCESS_KEY": "a-secret",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "OMP_NUM_THREADS": "1",
}


@dataclass
class Watch:
    """Processor seconds and peak memory, in MiB, of processes and what they start, for as long as
    they are watched.
    """

    roots: Mapping[str, int]
    used: dict[str, dict[psutil.Process, float]] = field(default_factory=dict)
    peak: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.look()
        self.before = {name: self._seconds(name) for name in self.roots}

    def look(self) -> None:
        """Note what they have used until now."""
        for name, root in self.roots.items():
            try:
                processes = [psutil.Process(root)]
                processes += processes[0].children(recursive=True)
            except psutil.NoSuchProcess:
                continue
            for process in processes:
                try:
                    times, status = process.cpu_times(), _status(process.pid)
                except (psutil.Error, OSError):
                    continue
                self.used.setdefault(name, {})[process] = times.user + times.system
                peak = max(self.peak.get(name, 0), float(status.get("VmHWM", 0)) / 1024)
                self.peak[name] = peak

    def seconds(self, name: str) -> float:
        """Of the processor, since the watch began."""
        return self._seconds(name) - self.before[name]

    def _seconds(self, name: str) -> float:
        return sum(self.used.get(name, {}).values())


def _status(process: int) -> dict[str, int]:
    text = Path(f"/proc/{process}/status").read_text()
    return {name: int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


@dataclass(frozen=True)
class Measured:
    """One run: what it gave, its ledger, and what its parts took."""

    seconds: float
    outcome: dict[str, bytes]
    entries: list[Entry]
    stages: dict[str, float]
    used: dict[str, float]
    """Processor seconds, by part."""
    peak: dict[str, float]
    """MiB of the largest process, by part."""
    carried: int
    """Bytes on the workers' links."""
    workers: int
    """That the scheduler has at the end."""
    shared: int
    """Most bytes of the shared state folder."""
    tasks: int
    """Stages, and pieces of them."""


@dataclass(frozen=True)
class Cluster:
    """What runs on the boss, and where runs get their folders."""

    folder: Path
    spread: Spread
    database: Server
    parts: Mapping[str, int]
    """Processes on the boss."""


@contextmanager
def _cluster(folder: Path, hosts: Mapping[str, Host]) -> Iterator[Cluster]:
    """Server, scheduler, ledger and store on the boss, where this thread is as well."""
    boss = hosts["boss"]
    named = {**hosts, **dict.fromkeys(("server", "scheduler", "flow"), boss)}
    place = _place(folder / "boss")
    settings = {
        **SETTINGS,
        "SSL_CERT_FILE": str(place.root / "certificates" / "server.pem"),
        "TMPDIR": str(place.root / "tmp"),
        "PYTHONPATH": str(REPOSITORY),
    }
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        with (
            boss.entered(),
            spread_over(place, named, **settings) as spread,
            running_postgres(host=boss.address) as database,
            running_store(boss.address, spread.certificates) as store,
        ):
            of_store = {"AWS_ENDPOINT_URL": store.address}
            os.environ.update(of_store)
            environment = {**spread.environment, **of_store}
            parts = {**spread.processes, "ledger": database.process, "store": store.process}
            yield Cluster(folder, replace(spread, environment=environment), database, parts)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _place(root: Path) -> Place:
    """A new state folder, with the contracts of both tables."""
    place = Place(root)
    for name in ("home", "contracts", "data", "prefect", "dask", "tmp"):
        (root / name).mkdir(parents=True)
    write_settings(root, {name: f"s3://{BUCKET}/{name}" for name in (TENTH, ALL)})
    return place


def upload(name: str, rows: int) -> None:
    """A table into the store."""
    from pyarrow.fs import S3FileSystem

    store = S3FileSystem(**objects.store_settings(), allow_bucket_creation=True)
    store.create_dir(BUCKET)
    for file_name, table in files_of(rows):
        key = f"{BUCKET}/{name}/{file_name}"
        with store.open_output_stream(key, compression=None) as file:
            write_file(table, file)


def _publish(cluster: Cluster, name: str, rows: int) -> None:
    """A table into the store, and its digest into the boss's registry. Arrow reads where
    certificates are as it is imported, so that a process of its own uploads.
    """
    started = time.perf_counter()
    code = f"from lab.benchmarks.scale_out import upload; upload({name!r}, {rows})"
    spread = cluster.spread
    spread.finish(spread.start(sys.executable, "-c", code), MOST_SECONDS)
    uploaded = time.perf_counter()
    spread.finish(spread.start(str(DPICL), "data", "publish", name, "--yes"), MOST_SECONDS)
    print(
        f"{name}: {rows:,} rows, {uploaded - started:.0f} s to upload, "
        f"{time.perf_counter() - uploaded:.0f} s to publish",
        flush=True,
    )


class Trouble(threading.Thread):
    """Kills a worker once a batch is read, and cuts another one off for a while once a release is
    charged, so that what it has to count is lost.
    """

    def __init__(self, spread: Spread, workers: Mapping[str, subprocess.Popen[str]]) -> None:
        super().__init__()
        self._spread = spread
        self._killed = _worker_process(workers[KILLED].pid)
        self._is_over = threading.Event()
        self.done: list[str] = []

    def run(self) -> None:
        """Wait for the moments of trouble."""
        if self._seen("**/batches/*.arrow"):
            self._killed.kill()
            self.done.append("killed")
        if self._seen(f"**/{CHARGED}"):
            host = self._spread.hosts[CUT]
            host.cut_off()
            try:
                self.done.append("cut off")
                time.sleep(CUT_SECONDS)
            finally:
                host.link_up()

    def _seen(self, files: str) -> bool:
        """Whether the run has such private files before it is over."""
        private = self._spread.place.home / PRIVATE
        while not self._is_over.wait(0.02):
            if next(private.glob(files), None) is not None:
                return True
        return False

    def stop(self) -> None:
        """Wait until the network is up again."""
        self._is_over.set()
        self.join()


def _worker_process(nanny: int) -> psutil.Process:
    """The process that works, below the one that was started."""
    (process,) = (
        child
        for child in psutil.Process(nanny).children(recursive=True)
        if "spawn_main" in " ".join(child.cmdline())
    )
    return process


def _measured(cluster: Cluster, name: str, table: str, *, trouble: bool = False) -> Measured:
    """A run from a new state folder, an empty ledger and new workers."""
    place = _place(cluster.folder / name)
    ledger = cluster.database.emptied()
    environment = {**cluster.spread.environment, "DPICL_LEDGER": ledger}
    spread = replace(cluster.spread, place=place, environment=environment)
    with ExitStack() as stack:
        stack.enter_context(place.entered(DPICL_LEDGER=ledger))
        shutil.copy(cluster.spread.place.home / REGISTRY, place.home)
        workers = {name: stack.enter_context(spread.worker(name)) for name in WORKERS}
        carried = _carried(spread)
        troubles = Trouble(spread, workers) if trouble else None
        command = (str(DPICL), "run", "scale", "--datasets", table, "--run-id", name)
        if troubles is not None:
            stack.callback(troubles.stop)
            troubles.start()
        started = time.perf_counter()
        flow = spread.start(*command)
        roots = {"flow": flow.pid, **{name: its.pid for name, its in workers.items()}}
        watch, shared = Watch({**cluster.parts, **roots}), 0
        while flow.poll() is None:
            watch.look()
            shared = max(shared, _bytes_below(place.home))
            time.sleep(1)
        seconds = time.perf_counter() - started
        spread.finish(flow)
        carried = _carried(spread) - carried
        if troubles is not None:
            troubles.stop()
            assert troubles.done == ["killed", "cut off"], troubles.done
            _until_back(spread)
        entries = charged()
        return Measured(
            seconds,
            outcome(place.run(name)),
            entries,
            stage_seconds(place.run(name)),
            {part: watch.seconds(part) for part in watch.roots},
            watch.peak,
            carried,
            spread.workers(),
            shared,
            len(list(place.run(name).glob("timings/*/*.json"))),
        )


def _until_back(spread: Spread) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while spread.workers() < len(WORKERS) and time.monotonic() < deadline:
        time.sleep(5)


def _carried(spread: Spread) -> int:
    return sum(spread.hosts[name].carried() for name in WORKERS)


def _bytes_below(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def _told(name: str, rows: int, run: Measured) -> None:
    """What a plan needs to know of a run."""
    million = rows / 1e6
    print(f"{name}: {rows:,} rows, {run.seconds:.0f} s")
    for stage, seconds in run.stages.items():
        print(f"  processor seconds per million rows, {stage}: {seconds / million:.3f}")
    for part, seconds in run.used.items():
        print(f"  {part}: {seconds:.1f} processor seconds, peak {run.peak[part]:.0f} MiB")
    print(f"  links of the workers: {run.carried / rows:.1f} bytes a row")
    print(f"  shared folder: {run.shared / rows:.1f} bytes a row at most", flush=True)


def _plan(rows: int, whole: Measured, tenth: Measured) -> None:
    """What these runs let expect of many more rows and workers. What workers do for a row is what
    more rows took more: stages do not note what Great Expectations takes.
    """
    more = [run.used[name] * sign for run, sign in ((whole, 1), (tenth, -1)) for name in WORKERS]
    a_row = sum(more) / (rows - rows // 10)
    alone = [taken for stage, taken in whole.stages.items() if stage.split()[-1] in ALONE]
    pieces, rest = a_row * PLANNED_ROWS, sum(alone) / rows * PLANNED_ROWS
    tasks = 3 * PARTS_A_WORKER * PLANNED_WORKERS
    kept = whole.shared / rows * PLANNED_ROWS
    print(f"{PLANNED_ROWS / 1e9:g} billion rows on {PLANNED_WORKERS} workers:")
    print(f"  in pieces: {1e6 * a_row:.2f} processor seconds per million rows, ", end="")
    print(f"{pieces / 3600:.1f} hours, {pieces / PLANNED_WORKERS / 60:.1f} minutes on all workers")
    print(f"  in the flow, or on a worker alone: {rest / 60:.1f} minutes")
    print(f"  from the store: {whole.carried / rows * PLANNED_ROWS / 1e9:.0f} GB")
    print(f"  in the shared folder: {kept / 1e9:.0f} GB written, and read twice")
    for part in ("server", "scheduler", "ledger"):
        print(f"  {part}: {whole.used[part] / whole.tasks * tasks:.0f} processor seconds", end="")
        print(f" for {tasks} tasks", flush=True)


def measure(figures: Figures, rows: int = ROWS) -> None:
    """All of it, in a temporary folder."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        with (
            linked(("boss", *WORKERS)) as hosts,
            tempfile.TemporaryDirectory(prefix="dpicl-scale-out-") as name,
            _cluster(Path(name), hosts) as cluster,
        ):
            _measure(figures, cluster, rows)
    except pytest.skip.Exception as error:
        print(f"scale-out is not measured: {error}")


def _measure(figures: Figures, cluster: Cluster, rows: int) -> None:
    tenth = rows // 10
    _publish(cluster, TENTH, tenth)
    _publish(cluster, ALL, rows)
    small = _measured(cluster, "tenth", TENTH)
    _told("tenth", tenth, small)
    whole = _measured(cluster, "undisturbed", ALL)
    _told("undisturbed", rows, whole)
    _plan(rows, whole, small)
    hurt = _measured(cluster, "with-trouble", ALL, trouble=True)
    _told("with-trouble", rows, hurt)
    figures.exactly(
        "scale-out-files-that-differ-with-trouble", len(differences(whole.outcome, hurt.outcome)), 0
    )
    for name, run in (("undisturbed", whole), ("with-trouble", hurt)):
        releases = Counter(entry.release.release_id for entry in run.entries)
        figures.exactly(f"scale-out-charges-{name}", sum(releases.values()), RELEASES)
        figures.exactly(
            f"scale-out-releases-charged-twice-{name}", sum(n > 1 for n in releases.values()), 0
        )
    figures.exactly(
        "scale-out-charges-with-trouble-are-those-without", _charges(hurt) == _charges(whole), True
    )
    figures.exactly("scale-out-workers-after-the-trouble", hurt.workers, len(WORKERS))
    for part, processes in (("worker", WORKERS), ("flow", ("flow",))):
        less, more = (max(run.peak[name] for name in processes) for run in (small, whole))
        print(f"peak of a {part}: {less:.0f} MiB with a tenth of the rows, {more:.0f} MiB with all")
        figures.at_most(f"scale-out-{part}-memory-over-a-tenth", more / less, MOST_MEMORY, "x")
    print(f"seconds with trouble over seconds without: {hurt.seconds / whole.seconds:.2f}")


def _charges(run: Measured) -> dict[str, tuple[Any, ...]]:
    """What was charged and published, by method: names of releases are an installation's."""
    return {
        entry.release.mechanism: (
            entry.release.parameters,
            entry.release.guarantee,
            entry.artefact_sha256,
        )
        for entry in run.entries
    }


PARTS = (measure,)


def main() -> None:
    """The number of rows of the command line, if it has one."""
    if not sys.argv[1:]:
        bench(PARTS)
    figures = Figures()
    measure(figures, int(sys.argv[1]))
    figures.finish()


if __name__ == "__main__":
    main()
