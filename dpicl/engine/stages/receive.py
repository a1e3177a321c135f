"""The stage of a run that counts clients' reports, in the place of ingestion, charge and draw: by the process that has the keys of a store.

    receive   every collection of a data set's units is counted once, its period closed where the pipeline says so; the counts stand in the units'
              folders as their releases do, to make rows of

Reports that come while a run goes on, is killed or is resumed are not of that run: what was counted first stands, whole, in one file.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dpicl.engine.artefacts import gather
from dpicl.engine.files import read_arrays, write_arrays, write_json
from dpicl.engine.received import COUNTS, FACTS, Counted, closing_file, collections_of, count_collection, place_of, read_tallies
from dpicl.engine.run_folder import Plan, UnitFolder, open_unit, read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.methods.collection import Collection

_FACTS = "facts"
"""Beside the counts, in one file with them: else a run that is killed between two files would count anew."""


@stage("receive", "receive {dataset}", "owner")  # it alone needs the keys of a store
def receive(run: str, dataset: str) -> str:
    """Count the reports to a data set's collections."""
    folder, settings = Path(run), Settings.current()
    plan = read_plan(folder)
    units = [open_unit(run, key) for key, unit in plan.units.items() if unit.dataset == dataset]
    counts = folder / COUNTS.format(dataset=dataset)
    if not counts.exists():
        with timed(folder, dataset, "receive"):
            asked = [one for unit in units for one in collections_of(plan, unit.contract, unit.unit).values()]
            write_arrays(counts, _count({one.name: one for one in asked}, plan, settings))
    stored = read_arrays(counts)
    facts = json.loads(stored.pop(_FACTS).tobytes())
    write_json(folder / FACTS.format(dataset=dataset), facts)
    for unit in units:
        _hand_over(unit, plan, stored)
    return " ".join(str(Counted.read(one).received) for one in facts)


def _count(collections: dict[str, Collection], plan: Plan, settings: Settings) -> dict[str, np.ndarray]:
    """The counts by the name of their collection, and what became of the reports."""
    reports = plan.pipeline.reports
    assert reports is not None
    arrays, facts = {}, []
    for name, collection in collections.items():
        period = plan.period_of(collection.contract.name)
        close = closing_file(reports, collection, period, settings)
        if close is not None:
            close.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        tally, received = count_collection(collection, place_of(reports.at, settings), period, close=close)
        arrays[name] = tally.stored
        facts.append(Counted.of(collection, period, tally, received).as_json())
    return {**arrays, _FACTS: np.frombuffer(json.dumps(facts).encode(), np.uint8)}


def _hand_over(unit: UnitFolder, plan: Plan, stored: dict[str, np.ndarray]) -> None:
    """The counts that stand for a unit's releases, unless they are there."""
    if (unit.path / unit.method.artefact).exists():
        return
    named = {cell.key: stored[one.name] for cell, one in collections_of(plan, unit.contract, unit.unit).items()}
    gather(unit, {cell: unit.method.encode(tally) for cell, tally in read_tallies(unit, named).items()})  # type: ignore[attr-defined]
