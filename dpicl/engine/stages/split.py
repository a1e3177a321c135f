"""Split: private rows to protect, held-out rows to query."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from dpicl.contract import Contract
from dpicl.engine.artefacts import ASKED
from dpicl.engine.files import read_json, write_json
from dpicl.engine.rows import Rows
from dpicl.engine.run_folder import read_plan, rows_of
from dpicl.engine.stage import stage, timed
from dpicl.engine.table_files import write_table
from dpicl.errors import RunError


@stage("split")
def split(run: str, dataset: str) -> str:
    """Split a data set's rows; those to protect of a large table stay in their batches. Where
    clients report there are no rows: the contract's public queries, if it names any.
    """
    folder, rows = Path(run), rows_of(run, dataset)
    pipeline, contract = read_plan(folder).pipeline, rows.contract
    if pipeline.reports is not None:
        with timed(folder, dataset, "split", reads_rows=False):
            count = rows.public_queries(pipeline.queries)
            if count is None:
                return "no public queries to ask"
            _hold(folder, rows)
        return f"{count} public queries to ask"
    with timed(folder, dataset, "split"):
        protected, asked, held_out = rows.split(pipeline.queries)
    if contract.evaluation == "public":
        _hold(folder, rows)
    # none of the rows is held out in private
    if contract.tells_row_count and contract.evaluation != "charged":
        return f"{protected} rows to protect, {asked} of {held_out} held-out rows to ask"
    return "rows split"


def _hold(run: Path, rows: Rows) -> None:
    """Public queries stay as they are: prompts and answers of a run that was stopped stand with
    what is released. Raises RunError: they have changed.
    """
    # not what was read now, if it is another
    contract, stored = rows.contract, rows.queries().data
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
