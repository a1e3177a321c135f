"""A run whose table is read in batches of a few rows, stage after stage, in a process that may be
killed at any file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpicl.data.reading import files, source
from dpicl.data.reading.files import WHOLE_ROWS
from tests.harness import Place, exit_code, forked, install, publish, shop, shop_rows
from tests.tasks.stages import End, work

BATCH_ROWS = 25


def small_batches(patch: pytest.MonkeyPatch | None = None) -> None:
    """In this process, or until the patch is undone."""
    for module in (files, source):
        (patch or pytest.MonkeyPatch()).setattr(module, "BATCH_ROWS", BATCH_ROWS)


def install_folder(
    place: Place, rows: int = 120, *, files: int = 3, private: bool = False, name: str = "shop"
) -> None:
    """The made-up table as a folder of Parquet files, that is read in batches by what its contract
    says.
    """
    content = {**shop(name, private=private), "population": WHOLE_ROWS + 1}
    del content["source"]["file"]
    install(place, {**content, "source": {**content["source"], "folder": name}}, "")
    (place.root / "data" / f"{name}.csv").unlink()
    table = pa_csv.read_csv(pa.BufferReader(shop_rows(rows).encode()))
    (place.root / "data" / name).mkdir()
    for number in range(files):
        start, stop = number * rows // files, (number + 1) * rows // files
        pq.write_table(
            table.slice(start, stop - start),
            place.root / "data" / name / f"{number:02}.parquet",
            row_group_size=11,
        )
    publish(place, name)


def _work(
    environment: Mapping[str, str], pipeline: str, changes: Mapping[str, Any], run_id: str, end: End
) -> None:
    small_batches()
    work(environment, pipeline, changes, run_id, end)


def attempt(
    place: Place,
    changes: Mapping[str, Any],
    end: End = "finished",
    *,
    pipeline: str = "private",
    environment: Mapping[str, str] | None = None,
) -> int:
    """`work` in a fresh fork; gives its exit code."""
    environment = {**place.environment, **(environment or {})}
    return exit_code(forked(_work, environment, pipeline, dict(changes), "r", end), 120)
