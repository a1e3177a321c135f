"""A charge, with its chain and its anchor, beside two durable inserts into a bare SQLite file."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dpicl.accounting.accountant import price
from dpicl.accounting.events import pure
from dpicl.accounting.guarantee import Neighbours
from dpicl.ledger import Account, Ledger, ReleaseCharge
from dpicl.ledger.keys import Anchor, Head
from lab.benchmarks.figures import Figures, sized

CHARGES, BEFORE = sized(200, 5), sized(50, 5)
COST = price(pure(0.25), neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row")


def _each(work: Callable[[int], object]) -> tuple[float, float]:
    """Milliseconds of the processor, and on the wall, of one call among many."""
    for number in range(BEFORE):
        work(number)
    processor, wall = time.process_time(), time.perf_counter()
    for number in range(BEFORE, BEFORE + CHARGES):
        work(number)
    return 1000 * (time.process_time() - processor) / CHARGES, 1000 * (
        time.perf_counter() - wall
    ) / CHARGES


def measure(figures: Figures) -> None:
    """On the disk of the working directory: that of temporary files may be memory."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        bare.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE entries (id TEXT "
            "PRIMARY KEY, cost REAL);"
        )

        def insert(number: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(
                "INSERT INTO entries VALUES (?, ?)",
                [(f"{number}-{part}", 0.25) for part in range(2)],
            )
            bare.execute("COMMIT")

        with Ledger.open(
            f"sqlite:///{folder}/ledger.db", b"k" * 32, Path(folder) / "anchor"
        ) as ledger:
            ledger.ensure_account(
                Account("patients", "row", Neighbours.ADD_OR_REMOVE_ONE, epsilon_cap=1000.0)
            )

            def reserve(number: int) -> None:
                name = hashlib.sha256(str(number).encode()).hexdigest()
                ledger.reserve(
                    ReleaseCharge(
                        name,
                        "patients",
                        "laplace",
                        {"columns": ["age", "sex"], "seed": number},
                        COST,
                    )
                )

            (bare_processor, bare_wall), (processor, wall) = _each(insert), _each(reserve)
        bare.close()
        anchor = Anchor(Path(folder) / "bare")
        anchor_processor, anchor_wall = _each(lambda number: anchor.advance(Head(number + 1, "0")))
    print(
        f"bare SQLite: {bare_processor:.2f} ms of the processor, {bare_wall:.1f} ms on the wall; "
        f"an anchor, which is durable too: {anchor_processor:.2f} and {anchor_wall:.1f} ms"
    )
    figures.at_most("reserve-processor-time", processor, 1.5, " ms")
    figures.at_most("reserve-wall-time", wall, 12, " ms")
    figures.at_most("reserve-wall-over-bare-sqlite", wall / bare_wall, 4, "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
