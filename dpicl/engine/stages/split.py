"""Split: private rows to protect, held-out rows to query."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import numpy as np

from dpicl.contract import Contract
from dpicl.contract.declared import Declared
from dpicl.engine.artefacts import (
    ASKED,
    DIGEST,
    QUERIES,
    TABLE,
    TEST,
    TRAIN,
    drop_rows,
    keep_rows,
    kept_rows,
    table_folder,
)
from dpicl.engine.batches import Batches, split_key
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.files import PRIVATE_MODE, read_arrays, read_json, write_arrays, write_json
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.engine.table_files import write_table
from dpicl.errors import RunError
from dpicl.tabular.reading.batches import held_out
from dpicl.tabular.reading.queries import load_queries
from dpicl.tabular.reading.split import fewer, split_table
from dpicl.text.split import split_texts


@stage("split")
def split(run: str, dataset: str) -> str:
    """Split a data set's rows; those to protect of a large table stay in their batches."""
    settings, queries = Settings.current(), read_plan(Path(run)).pipeline.queries
    folder = table_folder(settings, dataset, Path(run))
    batches, contract = Batches.find(settings, dataset, Path(run)), settings.declared(dataset)
    if read_plan(Path(run)).pipeline.reports is not None:
        return _public_alone(Path(run), settings.contract(dataset), folder, queries)
    with timed(Path(run), dataset, "split"):
        if batches is not None:
            facts = batches.facts()
            check_published(
                batches.contract, partial(facts.whole_digest, batches.contract), settings
            )
            asked = load_queries(batches.contract, data_folder=settings.data)
            parts = [batches.test(number) for number in range(batches.count)]
            train_rows, digest = facts.train_rows, facts.digest(batches.contract)
            test, positions = held_out(
                parts, train_rows, batches.contract, key=batches.key, most=queries, queries=asked
            )
        else:
            table = kept_rows(folder / TABLE)
            check_published(contract, partial(content_digest, contract, table), settings)
            if isinstance(contract, Contract):
                asked = load_queries(contract, data_folder=settings.data)
                whole = split_table(
                    table, contract, key=split_key(settings, contract), most=queries, queries=asked
                )
            else:
                whole = split_texts(table, contract, most=queries)
            digest = content_digest(contract, whole.train.data)
            train_rows, test, positions = (
                whole.train.row_count,
                whole.test.data,
                whole.query_positions,
            )
            keep_rows(folder / TRAIN, whole.train.data)
            drop_rows(folder / TABLE)
        keep_rows(folder / TEST, test)
        write_json(folder / DIGEST, digest, mode=PRIVATE_MODE)
        # the positions of the queries come last
        write_arrays(folder / QUERIES, {"asked": positions}, mode=PRIVATE_MODE)
    if contract.evaluation == "public":
        _hold(Path(run), contract, folder)
    # none of the rows is held out in private
    if contract.tells_row_count and contract.evaluation != "charged":
        return (
            f"{train_rows} rows to protect, {len(positions)} of {test.num_rows} held-out rows to "
            f"ask"
        )
    return "rows split"


def _hold(run: Path, contract: Declared, folder: Path) -> None:
    """Public queries stay as they are: prompts and answers of a run that was stopped stand with
    what is released. Raises RunError: they have changed.
    """
    # not what was read now, if it is another
    stored = kept_rows(folder / TEST).take(read_arrays(folder / QUERIES)["asked"])
    if isinstance(contract, Contract):
        write_table(run / ASKED.format(dataset=contract.name), stored)
    asked_digest = hashlib.sha256(json.dumps(stored.to_pylist(), default=str).encode()).hexdigest()
    if (
        read_json(write_json(run / "queries" / f"{contract.name}.json", asked_digest))
        != asked_digest
    ):
        raise RunError(
            f"{contract.name}: its queries have changed since this run began; start a new run"
        )


def _public_alone(run: Path, contract: Contract, folder: Path, most: int | None) -> str:
    """Where clients report there are no rows to split: the contract's public queries, if it names
    any.
    """
    with timed(run, contract.name, "split", reads_rows=False):
        asked = load_queries(contract, data_folder=Settings.current().data)
        if asked is None or contract.evaluation != "public":
            return "no public queries to ask"
        keep_rows(folder / TEST, asked)
        write_arrays(
            folder / QUERIES,
            {"asked": fewer(np.arange(asked.num_rows), most, contract.name)},
            mode=PRIVATE_MODE,
        )
        _hold(run, contract, folder)
    return f"{asked.num_rows} public queries to ask"
