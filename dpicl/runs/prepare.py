"""Ingestion: from the contract's source to a typed private table, of rows or of texts, or to what
is read of it in batches.

Batches of a large table are read, checked and split by workers, a part of them each.

The stage of a run that counts clients' reports, in the place of ingestion, charge and draw: by the
process that has the keys of a store.

Validation: the contract's rules on the private table, reported in counts.

Split: private rows to protect, held-out rows to query.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from dpicl.contract import Contract
from dpicl.data.report_counts import Counts
from dpicl.ground.errors import ParameterError, RunError
from dpicl.ground.files import make_private_folder, read_arrays, read_json, sha256_of, write_json
from dpicl.ground.nouns import many
from dpicl.ground.printable import tell_holder
from dpicl.home.settings import Settings
from dpicl.methods import METHODS
from dpicl.methods.collection import Collection
from dpicl.methods.grid import points
from dpicl.release.collected import count_collection
from dpicl.release.horizon import uncounted
from dpicl.release.rows import Rows, check_rules, warnings_of
from dpicl.release.table_files import write_table
from dpicl.runs.artefacts import ASKED, gather
from dpicl.runs.client_reports import (
    COUNTS,
    Counted,
    closing_file,
    collections_of,
    counted_of,
    read_tallies,
    write_counted,
)
from dpicl.runs.run_folder import Plan, UnitFolder, open_unit, read_plan, rows_of
from dpicl.runs.stage import Verdicts, stage, timed, validation_file


@stage("ingest", "owner")  # it alone needs the addresses and keys that a contract names
def ingest(run: str, dataset: str) -> str:
    """Read a data set once: whole, or its batches."""
    plan = read_plan(Path(run))
    with timed(Path(run), dataset, "ingest"):
        asked = [
            (unit.method, [*points(METHODS[unit.method], unit).values()])
            for unit in plan.units.values()
            if unit.dataset == dataset
        ]
        until = partial(uncounted, asked=asked, settings=Settings.current())
        period = plan.period_of(dataset)
        return rows_of(run, dataset).read(period, partial(until, period=period))


def prepare_part(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare the batches of one piece of work."""
    batches = rows_of(run, dataset).batches
    assert batches is not None
    with timed(Path(run), dataset, "prepare", f"-{part}"):
        for number in batches.numbers(part, parts):
            batches.prepare(number)
    return f"part {part + 1} of {parts}"


prepare_batches = stage("prepare")(prepare_part)


@stage("receive", "owner")  # it alone needs the keys of a store
def receive(run: str, dataset: str) -> str:
    """Count the reports to a data set's collections."""
    folder = Path(run)
    plan = read_plan(folder)
    units = [open_unit(run, key) for key, unit in plan.units.items() if unit.dataset == dataset]
    path = folder / COUNTS.format(dataset=dataset)
    if not path.exists():
        with timed(folder, dataset, "receive", reads_rows=False):
            every = [
                collection
                for unit in units
                for collection in collections_of(plan, unit.contract, unit.unit).values()
            ]
            _count(folder, dataset, plan, {one.name: one for one in every})
    stored = read_arrays(path)
    for unit in units:
        _hand_over(unit, plan, stored)
    return " ".join(str(counted.received) for counted in counted_of(folder, dataset))


def _count(run: Path, dataset: str, plan: Plan, collections: dict[str, Collection]) -> None:
    """Count every collection, and then close its period: a run that fails in between has closed
    nothing.
    """
    reports = plan.pipeline.reports
    period = plan.period_of(dataset)
    assert reports is not None
    # where pseudonyms that a killed count leaves go with the run's private files
    folder = Settings.current().private(dataset, run.name)
    still_open = {
        name: count_collection(
            collection,
            reports.at,
            period,
            close=closing_file(reports, collection, period),
            folder=folder,
        )
        for name, collection in collections.items()
    }
    counts = {name: _closed(still) for name, still in still_open.items()}
    facts = [
        Counted.of(collections[name], period, count.tally, count.received)
        for name, count in counts.items()
    ]
    write_counted(run, dataset, {name: count.tally for name, count in counts.items()}, facts)


def _closed(counts: Counts) -> Counts:
    """See `Counts`. Raises ParameterError: the folder cannot be written."""
    if counts.close is None:
        return counts
    try:
        make_private_folder(counts.close.parent)
        return counts.closed()
    except OSError as error:
        raise ParameterError(
            "close", counts.close.parent.name, f"a folder that can be written ({error.strerror})"
        ) from None


def _hand_over(unit: UnitFolder, plan: Plan, stored: dict[str, np.ndarray]) -> None:
    """The counts that stand for a unit's releases, unless they are there."""
    if (unit.path / unit.method.artefact).exists():
        return
    named = {
        cell.key: stored[collection.name]
        for cell, collection in collections_of(plan, unit.contract, unit.unit).items()
    }
    gather(
        unit,
        {cell.key: unit.method.encode(tally) for cell, tally in read_tallies(unit, named).items()},  # type: ignore[attr-defined]
    )


def write_verdicts(run: str, dataset: str) -> str:
    """Write whether every rule of the contract holds, and refuse rows that break one. Which rules
    only warn of private rows is told to their holder and decides nothing. Raises DataError: names
    column, rule and count.
    """
    rows = rows_of(run, dataset)
    contract = rows.contract
    with timed(Path(run), dataset, "validate"):
        rules, violated = rows.verdicts()
        counts = {violation.rule: violation.count for violation in violated}
        content = [
            {
                "rule": rule.rule,
                "column": rule.column,
                "expected": rule.description,
                "severity": rule.severity,
                "holds": rule not in counts,
                # how many break it
                **({"values": counts.get(rule, 0)} if contract.is_benchmark else {}),
            }
            for rule in rules
        ]
        verdicts = Verdicts.of(Path(run), contract, rows.settings)
        verdicts.write(validation_file(dataset), content)
    check_rules(rules, violated, dataset)
    if verdicts.is_public:
        return f"{many(len(rules), 'rule')}, {many(len(counts), 'warning')}"
    if counts:
        warned = warnings_of(rules, violated, dataset)
        tell_holder(f"{warned}; all verdicts are in {verdicts.folder}")
    return f"{many(len(rules), 'rule')} checked"


validate = stage("validate")(write_verdicts)


@stage("split")
def split(run: str, dataset: str) -> str:
    """Split a data set's rows; those to protect of a large table stay in their batches. Where
    clients report there are no rows: the contract's public queries, if it names any.
    """
    folder = Path(run)
    rows = rows_of(run, dataset)
    pipeline = read_plan(folder).pipeline
    contract = rows.contract
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
        return f"{many(protected, 'row')} to protect, {asked} of {held_out} held-out rows to ask"
    return "rows split"


def _hold(run: Path, rows: Rows) -> None:
    """Public queries stay as they are: prompts and answers of a run that was stopped stand with
    what is released. Raises RunError: they have changed.
    """
    # not what was read now, if it is another
    contract = rows.contract
    stored = rows.queries().data
    if isinstance(contract, Contract):
        write_table(run / ASKED.format(dataset=contract.name), stored)
    asked_digest = sha256_of(json.dumps(stored.to_pylist(), default=str))
    if (
        read_json(write_json(run / "queries" / f"{contract.name}.json", asked_digest))
        != asked_digest
    ):
        raise RunError(
            f"{contract.name}: its queries have changed since this run began; start a new run"
        )
