"""Large tables end to end: a folder of Parquet files, on Dask partitions, to the GDP release and
the LDP tally.

`python -m lab.benchmarks.scale 1000000 10000000 100000000` makes the tables in a temporary folder
(3 GB for the last) and deletes them. Every size is run on the same orchestrator and workers; the
cost of a row is in the processor's seconds of all processes together, in the stages that read rows.
The smallest table is cut into files in two ways.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dpicl.data.reading.files import BATCH_ROWS, WHOLE_ROWS
from dpicl.home.benchmarks import declare, read_content
from dpicl.home.settings import Settings
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.speed.group_speed import large_content, large_table

SIZES, WORKERS, FEW = sized((1_000_000, 10_000_000), (530_000, 540_000)), 2, sized(600_000, 530_000)
FILE_ROWS, OTHER_CUT = 1_000_000, 300_000
MOST_GIB = 1.5
GRID = {
    "methods": ["gdp_tabicl", "ldp_tabicl"],
    "epsilons": [1.0],
    "shots": [8],
    "seeds": [0],
    "baselines": False,
    "model": "fake",
}
OPTIONS = {"ldp_tabicl": {"design": "subset", "estimator": "tree"}}
DATA_STAGES = (
    "ingest",
    "prepare",
    "validate",
    "split",
    "charge",
    "count",
    "subsample",
    "aggregate",
    "randomise",
)


@dataclass(frozen=True)
class Measured:
    """One run: processor seconds in the stages that read rows, wall time of the whole run, and what
    it released.
    """

    rows: int
    seconds: float
    wall: float
    ids: list[str]
    released: dict[str, Any]


class _Plain(yaml.SafeDumper):
    """Without anchors, which contracts may not have."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write_settings(folder: Path, tables: Mapping[str, str]) -> None:
    """The contracts of large tables, by name and folder of their rows, and a pipeline of them."""
    for name, rows in tables.items():
        content = {**large_content(folder=rows), "name": name, "population": WHOLE_ROWS + 1}
        (folder / "contracts" / f"{name}.yaml").write_text(yaml.dump(content, Dumper=_Plain))
    models = {"models": {"fake": {"kind": "fake"}}}
    pipeline = {"title": "Large tables", "datasets": [*tables], "options": OPTIONS, **GRID}
    (folder / "pipelines.yaml").write_text(
        yaml.safe_dump({"version": 1, **models, "pipelines": {"scale": pipeline}})
    )


