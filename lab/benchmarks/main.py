"""The main job's figures: tables V and VI, reconstruction, randomisation, overhead, the demo."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from functools import reduce
from pathlib import Path

import numpy as np

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.data.local.observed import inverse_matrix, invert
from dpicl.ground.randomness import system_stream
from dpicl.home.settings import Settings
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.methods.published import read_table, table_v
from lab.benchmarks.figures import Figures, bench, seconds, sized
from lab.benchmarks.real_tables import at_hand, real_table

_FEW = sized((), ("--epsilons", "1", "--shots", "2", "--queries", "3"))
SLOW_CELLS, CLIENTS = sized(20_000, 200), sized(1_000_000, 10_000)


def table_5(figures: Figures) -> None:
    """Every cell of table V against the print, misprints corrected, rates from the contracts."""
    settings = Settings.from_environment()
    rates = {
        name: settings.contract(name).privacy.sampling_rate
        for name in {row.dataset for row in table_v()}
    }
    right = sum(
        round(amplified_epsilon(row.epsilon, rates[row.dataset]), 3) == round(row.corrected, 3)
        for row in table_v()
    )
    figures.exactly("table-v-cells-exact-of-40", right, 40)


def table_6(figures: Figures) -> None:
    """Sizes of table VI from the data, where it is at hand."""
    if not at_hand():
        return
    right = 0
    for row in read_table("table-VI"):
        _, split = real_table(row["dataset"])
        right += (split.train.row_count, len(split.query_positions)) == (
            int(row["train_row_count"]),
            int(row["query_count"]),
        )
    figures.exactly("table-vi-sizes-exact-of-8", right, 8)


def reconstruction(figures: Figures) -> None:
    """The factored inverse against the dense Kronecker inverse, and its memory at 2^20 cells."""
    laws = [response(epsilon=1.0, categories=2)] * 13
    shares = np.random.default_rng(0).random(2**13)
    matrices = [inverse_matrix(law) for law in laws]

    def dense() -> np.ndarray:
        return reduce(np.kron, matrices) @ shares

    difference = np.max(np.abs(dense() - invert(shares, laws)) / np.abs(dense()).max())
    figures.at_least(
        "reconstruct-2^13-speedup-over-dense",
        seconds(dense, 3) / seconds(lambda: invert(shares, laws), 20),
        8000,
        "x",
    )
    figures.at_most("reconstruct-2^13-largest-relative-difference", float(difference), 1e-9)
    figures.at_most("reconstruct-2^20-memory-in-vectors", _memory_in_vectors(20), 4)


def _memory_in_vectors(bits: int) -> float:
    """Peak of what the inverse allocates, in vectors of 2^bits doubles."""
    laws, shares = [response(epsilon=1.0, categories=2)] * bits, np.ones(2**bits)
    tracemalloc.start()
    invert(shares, laws)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / shares.nbytes


def randomisation(figures: Figures) -> None:
    """A million clients with thirteen answers, randomness from the operating system."""
    from diffprivlib.mechanisms import Binary
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

    law, truth = (
        response(epsilon=5 / 13, categories=2),
        np.random.default_rng(0).integers(0, 2, CLIENTS).astype(np.uint8),
    )

    def ours() -> None:
        stream = system_stream()
        for _ in range(13):
            randomise(truth, law, stream)

    scalar, few = Binary(epsilon=5 / 13, value0="0", value1="1"), truth[:SLOW_CELLS].tolist()
    texts = [str(code) for code in few]
    rate = 13 * CLIENTS / seconds(ours)
    theirs = SLOW_CELLS / seconds(lambda: [scalar.randomise(text) for text in texts], 3)
    numba = SLOW_CELLS / seconds(lambda: [GRR_Client(code, 2, 5 / 13) for code in few], 3)
    print(
        f"cells per second: ours {rate:,.0f}, diffprivlib {theirs:,.0f}, multi-freq-ldpy "
        f"{numba:,.0f}"
    )
    figures.at_least("randomise-1M-x-13-over-diffprivlib", rate / theirs, 2000, "x")
    figures.at_least("randomise-1M-x-13-over-multi-freq-ldpy", rate / numba, 200, "x")


def _run(home: Path, *arguments: str) -> float:
    started = time.perf_counter()
    environment = {**os.environ, "DPICL_HOME": str(home)}
    subprocess.run(
        [str(Path(sys.executable).with_name("dpicl")), "run", *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def _inside(home: Path) -> float:
    """Seconds that a measured run spent in the library, on all workers together."""
    with (home / "runs" / "measured" / "timings.csv").open() as file:
        return sum(float(row["seconds"]) for row in csv.DictReader(file))


def _share(name: str, wall: float, inside: float) -> float:
    workers = os.cpu_count() or 1
    print(
        f"table-3 on blood and heart, {name}: {wall:.1f} s wall, {inside:.1f} s in the library on "
        f"{workers} workers"
    )
    return 100 * (1 - inside / (wall * workers))


def overhead(figures: Figures) -> None:
    """Table III on two sets: how much of the workers' time is not spent in the library.

    Once on an orchestrator and workers that are up, as in production, and once from nothing,
    where starting them counts too.
    """
    if Settings.from_environment().data is None:
        print("table-3 on blood and heart: DPICL_DATA is not set, not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DPICL_HOME": folder}
        told = subprocess.run(
            [sys.executable, "-m", "lab.benchmarks.speed.steady"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        wall = float(told.stdout.split()[-1])
        figures.at_most(
            "table-3-share-outside-the-library",
            _share("started", wall, _inside(Path(folder))),
            15,
            " %",
        )
    with tempfile.TemporaryDirectory() as folder:
        wall = _run(
            Path(folder),
            "table-3",
            *_FEW,
            "--datasets",
            "blood,heart",
            "--seeds",
            sized("0,1", "0"),
            "--run-id",
            "measured",
        )
        figures.at_most(
            "table-3-share-outside-the-library-from-nothing",
            _share("from nothing", wall, _inside(Path(folder))),
            15,
            " %",
        )


def demo(figures: Figures) -> None:
    """The demo after installation, from an empty state folder to its report."""
    with tempfile.TemporaryDirectory() as folder:
        wall = _run(Path(folder), "demo", *_FEW)
    figures.at_most("demo-wall-time", wall, 180, " s")


PARTS = (table_5, table_6, reconstruction, randomisation, overhead, demo)

if __name__ == "__main__":
    bench(PARTS)
