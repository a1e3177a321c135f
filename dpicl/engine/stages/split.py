"""Split: private rows to protect, held-out rows to ask."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dpicl.contract import Contract, Declared, TextContract
from dpicl.engine.artefacts import table_folder, write_queries, write_split
from dpicl.engine.batches import Batches
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.files import read_table
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.split_key import split_key
from dpicl.engine.stage import stage, timed
from dpicl.tabular.reading.batches import held_out
from dpicl.tabular.reading.queries import load_queries
from dpicl.tabular.reading.read import rows_digest
from dpicl.tabular.reading.split import split_table
from dpicl.text.read import texts_digest
from dpicl.text.split import split_texts


def _split(run: str, dataset: str) -> str:
    settings, queries = Settings.current(), read_plan(Path(run)).pipeline.queries
    folder = table_folder(settings, dataset, Path(run))
    batches = Batches.find(settings, dataset, Path(run))
    if batches is not None:
        with timed(Path(run), dataset, "split"):
            return _in_batches(batches, folder, queries, settings)
    with timed(Path(run), dataset, "split"):
        table, contract = read_table(folder / "private_table.parquet"), settings.declared(dataset)
        check_published(contract, partial(content_digest, contract, table), settings)
        if isinstance(contract, TextContract):
            parts = split_texts(table, contract)
            write_split(folder, parts, texts_digest(parts.train.data))
        else:
            assert isinstance(contract, Contract)
            parts = split_table(
                table, contract, key=split_key(settings, contract), most=queries, queries=load_queries(contract, data_folder=settings.data)
            )
            write_split(folder, parts, rows_digest(parts.train.data))
    return _in_words(contract, parts.train.row_count, len(parts.query_positions), parts.test.row_count)


def _in_batches(batches: Batches, folder: Path, most: int | None, settings: Settings) -> str:
    """The rows to protect stay in their batches."""
    facts = batches.facts()
    check_published(batches.contract, partial(facts.whole_digest, batches.contract), settings)
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
    return _in_words(batches.contract, facts.train_rows, len(asked), test.num_rows)


def _in_words(contract: Declared, train: int, asked: int, test: int) -> str:
    """A line of counts, where the number of rows is public and none of them is held out in private."""
    if contract.tells_row_count and contract.evaluation != "charged":
        return f"{train} rows to protect, {asked} of {test} held-out rows to ask"
    return "rows split"


split = stage("split", "split {dataset}", _split)
