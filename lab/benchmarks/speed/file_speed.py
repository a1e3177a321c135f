"""From a Parquet file to a release by averages of groups, a row at a time: a bare read of the file
and the same groups by Arrow beside it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import dpicl
from lab.benchmarks.figures import Figures, best_of, sized
from lab.benchmarks.speed.group_speed import KEYS, NUMBERS, large_content, large_table

ROWS, ROUNDS = sized(2_000_000, 20_000), sized(3, 1)


def measure(figures: Figures) -> None:
    """Every release is of another account: the same one again would cost nothing."""
    schema: dict[str, Any] = {
        name: part
        for name, part in large_content().items()
        if name in ("columns", "label", "groups", "prompts")
    }
    with tempfile.TemporaryDirectory() as folder:
        path, homes = Path(folder) / "large.parquet", iter(range(ROUNDS))
        pq.write_table(large_table(ROWS), path, compression="zstd", row_group_size=1 << 17)

        def release() -> object:
            home = f"{folder}/home{next(homes)}"
            return dpicl.protect(
                path,
                schema,
                epsilon=1,
                budget=1,
                method="gdp_tabicl",
                shots=2,
                population=ROWS,
                home=home,
            )

        def grouped() -> object:
            return (
                pq.read_table(path)
                .group_by(KEYS)
                .aggregate([(name, kind) for name in NUMBERS for kind in ("sum", "count")])
            )

        released, read, counted = best_of(
            (release, lambda: pq.read_table(path), grouped), ROUNDS, time.process_time
        )
    print(
        f"microseconds of the processor a row: read {1e6 * read / ROWS:.3f}, grouped by Arrow "
        f"{1e6 * counted / ROWS:.3f}"
    )
    figures.at_most("parquet-to-release-a-row", 1e6 * released / ROWS, 0.35, " us")
    figures.at_most("parquet-to-release-over-a-bare-read", released / read, 2.3, "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
