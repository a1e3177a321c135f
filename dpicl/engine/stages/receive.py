"""The stage of a run that counts clients' reports, in the place of ingestion, charge and draw: by
the process that has the keys of a store.

    receive   every collection of a data set's units is counted once, its period closed where the
              pipeline says so; the counts stand in the units' folders as their releases do, to make
              rows of

Reports that come while a run goes on, is killed or is resumed are not of that run: what was counted
first stands, whole, in one file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpicl.engine.artefacts import gather
from dpicl.engine.files import read_arrays
from dpicl.engine.received import (
    COUNTS,
    Counted,
    closing_file,
    collections_of,
    counted_of,
    read_tallies,
    write_counted,
)
from dpicl.engine.run_folder import Plan, UnitFolder, open_unit, read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.errors import ParameterError
from dpicl.methods.collection import Collection
from dpicl.release.collected import count_collection
from dpicl.tabular.reports.count import Counts


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
                one
                for unit in units
                for one in collections_of(plan, unit.contract, unit.unit).values()
            ]
            _count(folder, dataset, plan, {one.name: one for one in every})
    stored = read_arrays(path)
    for unit in units:
        _hand_over(unit, plan, stored)
    return " ".join(str(one.received) for one in counted_of(folder, dataset))


def _count(run: Path, dataset: str, plan: Plan, collections: dict[str, Collection]) -> None:
    """Count every collection, and then close its period: a run that fails in between has closed
    nothing.
    """
    reports, period = plan.pipeline.reports, plan.period_of(dataset)
    assert reports is not None
    # where pseudonyms that a killed count leaves go with the run's private files
    folder = Settings.current().private(dataset, run.name)
    still_open = {
        name: count_collection(
            one, reports.at, period, close=closing_file(reports, one, period), folder=folder
        )
        for name, one in collections.items()
    }
    counts = {name: _closed(one) for name, one in still_open.items()}
    facts = [
        Counted.of(collections[name], period, one.tally, one.received)
        for name, one in counts.items()
    ]
    write_counted(run, dataset, {name: one.tally for name, one in counts.items()}, facts)


def _closed(counts: Counts) -> Counts:
    """See `Counts`. Raises ParameterError: the folder cannot be written."""
    if counts.close is None:
        return counts
    try:
        counts.close.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        cell.key: stored[one.name]
        for cell, one in collections_of(plan, unit.contract, unit.unit).items()
    }
    gather(
        unit,
        {cell: unit.method.encode(tally) for cell, tally in read_tallies(unit, named).items()},  # type: ignore[attr-defined]
    )
