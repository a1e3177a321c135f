"""The stage of a run that makes a series go on, in the place of charging and drawing: by the process that holds the ledger.

    advance   the unit's horizons are charged, unless they were; their periods until the plan's, as far as they are missing, are frozen, drawn and
              published in order; noisy counts of the window's rows stand in the unit's folder, to derive rows from

The plan has the last period, and no names: which periods are missing is known to the ledger when the stage is done. Tried again, beside its twin or
after another command has gone on, it draws nothing twice (`engine.horizon`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from dpicl.engine.artefacts import MADE, gather, read_split
from dpicl.engine.files import write_json
from dpicl.engine.horizon import Horizon
from dpicl.engine.releases import open_ledger
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.spending import note_spending
from dpicl.engine.stage import unit_stage
from dpicl.methods import tabular
from dpicl.types import PrivateTable


@unit_stage("advance", lambda folder: folder.method.artefact, "owner")
def advance(folder: UnitFolder) -> str:
    """Make the periods of a unit's horizons that are missing, and noisy counts of the plan's window of them."""
    method, contract, unit, plan = tabular(folder.unit.method), folder.contract, folder.unit, read_plan(folder.run)
    method.check(contract, unit)
    last = contract.releases.calendar.index(plan.period_of(unit.dataset))  # was over when the run was planned, and its rows were read since
    first = max(1, last - (plan.pipeline.window or last) + 1)
    rows = cache(lambda: read_split(folder).train)

    @contextmanager
    def table() -> Iterator[PrivateTable]:
        yield rows()

    with open_ledger(folder.settings) as ledger:
        horizons = Horizon.all_of(ledger, plan, contract, unit, folder.settings)
        progress = [one.until(last, last, table) for one in horizons]
        note_spending(folder, [one.release for one in horizons], sum(one.is_new for one in progress))
    more = [f", epsilon {one.cell.epsilon:g}" if len(horizons) > 1 else "" for one in horizons]
    made = [one.sentence(contract, first, last, name) for one, name in zip(progress, more, strict=True)]
    write_json(folder.path / MADE, made)
    windows = {one.cell: one.series.window(its.published[:last], first, last) for one, its in zip(horizons, progress, strict=True)}
    gather(folder, {cell: method.encode(counts) for cell, counts in windows.items()})
    return f"{sum(one.made for one in progress)} periods released now, until {plan.period_of(unit.dataset)}"
