"""Split: private rows to protect, held-out rows to ask."""

from __future__ import annotations

from pathlib import Path

from dpicl.contract import Contract, TextContract
from dpicl.tabular.read import rows_digest
from dpicl.tabular.split import split_table
from dpicl.text.read import texts_digest
from dpicl.text.split import split_texts
from tasks.artefacts import table_folder, write_split
from tasks.doorway import doorway, timed
from tasks.files import read_table
from tasks.settings import Settings


def _split(run: str, dataset: str) -> str:
    settings = Settings.from_environment()
    folder = table_folder(settings, dataset, Path(run))
    with timed(Path(run), dataset, "split"):
        table, contract = read_table(folder / "private_table.parquet"), settings.declared(dataset)
        if isinstance(contract, TextContract):
            parts = split_texts(table, contract)
            write_split(folder, parts, texts_digest(parts.train.data))
        else:
            assert isinstance(contract, Contract)
            parts = split_table(table, contract)
            write_split(folder, parts, rows_digest(parts.train.data))
    return f"{parts.train.row_count} rows to protect, {len(parts.asked)} of {parts.test.row_count} held-out rows to ask"


split = doorway("split", "split {dataset}", _split)
