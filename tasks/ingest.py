"""Ingestion: from the contract's source to a typed private table, of rows or of texts."""

from __future__ import annotations

from pathlib import Path

from dpicl.contract import Contract, TextContract
from dpicl.tabular.source import load_source
from dpicl.text.read import load_texts
from tasks.artefacts import table_folder
from tasks.doorway import doorway, timed
from tasks.files import PRIVATE_MODE, write_table
from tasks.settings import Settings


def _ingest(run: str, dataset: str) -> str:
    settings = Settings.from_environment()
    contract = settings.declared(dataset)
    with timed(Path(run), dataset, "ingest"):
        if isinstance(contract, TextContract):
            table = load_texts(contract, data_folder=settings.data)
        else:
            assert isinstance(contract, Contract)
            table = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
        write_table(table_folder(settings, dataset, Path(run)) / "private_table.parquet", table, mode=PRIVATE_MODE)
    return f"{table.num_rows} rows"


ingest = doorway("ingest", "ingest {dataset}", _ingest)
