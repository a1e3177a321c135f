"""The stage of a run that makes a series go on, in the place of charging and drawing: by the
process that holds the ledger.

    advance   the unit's horizons are charged, unless they were; their periods until the plan's, as
              far as they are missing, are frozen, drawn and published in order; what the method
              releases of the window's rows stands in the unit's folder, to show or derive rows from

The plan has the last period, and no names: which periods are missing is known to the ledger when
the stage is done. Tried again, beside its twin or after another command has gone on, it draws
nothing twice (`engine.horizon`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial

from dpicl.accounting.ledger import Release
from dpicl.contract.periods import clock
from dpicl.contract.series import window_places
from dpicl.engine.artefacts import MADE, gather
from dpicl.engine.files import read_json, write_json
from dpicl.engine.horizon import Horizon
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.spending import SPENDING, note_spending
from dpicl.engine.stage import unit_stage
from dpicl.methods import tabular
from dpicl.pipeline import Cell
from dpicl.types import PrivateTable

_PUBLISHED = "published_before"
"""Of a unit's spending: by cell, how many periods stood when the run first went on."""


@unit_stage("advance", lambda folder: folder.method.artefact, "owner")
def advance(folder: UnitFolder) -> str:
    """Make the periods of a unit's horizons that are missing, and what the method releases of the
    plan's window of them.
    """
    method, contract, unit, plan = (
        tabular(folder.unit.method),
        folder.contract,
        folder.unit,
        read_plan(folder.run),
    )
    method.check(contract, unit)
    first, last = window_places(
        contract, until=plan.period_of(unit.dataset), window=plan.pipeline.window, now=clock()
    )
    rows = cache(folder.rows.train)

    @contextmanager
    def table() -> Iterator[PrivateTable]:
        yield rows()

    with open_ledger(folder.settings) as ledger:
        horizons = Horizon.all_of(ledger, contract, unit, folder.settings)
        releases = [one.release for one in horizons]
        progress = [
            one.until(last, last, table, partial(_begun, folder, releases, one.cell))
            for one in horizons
        ]
        note_spending(folder, releases, 0)
    before = read_json(folder.path / SPENDING).get(_PUBLISHED, {})
    progress = [
        replace(its, made=len(its.published) - before.get(one.cell.key, len(its.published)))
        for one, its in zip(horizons, progress, strict=True)
    ]
    more = [_of(one.cell) if len(horizons) > 1 else "" for one in horizons]
    made = [
        its.sentence(one, first, last, name)
        for one, its, name in zip(horizons, progress, more, strict=True)
    ]
    write_json(folder.path / MADE, made)
    windows = {
        one.cell: one.series.window(its.published[:last], first, last)
        for one, its in zip(horizons, progress, strict=True)
    }
    gather(folder, {cell: method.encode(released) for cell, released in windows.items()})
    return (
        f"{sum(one.made for one in progress)} periods released now, until "
        f"{plan.period_of(unit.dataset)}"
    )


def _of(cell: Cell) -> str:
    """What tells one horizon of a unit from the others."""
    return f", epsilon {cell.epsilon:g}" + (f", {cell.shots} shots" if cell.shots else "")


def _begun(
    folder: UnitFolder, releases: Sequence[Release], cell: Cell, is_new: bool, published: int
) -> None:
    """Add to what a run was charged, at once: a try that fails later was charged all the same, and
    made what the next one finds made.
    """
    note_spending(folder, releases, 0)
    noted = read_json(folder.path / SPENDING)
    known = {cell.key: published} | noted.get(_PUBLISHED, {})
    write_json(
        folder.path / SPENDING,
        {**noted, "charged_now": noted["charged_now"] + is_new, _PUBLISHED: known},
        replace=True,
    )
