"""Split: private rows to protect, held-out rows to ask."""

from __future__ import annotations

from pathlib import Path

from dpicl.tabular.split import split_table
from tasks.artefacts import table_folder, write_split
from tasks.doorway import doorway, timed
from tasks.files import read_table
from tasks.settings import Settings


def _split(run: str, dataset: str) -> str:
    settings = Settings.from_environment()
    folder = table_folder(settings, dataset, Path(run))
    with timed(Path(run), dataset, "split"):
        parts = split_table(read_table(folder / "private_table.parquet"), settings.contract(dataset))
        write_split(folder, parts)
    return f"{parts.train.row_count} rows to protect, {len(parts.asked)} of {parts.test.row_count} held-out rows to ask"


split = doorway("split", "split {dataset}", _split)
