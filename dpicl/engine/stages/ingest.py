"""Ingestion: from the contract's source to a typed private table, of rows or of texts, or to what
is read of it in batches.

Batches of a large table are read, checked and split by workers, a part of them each.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dpicl.contract import Contract, TextContract
from dpicl.engine.accounts import check_payer
from dpicl.engine.artefacts import TABLE, keep_rows, table_folder
from dpicl.engine.batches import INDEX, Batches, begin, keep_stream
from dpicl.engine.horizon import uncounted
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.errors import RunError
from dpicl.tabular.reading.deliveries import read_deliveries
from dpicl.tabular.reading.parse import typed_table
from dpicl.tabular.reading.source import load_source, query_parts
from dpicl.tabular.reading.survey import in_batches, survey
from dpicl.text.read import load_texts


@stage("ingest", "owner")  # it alone needs the addresses and keys that a contract names
def ingest(run: str, dataset: str) -> str:
    """Read a data set once: whole, or its batches."""
    settings = Settings.current()
    contract = settings.declared(dataset)
    folder = table_folder(settings, dataset, Path(run))
    with timed(Path(run), dataset, "ingest"):
        if isinstance(contract, TextContract):
            period = read_plan(Path(run)).period_of(dataset) if contract.is_delivered else None
            table = load_texts(
                contract, data_folder=settings.data, cache_folder=settings.cache, period=period
            )
        else:
            assert isinstance(contract, Contract)
            if (folder / INDEX).exists():
                return "already done"
            check = partial(check_payer, contract, settings)
            if contract.source.frame:
                if settings.given is None or settings.given.rows is None:
                    raise RunError(
                        f"{dataset}: its rows are given by the program that makes the release, "
                        f"and are not here"
                    )
                table = typed_table(settings.given.rows, contract, contract.name)
            elif contract.source.deliveries is not None:
                table = read_deliveries(
                    contract, settings.data, uncounted(read_plan(Path(run)), contract, settings)
                )
            elif in_batches(contract) and contract.source.query is not None:
                return keep_stream(query_parts(contract, check), contract, settings, Path(run))
            elif in_batches(contract) and (files := survey(contract, settings.data)) is not None:
                return begin(files, contract, folder)
            else:
                table = load_source(
                    contract, data_folder=settings.data, cache_folder=settings.cache, check=check
                )
        keep_rows(folder / TABLE, table)
    return f"{table.num_rows} rows" if contract.tells_row_count else "rows read"


def prepare_part(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare the batches of one piece of work."""
    batches = Batches.find(Settings.current(), dataset, Path(run))
    assert batches is not None
    with timed(Path(run), dataset, "prepare", f"-{part}"):
        for number in batches.numbers(part, parts):
            batches.prepare(number)
    return f"part {part + 1} of {parts}"


prepare_batches = stage("prepare")(prepare_part)
