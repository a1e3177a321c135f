"""A table that grows, released night after night under one budget: what is missing is made in
order, and any window of it is free.

    check     the cap before a row is read, and all rows before anything is charged
    make      charge the horizon, then freeze, note, draw and publish its periods (`horizon`)
    derive    a model or averages of the rows of a window, from published sums alone

Killed anywhere, run twice or beside its twin, the same command goes on: a period that is frozen is
read back, and one that is published is not drawn again. A run of a pipeline does the same in its
stage `advance`.

Guarantee   that of the method for all periods together; see `horizon`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from dpicl.contract import Contract
from dpicl.contract.periods import clock
from dpicl.contract.series import window_places
from dpicl.engine.artefacts import read_split
from dpicl.engine.collect import spending_sentence
from dpicl.engine.execute import call_all
from dpicl.engine.horizon import Horizon
from dpicl.engine.one_release import Published, private_rows, release_once, sweep_private
from dpicl.engine.open_ledger import one_ledger, open_ledger
from dpicl.engine.plan import begin, check_plan, check_window
from dpicl.engine.run_folder import Plan, open_unit, run_folder
from dpicl.engine.settings import Settings
from dpicl.leaving import passing
from dpicl.methods import METHODS
from dpicl.runs.chain import rows_ready
from dpicl.types import PrivateTable


def release_planned(
    plan: Plan,
    settings: Settings,
    *,
    until: str | None = None,
    window: int | None = None,
    now: datetime | None = None,
) -> Published:
    """Do what `one_release.plan_of` plans: one release, or where it is of a horizon all periods
    that are over and were not made; none where all of it until `until` was published.

    Args:
        until: of a horizon, the last period of what is derived; the last one that is over if left
            out.
        window: how many periods it reaches back; all of them if left out.
        now: in place of the clock.

    Raises:
        ParameterError: no such period is over, or these are given for what is no horizon.
        DpiclError: as `release_once`; LedgerRefusedError: the horizon cannot go on.
    """
    now = now or clock()
    places = window_of(plan, settings, until=until, window=window, now=now)
    return (
        release_once(plan, settings)
        if places is None
        else _released(plan, settings, *places, now=now)
    )


def _released(plan: Plan, settings: Settings, first: int, last: int, *, now: datetime) -> Published:
    ((_, unit),) = plan.units.items()
    contract = settings.contract(unit.dataset)
    # which deliveries are read goes by it
    plan = replace(plan, periods={unit.dataset: contract.releases.calendar.periods[last - 1]})
    with one_ledger(settings), open_ledger(settings) as ledger:
        check_plan(plan, settings)
        horizon = Horizon.of(ledger, plan, contract, unit, settings)
        # of deliveries none is made beyond what is asked for: the next may be yet to come
        over = (
            last
            if contract.is_delivered
            else contract.releases.calendar.over_by(now, contract.releases.every)
        )
        progress = horizon.until(last, over, lambda: _table(plan, settings))
        if len(progress.published) == horizon.series.periods:
            sweep_private(settings)
        drawn = horizon.series.window(progress.published[:last], first, last)
        names = contract.releases.calendar.periods
        spent = (
            spending_sentence(ledger, horizon.release.account, 1, int(progress.is_new)),
            progress.sentence(horizon, first, last),
        )
    return Published(
        contract, unit, horizon.cell, drawn, names[0], spent, replace(settings, given=None)
    )


def window_of(
    plan: Plan, settings: Settings, *, until: str | None, window: int | None, now: datetime
) -> tuple[int, int] | None:
    """The first and last period of what is derived, counted from 1; None where the plan is of no
    horizon. The arguments are those of `release_planned`. Raises ParameterError: it is not over, or
    reaches back by none; or a window is given for what is no horizon.
    """
    ((_, unit),) = plan.units.items()
    contract = settings.declared(unit.dataset)
    if not METHODS[unit.method].is_series(contract):
        check_window(contract, unit, window)
        return None
    assert isinstance(contract, Contract)
    return window_places(contract, until=until, window=window, now=now)


@contextmanager
def _table(plan: Plan, settings: Settings) -> Iterator[PrivateTable]:
    with _private_plan(plan, settings):
        yield _rows(plan, settings)


@contextmanager
def _private_plan(plan: Plan, settings: Settings) -> Iterator[None]:
    """Inside, the run is planned and may read private rows; at the end both its folders are
    gone.
    """
    folder = run_folder(settings, plan.run_id)
    ((_, unit),) = plan.units.items()
    with private_rows(unit.dataset, folder, settings), passing(folder):
        begin(plan, settings)
        with settings.entered():
            yield
    shutil.rmtree(folder, ignore_errors=True)


def _rows(plan: Plan, settings: Settings) -> PrivateTable:
    """All rows that are there now."""
    ((key, unit),) = plan.units.items()
    run = str(run_folder(settings, plan.run_id))
    call_all(rows_ready, run, unit.dataset)
    return read_split(open_unit(run, key)).train
