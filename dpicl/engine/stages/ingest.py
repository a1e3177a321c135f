"""Ingestion: from the contract's source to a typed private table, of rows or of texts, or to what
is read of it in batches.

Batches of a large table are read, checked and split by workers, a part of them each.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dpicl.engine.horizon import uncounted
from dpicl.engine.run_folder import read_plan, rows_of
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed


@stage("ingest", "owner")  # it alone needs the addresses and keys that a contract names
def ingest(run: str, dataset: str) -> str:
    """Read a data set once: whole, or its batches."""
    plan = read_plan(Path(run))
    with timed(Path(run), dataset, "ingest"):
        units = [unit for unit in plan.units.values() if unit.dataset == dataset]
        until = partial(uncounted, units=units, settings=Settings.current())
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
