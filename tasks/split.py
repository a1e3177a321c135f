"""Split: private rows to protect, held-out rows to ask."""

from __future__ import annotations

from pathlib import Path

from dpicl.contract import Contract, Declared, TextContract
from dpicl.tabular.batches import held_out
from dpicl.tabular.public_queries import load_queries
from dpicl.tabular.read import rows_digest
from dpicl.tabular.split import split_table
from dpicl.text.read import texts_digest
from dpicl.text.split import split_texts
from tasks.artefacts import table_folder, write_queries, write_split
from tasks.batches import Batches
from tasks.doorway import doorway, timed
from tasks.files import read_table
from tasks.run_folder import read_plan
from tasks.settings import Settings
from tasks.split_key import split_key


def _split(run: str, dataset: str) -> str:
    settings, queries = Settings.from_environment(), read_plan(Path(run)).pipeline.queries
    folder = table_folder(settings, dataset, Path(run))
    batches = Batches.find(settings, dataset, Path(run))
    if batches is not None:
        with timed(Path(run), dataset, "split"):
            return _in_batches(batches, folder, queries, settings)
    with timed(Path(run), dataset, "split"):
        table, contract = read_table(folder / "private_table.parquet"), settings.declared(dataset)
        if isinstance(contract, TextContract):
            parts = split_texts(table, contract)
            write_split(folder, parts, texts_digest(parts.train.data))
        else:
            assert isinstance(contract, Contract)
            parts = split_table(
                table, contract, key=split_key(settings, contract), most=queries, queries=load_queries(contract, data_folder=settings.data)
            )
            write_split(folder, parts, rows_digest(parts.train.data))
    return _told(contract, parts.train.row_count, len(parts.asked), parts.test.row_count)


def _in_batches(batches: Batches, folder: Path, most: int | None, settings: Settings) -> str:
    """The rows to protect stay in their batches."""
    facts = batches.facts()
    parts = [batches.test(number) for number in range(batches.count)]
    test, asked = held_out(
        parts,
        facts.train_rows,
        batches.contract,
        key=batches.key,
        most=most,
        queries=load_queries(batches.contract, data_folder=settings.data),
    )
    write_queries(folder, test, asked, facts.digest(batches.contract))
    return _told(batches.contract, facts.train_rows, len(asked), test.num_rows)


def _told(contract: Declared, protected: int, asked: int, held_out: int) -> str:
    """Counts of a benchmark; of any other rows they are private."""
    if not contract.privacy.budget.benchmark:
        return "done"
    return f"{protected} rows to protect, {asked} of {held_out} held-out rows to ask"


split = doorway("split", "split {dataset}", _split)