@contextmanager
def _place(folder: Path) -> Iterator[None]:
    """An installation with nothing in it but a model that answers by hashes."""
    for name in ("contracts", "data", "home"):
        (folder / name).mkdir()
    write_settings(folder, {"large": "large"})
    names = {
        "DPICL_HOME": "home",
        "DPICL_DATA": "data",
        "DPICL_CONTRACTS": "contracts",
        "DPICL_PIPELINES": "pipelines.yaml",
    }
    before = dict(os.environ)
    os.environ.update({variable: str(folder / name) for variable, name in names.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def files_of(rows: int, file_rows: int = FILE_ROWS) -> Iterator[tuple[str, pa.Table]]:
    """A table of so many rows, file by file: the same rows in the same order whatever the files
    hold.
    """
    for start in range(0, rows, FILE_ROWS):
        table = large_table(min(FILE_ROWS, rows - start), seed=start // FILE_ROWS)
        for number, first in enumerate(range(0, table.num_rows, file_rows)):
            name = f"{start // FILE_ROWS:05}-{number:03}.parquet"
            yield name, table.slice(first, file_rows)


def write_file(table: pa.Table, file: Path | BinaryIO) -> None:
    """As Parquet, in row groups of a batch each."""
    pq.write_table(table, file, compression="zstd", row_group_size=BATCH_ROWS)


def _lay_out(folder: Path, rows: int, file_rows: int) -> None:
    """The table in place of the one before, and no ledger that knows of any."""
    data, home = folder / "data" / "large", folder / "home"
    for old in (data, home / "released"):
        shutil.rmtree(old, ignore_errors=True)
    for old in home.glob("ledger.*"):
        old.unlink()
    data.mkdir()
    for name, table in files_of(rows, file_rows):
        write_file(table, data / name)
    settings = Settings.from_environment()
    declare("large", read_content(settings.declared("large"), settings), settings)


def _run(folder: Path, name: str, rows: int, file_rows: int = FILE_ROWS) -> Measured:
    from flows.tabicl import sweep

    _lay_out(folder, rows, file_rows)
    started = time.perf_counter()
    sweep("scale", {}, name)
    wall, run = time.perf_counter() - started, folder / "home" / "runs" / name
    stages = stage_seconds(run)
    found = Measured(rows, sum(stages.values()), wall, _ids(folder), _released(run))
    told = ", ".join(f"{stage} {1e6 * seconds / rows:.3f}" for stage, seconds in stages.items())
    print(
        f"{name}: {rows:,} rows, {wall:.1f} s wall; us a row: {1e6 * found.seconds / rows:.3f} of "
        f"{told}",
        flush=True,
    )
    return found


def stage_seconds(run: Path) -> dict[str, float]:
    """Processor seconds of the stages that read rows, all their parts together: what else the
    machine does counts little.
    """
    timings = [json.loads(path.read_text()) for path in sorted(run.glob("timings/*/*.json"))]
    found = [
        (f"{timing['owner'].split('__')[0]} {timing['stage']}", timing["processor_seconds"])
        for timing in timings
        if timing["stage"] in DATA_STAGES
    ]
    return {
        name: sum(seconds for other, seconds in found if other == name)
        for name in dict.fromkeys(name for name, _ in found)
    }


def _released(run: Path) -> dict[str, Any]:
    import numpy as np

    groups = next(run.glob("units/gdp*/released_groups.json"))
    with np.load(next(run.glob("units/ldp*/released_reports.npz"))) as reports:
        return {
            "groups": json.loads(groups.read_text()),
            **{name: reports[name].tolist() for name in reports.files},
        }


def _ids(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "home" / "released").glob("*/*"))


def _peak_gib() -> float:
    """Of the largest process, this one or a worker."""
    from distributed import Client

    with Client(os.environ["DASK_SCHEDULER_ADDRESS"], set_as_default=False) as client:
        workers = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        "peak memory, MiB: flow",
        own // 1024,
        "workers",
        [size // 1024 for size in workers.values()],
    )
    return float(max(own, *workers.values()) / 2**20)


def measure(figures: Figures, sizes: tuple[int, ...] = SIZES) -> None:
    """Every size in turn; flatness against the smallest."""
    with tempfile.TemporaryDirectory(prefix="dpicl-scale-") as name, _place(Path(name)):
        folder = Path(name)
        from flows.runtime import runtime

        with runtime(WORKERS):
            _run(folder, "warm", FEW)
            other = _run(folder, "recut", sizes[0], OTHER_CUT)
            first = _run(folder, f"rows-{sizes[0]}", sizes[0])
            figures.exactly(
                "scale-two-cuts-release-the-same",
                (first.ids, first.released) == (other.ids, other.released),
                True,
            )
            for rows in sizes[1:]:
                found = _run(folder, f"rows-{rows}", rows)
                ratio = (found.seconds / rows) / (first.seconds / first.rows)
                figures.at_most(f"scale-{rows}-cost-per-row-over-{sizes[0]}", ratio, 1.1, "x")
                figures.at_most(f"scale-{rows}-peak-memory", _peak_gib(), MOST_GIB, " GiB")


PARTS = (measure,)


def main() -> None:
    """The sizes of the command line, if it has any."""
    if not sys.argv[1:]:
        bench(PARTS)
    figures = Figures()
    measure(figures, tuple(map(int, sys.argv[1:])))
    figures.finish()


if __name__ == "__main__":
    main()
