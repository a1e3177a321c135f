"""A run is told to stop at random moments: it goes at once, leaves no private row, and a resumed
run ends in the same bytes.

    python -m lab.benchmarks.stranger_parts.stops --moments 50

SIGINT and SIGTERM by turns, to the process and to its group, on a pool and on Prefect; every fifth
time a second signal follows. Moments are uniform over the length of an undisturbed run, from the
first line of ours that Python comes to. Each time the installation is new, with two tables whose
rows are planted: a benchmark's, whose noise is seeded, and a private one's.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path

from tqdm import tqdm

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from lab.benchmarks.figures import Figures, sized
from tests.flows.planted import CANARIES, contract, table
from tests.harness import Place, end, install, new_place, talk
from tests.leaks import files, hits

MOMENTS = sized(50, 2)
SEED = 20261125
_RUN = "stopped"
_TABLES = ("known", "secret")
_GRID = (
    "--datasets",
    ",".join(_TABLES),
    "--epsilons",
    "1",
    "--shots",
    "1,2",
    "--seeds",
    "0",
    "--model",
    "fake",
    "--workers",
    "2",
)
_MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Moment:
    """When a run is told to stop, and how."""

    executor: str
    sign: signal.Signals
    to_group: bool
    share: float
    """Of the length of an undisturbed run."""
    second: float | None
    """Seconds until the same signal comes again."""


@dataclass(frozen=True)
class Stop:
    """What came of it."""

    seconds: float
    """Until no process of the run was left."""
    is_clean: bool
    """One sentence with the exit code of the signal, or the run had just ended."""
    private_files: tuple[str, ...]
    is_same: bool
    """Results and releases, and what was charged, after the run was resumed."""


def moments(count: int, seed: int) -> list[Moment]:
    """As many of each kind, in a random order of moments."""
    rng = random.Random(seed)
    kinds = cycle(product((signal.SIGTERM, signal.SIGINT), (False, True), ("pool", "prefect")))
    return [
        Moment(
            executor, sign, to_group, rng.random(), rng.uniform(0, 0.5) if number % 5 == 4 else None
        )
        for number, (sign, to_group, executor) in enumerate(islice(kinds, count))
    ]


def _command(executor: str, *, resume: bool) -> tuple[str, ...]:
    begun = (
        ("--resume", _RUN, "--workers", "2") if resume else ("private", *_GRID, "--run-id", _RUN)
    )
    return ("run", *begun, "--executor", executor)


def pids(place: Place) -> Iterator[int]:
    """Processes that work in this place and are alive: all that a run starts inherit its
    environment.
    """
    mark = f"DPICL_HOME={place.home}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark in (folder / "environ").read_bytes()
                and ") Z " not in (folder / "stat").read_text()
            ):
                yield int(folder.name)
        except OSError:
            continue


def hears(pid: int) -> bool:
    """Whether a process has a handler for terminations: Python itself has none."""
    caught = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigCgt")
    )
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _outcome(place: Place) -> tuple[dict[str, bytes], list[str], list[tuple[str, str, bool]]]:
    """Of the table whose noise is seeded the artefacts and results; of both what was charged, and
    whether it was published.
    """
    run = place.run(_RUN)
    names = (
        "released_*",
        "results.json",
        "demonstrations.json",
        "prompts.parquet",
        "predictions.parquet",
    )
    artefacts = {
        str(path.relative_to(run)): path.read_bytes()
        for name in names
        for path in run.glob(f"units/*__{_TABLES[0]}__*/{name}")
    }
    results = [
        line
        for line in (run / "results.csv").read_text().splitlines()
        if f",{_TABLES[1]}," not in line
    ]
    with place.entered(), open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        entries = [entry for account in ledger.accounts() for entry in ledger.entries(account.name)]
    charges = sorted(
        (entry.release.account, str(entry.release.guarantee), entry.artefact_sha256 is not None)
        for entry in entries
    )
    return artefacts, results, charges


def _new(template: Path, root: Path) -> Place:
    shutil.copytree(template, root)
    return Place(root)


def stopped(place: Place, moment: Moment, length: float) -> tuple[float, bool]:
    """Stop a run at a moment: seconds until it was gone, and whether it said so in one sentence."""
    process = place.start(*_command(moment.executor, resume=False))
    try:
        while process.poll() is None and not hears(process.pid):
            time.sleep(0.001)
        time.sleep(moment.share * length)
        began = time.monotonic()
        send = os.killpg if moment.to_group else os.kill
        if process.poll() is None:
            send(process.pid, moment.sign)
        if moment.second is not None:
            time.sleep(moment.second)
            if process.poll() is None:
                send(process.pid, moment.sign)
        while list(pids(place)) and time.monotonic() - began < _MOST_SECONDS:
            time.sleep(0.01)
        seconds = time.monotonic() - began
        _, said = process.communicate(timeout=60)
    finally:
        end(process)
    lines = talk(said)
    is_stopped = (
        process.returncode == 128 + moment.sign
        and len(lines) == 1
        and lines[0].startswith("dpicl: interrupted; ")
    )
    is_clean = is_stopped or (process.returncode == 0 and not lines)
    if not is_clean:
        print(f"{moment}: exit code {process.returncode}\n{said}", file=sys.stderr)
    return seconds, is_clean


def _private(place: Place) -> tuple[str, ...]:
    """Files in the folders of private rows, and planted values anywhere."""
    left = [
        str(path)
        for name in _TABLES
        for path in (place.home / "private" / name).rglob("*")
        if path.is_file()
    ]
    return (
        *left,
        *hits(
            files(place.root / folder for folder in ("home", "prefect", "dask", "tmp")), CANARIES
        ),
    )


def stop_and_resume(place: Place, moment: Moment, length: float, expected: object) -> Stop:
    """Stop a run, look at what is left, and let it go on."""
    seconds, is_clean = stopped(place, moment, length)
    left = _private(place)
    resumed = place.dpicl(
        *_command(moment.executor, resume=(place.run(_RUN) / "plan.json").exists()),
        timeout=_MOST_SECONDS,
    )
    is_same = resumed.returncode == 0 and _outcome(place) == expected
    if left or not is_same:
        print(
            f"{moment}: {left[:3]}, resumed with {resumed.returncode}\n{resumed.stderr}",
            file=sys.stderr,
        )
    return Stop(seconds, is_clean, left, is_same)


def measure(figures: Figures, count: int = MOMENTS, seed: int = SEED) -> None:
    """Stop runs at so many moments."""
    # of a job in the background, which its children would inherit
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        template = new_place(Path(folder) / "template")
        for name in _TABLES:
            install(template, contract(name, private=name == _TABLES[1]), table())
        lengths: dict[str, float] = {}
        outcomes: list[tuple[object, ...]] = []
        for executor in ("pool", "prefect"):
            place, began = _new(template.root, Path(folder) / executor), time.monotonic()
            assert (
                place.dpicl(*_command(executor, resume=False), timeout=_MOST_SECONDS).returncode
                == 0
            )
            lengths[executor] = time.monotonic() - began
            outcomes.append(_outcome(place))
        assert outcomes[0] == outcomes[1] and all(outcomes[0]), (
            "runs that nobody stops are not the same"
        )
        stops = []
        for number, moment in enumerate(tqdm(moments(count, seed), desc="stops")):
            place = _new(template.root, Path(folder) / str(number))
            stops.append(stop_and_resume(place, moment, lengths[moment.executor], outcomes[0]))
            shutil.rmtree(place.root)
            print(f"{moment}: {stops[-1]}", file=sys.stderr)
    figures.at_least(
        "stops gone in 10 s", sum(stop.seconds <= 10 for stop in stops) / len(stops), 1
    )
    figures.at_most("slowest stop", max(stop.seconds for stop in stops), 10, " s")
    figures.at_least(
        "stops of one sentence and the exit code of the signal",
        sum(stop.is_clean for stop in stops) / len(stops),
        1,
    )
    figures.exactly("private files left", sum(len(stop.private_files) for stop in stops), 0)
    figures.at_least("resumed to same bytes", sum(stop.is_same for stop in stops) / len(stops), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=MOMENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    shown = Figures()
    measure(shown, options.moments, options.seed)
    shown.finish()
