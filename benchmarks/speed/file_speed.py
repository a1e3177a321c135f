"""From a Parquet file to a release by averages of groups, a row at a time: a bare read of the file and the same groups by Arrow beside it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import dpicl
from benchmarks.figures import Figures
from benchmarks.speed.group_speed import KEYS, NUMBERS, large_content, large_table

ROWS, ROUNDS = 2_000_000, 3


def _seconds(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least processor time of each, in turn."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.process_time()
            work()
            taken[name].append(time.process_time() - began)
    return {name: min(found) for name, found in taken.items()}


def measure(figures: Figures) -> None:
    """Every release is of another account: the same one again would cost nothing."""
    schema: dict[str, Any] = {name: part for name, part in large_content().items() if name in ("columns", "label", "groups", "prompts")}
    with tempfile.TemporaryDirectory() as folder:
        path, homes = Path(folder) / "large.parquet", iter(range(ROUNDS))
        pq.write_table(large_table(ROWS), path, compression="zstd", row_group_size=1 << 17)

        def release() -> object:
            home = f"{folder}/home{next(homes)}"
            return dpicl.protect(path, schema, epsilon=1, budget=1, method="gdp_tabicl", shots=2, population=ROWS, home=home)

        def grouped() -> object:
            return pq.read_table(path).group_by(KEYS).aggregate([(name, kind) for name in NUMBERS for kind in ("sum", "count")])

        found = _seconds({"release": release, "read": lambda: pq.read_table(path), "grouped": grouped})
    each = {name: 1e6 * spent / ROWS for name, spent in found.items()}
    print("microseconds of the processor a row: " + ", ".join(f"{name} {spent:.3f}" for name, spent in each.items()))
    figures.at_most("parquet-to-release-a-row", each["release"], 0.35, " us")
    figures.at_most("parquet-to-release-over-a-bare-read", found["release"] / found["read"], float(np.round(0.35 / 0.15, 1)), "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
