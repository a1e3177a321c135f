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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from dpicl.contract import Contract
from dpicl.contract.models import window_places
from dpicl.contract.periods import clock
from dpicl.ground.errors import clean_errors
from dpicl.ground.types import PrivateTable
from dpicl.home.accounts import one_ledger, open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import METHODS
from dpicl.release.horizon import Horizon, uncounted
from dpicl.release.one_release import (
    PublishedRelease,
    check_cap,
    check_release,
    private_rows,
    ready,
    release_once,
    sweep_private,
)
from dpicl.release.releases import spending_sentence
from dpicl.release.request import PlannedRelease, check_window


def release_planned(
    planned: PlannedRelease,
    settings: Settings,
    *,
    until: str | None = None,
    window: int | None = None,
    now: datetime | None = None,
) -> PublishedRelease:
    """Make the release that `planned_table` plans, or where it is of a horizon all periods that are
    over and were not made; none where all of it until `until` was published.

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
    places = window_of(planned, until=until, window=window, now=now)
    if places is None:
        return release_once(planned, settings)
    (first, last), contract, unit = places, planned.contract, planned.unit
    assert isinstance(contract, Contract)
    names = contract.releases.calendar.periods
    planned = replace(planned, period=names[last - 1])  # which deliveries are read goes by it
    with one_ledger(settings), open_ledger(settings) as ledger:
        check_release(planned, settings)
        horizon = Horizon.of(ledger, contract, unit, settings)
        # of deliveries none is made beyond what is asked for: the next may be yet to come
        over = (
            last
            if contract.is_delivered
            else contract.releases.calendar.over_by(now, contract.releases.every)
        )
        progress = horizon.until(last, over, lambda: _table(planned, settings))
        if len(progress.published) == horizon.series.periods:
            sweep_private(settings)
        drawn = horizon.series.window(progress.published[:last], first, last)
        spent = (
            spending_sentence(ledger, horizon.release.account, 1, int(progress.is_new)),
            progress.sentence(horizon, first, last),
        )
    facts, without_rows = replace(planned.facts, period=names[0]), replace(settings, given=None)
    return PublishedRelease(contract, unit, horizon.cell, drawn, spent, without_rows, facts)


def window_of(
    planned: PlannedRelease, *, until: str | None, window: int | None, now: datetime
) -> tuple[int, int] | None:
    """The first and last period of what is derived, counted from 1; None where the release is of no
    horizon. The arguments are those of `release_planned`. Raises ParameterError: it is not over, or
    reaches back by none; or a window is given for what is no horizon.
    """
    contract, unit = planned.contract, planned.unit
    if not METHODS[unit.method].is_series(contract):
        check_window(contract, unit, window)
        return None
    assert isinstance(contract, Contract)
    return window_places(contract, until=until, window=window, now=now)


@contextmanager
def _table(planned: PlannedRelease, settings: Settings) -> Iterator[PrivateTable]:
    """All rows that are there now."""
    units = [planned.unit]
    until = partial(uncounted, units=units, settings=settings, period=planned.period)
    with private_rows(planned.contract, settings) as rows:
        check_cap(planned, settings)
        clean_errors("release", partial(ready, uncounted=until))(rows, planned.period)
        yield rows.train()
