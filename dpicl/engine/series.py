"""A table that grows, released night after night under one budget: what is missing is made in order, and any window of it is free.

    check     the cap before a row is read, and all rows before anything is charged
    charge    the horizon, once, with the price of all its periods
    freeze    the rows of a period that is over: exact counts, written once (`frozen`)
    note      the period's release in the ledger, at no cost, with the random name of its counts
    draw      noisy sums from what is frozen of all periods until then, never from the table
    publish   first wins, as of any release
    derive    a model of the rows of a window, from published sums alone

Killed anywhere, run twice or beside its twin, the same command goes on: a period that is frozen is read back, and one that is published is
not drawn again.

Guarantee   that of `methods.mst_series` for all periods together, as long as each is drawn once from one history: what is frozen decides.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from dpicl.accounting.events import horizon_part
from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import Ledger, Release, release_id
from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.engine.artefacts import read_split
from dpicl.engine.collect import spending_sentence
from dpicl.engine.execute import call_all
from dpicl.engine.frozen import RESTART, Frozen, FrozenPeriods
from dpicl.engine.names import PERIOD
from dpicl.engine.one_release import Published, private_rows, release_once, sweep_private
from dpicl.engine.order import rows_ready
from dpicl.engine.plan import begin, check_plan
from dpicl.engine.releases import UnitReleases, ledger_key, named_releases, one_ledger, open_ledger
from dpicl.engine.run_folder import Plan, UnitFolder, open_unit, run_folder
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerRefusedError, ParameterError, PrivacyError
from dpicl.leaving import passing
from dpicl.methods import METHODS
from dpicl.methods.common import draws_for
from dpicl.methods.mst_series import Arrays, Series, chosen_pairs
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.central.bins import row_bins
from dpicl.tabular.central.exact_counts import ExactCounts
from dpicl.tabular.reading.arrivals import arrival_periods
from dpicl.tabular.reading.participation import Entered, entering_rows
from dpicl.types import PrivateCodes, PrivateTable

PART = "part_of"
"""The parameter of a period's release that names its horizon's."""


def release_planned(
    plan: Plan, settings: Settings, *, until: str | None = None, window: int | None = None, now: datetime | None = None
) -> Published:
    """Do what `one_release.plan_of` plans: one release, or where it is of a horizon all periods that are over and were not made;
    none where all of it until `until` was published.

    Args:
        until: of a horizon, the last period of what is derived; the last one that is over if left out.
        window: how many periods it reaches back; all of them if left out.
        now: in place of the clock.

    Raises:
        ParameterError: no such period is over, or these are given for what is no horizon.
        DpiclError: as `release_once`; LedgerRefusedError: the horizon cannot go on.
    """
    now = now or clock()
    places = window_of(plan, settings, until=until, window=window, now=now)
    return release_once(plan, settings) if places is None else _released(plan, settings, *places, now=now)


def clock() -> datetime:
    """The time, which decides what periods are over."""
    return datetime.now(UTC)


def _released(plan: Plan, settings: Settings, first: int, last: int, *, now: datetime) -> Published:
    ((_, unit),) = plan.units.items()
    contract = settings.contract(unit.dataset)
    with one_ledger(settings), open_ledger(settings) as ledger:
        check_plan(plan, settings)
        horizon = Horizon.of(ledger, plan, contract, unit, settings)
        over = contract.releases.calendar.over_by(now, contract.releases.every)
        before = published = horizon.published(over)
        is_new = False
        if len(before) < last:  # a window of what is published needs no further night
            try:
                history = horizon.history(len(before))
                with _private_plan(plan, settings):
                    rows = _rows(plan, settings)
                    is_new = horizon.charge()
                    published = horizon.make(over, history, before, rows)
            except (LedgerRefusedError, PrivacyError, FileNotFoundError):
                # a twin may have ended the horizon meanwhile: what was frozen is gone, and frozen anew it is another one than was charged
                if len(published := horizon.published(over)) < last:
                    raise
        if len(published) == horizon.series.periods:  # also after one that was killed, or froze again, when these were gone
            horizon.frozen.forget()
            sweep_private(settings)
        drawn = horizon.series.window(published[:last], first, last)
        names = contract.releases.calendar.periods
        made = f"{len(published) - len(before)} periods released now, {len(published)} of {len(names)} in all"
        derived = f"{contract.name}: {made}; rows are of {names[first - 1]} to {names[last - 1]}."
        spent = (spending_sentence(ledger, horizon.release.account, 1, int(is_new)), derived)
    return Published(contract, unit, horizon.cell, drawn, names[0], spent, replace(settings, given=None))


def window_of(plan: Plan, settings: Settings, *, until: str | None, window: int | None, now: datetime) -> tuple[int, int] | None:
    """The first and last period of what is derived, counted from 1; None where the plan is of no horizon. The arguments are those of
    `release_planned`. Raises ParameterError: it is not over, or reaches back by none; or a window is given for what is no horizon.
    """
    ((_, unit),) = plan.units.items()
    contract = settings.declared(unit.dataset)
    if not METHODS[unit.method].is_series(contract):
        if window is not None:
            raise ParameterError(
                "window", window, f"no such option: {contract.name} has no horizon that {METHODS[unit.method].title} counts"
            )
        return None
    assert isinstance(contract, Contract)
    calendar = contract.releases.calendar
    over = calendar.over_by(now, contract.releases.every)
    last = over if until is None else calendar.index(until)
    if not 1 <= last <= over:
        named = calendar.periods[0] if until is None else until
        raise ParameterError("period", named, f"a period of {contract.name} that is over in UTC; its rows are counted then")
    if window is not None and window < 1:
        raise ParameterError("window", window, "a number of periods, 1 or more")
    return max(1, last - (window or last) + 1), last


@contextmanager
def _private_plan(plan: Plan, settings: Settings) -> Iterator[None]:
    """Inside, the run is planned and may read private rows; at the end both its folders are gone."""
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
    call_all(rows_ready(run, unit.dataset))
    return read_split(open_unit(run, key)).train


@dataclass(frozen=True)
class Horizon:
    """One horizon of a contract: its release in the ledger, and those of its periods, counted from 1."""

    ledger: Ledger
    contract: Contract
    unit: Unit
    cell: Cell
    release: Release
    settings: Settings

    @staticmethod
    def of(ledger: Ledger, plan: Plan, contract: Contract, unit: Unit, settings: Settings) -> Horizon:
        """The horizon that a plan names; opens its account."""
        named = named_releases(ledger, contract, unit, settings, period=plan.period_of(unit.dataset))
        ((cell, release),) = named.items()
        return Horizon(ledger, contract, unit, cell, release, settings)

    @cached_property
    def series(self) -> Series:
        """Its counters."""
        method = METHODS[self.unit.method]
        assert isinstance(method, MstTabicl)
        return method.series(self.contract, self.unit, self.cell)

    @property
    def frozen(self) -> FrozenPeriods:
        """What its periods counted."""
        return FrozenPeriods(self.settings, self._key, self.release.release_id, self.contract.name)

    def charge(self) -> bool:
        """Charge the price of all periods, unless it was charged, and publish what the horizon is; whether it was charged now."""
        one = self._releases(self.release)
        answer = one.charge(self.ledger, self.cell)
        if answer.artefact_sha256 is None:
            stated = {"periods": self.contract.releases.calendar.periods, "sizes": self.series.sizes, "structure": self.series.structure}
            one.publish(self.ledger, self.cell, json.dumps(stated, sort_keys=True).encode())
        return answer.is_new

    def published(self, periods: int) -> list[Arrays]:
        """What the first so many periods published, up to the first that did not."""
        released: list[Arrays] = []
        won = {entry.release.release_id for entry in self.ledger.entries(self.release.account) if entry.artefact_sha256 is not None}
        for period in range(1, periods + 1):
            part = self.part(period)
            if part.release_id not in won:
                break
            released.append(self._read(self._releases(part)))
        return released

    @cached_property
    def _key(self) -> bytes:
        return ledger_key(self.settings)

    @cached_property
    def _contract(self) -> str:
        return contract_digest(self.contract)

    def part(self, period: int, frozen: str = "") -> Release:
        """A period's release, which costs nothing beside the horizon; its name says nothing of rows, `frozen` is that of its counts."""
        name = self.contract.releases.calendar.periods[period - 1]
        facts = {PART: self.release.release_id, "index": period, PERIOD: name, "simulated": False}
        guarantee = self.release.guarantee
        named = release_id(
            self._key,
            account=self.release.account,
            mechanism=self.unit.method,
            mechanism_version=METHODS[self.unit.method].draw_version,
            parameters=facts,
            contract_digest=self._contract,
            neighbours=guarantee.neighbours,
            period=name,
        )
        event = horizon_part(self.release.release_id, period)
        free = Guarantee(0.0, 0.0, guarantee.neighbours, guarantee.unit, event)
        return Release(named, self.release.account, self.unit.method, {**facts, "frozen": frozen}, free)

    def history(self, made: int) -> list[Frozen]:
        """What is frozen of the periods that are made. Raises LedgerRefusedError: some is lost, or is not what the ledger notes, so that what
        would be refused after rows were read is refused for free.
        """
        history = self.frozen.history(made)
        for period in (made, made + 1):
            noted = self.ledger.find(self.part(period).release_id) if 1 <= period <= self.series.periods else None
            stands = self.frozen.read(period) if noted is not None else None
            if noted is not None and (stands is None or stands.name != noted.release.parameters["frozen"]):
                raise LedgerRefusedError(f"{self.contract.name}: the counts of period {period} are lost, or others; {RESTART}")
        return history

    def make(self, over: int, history: Sequence[Frozen], published: Sequence[Arrays], rows: PrivateTable) -> list[Arrays]:
        """Freeze, note, draw and publish in order the periods that are over and not `published`; gives what all of them published."""
        frozen, made = list(history), list(published)
        arrived = arrival_periods(rows, str(self.contract.source.arrived), self.contract.releases)
        for period in range(len(made) + 1, over + 1):
            chosen = chosen_pairs(made[self.series.structure - 1]) if period > self.series.structure else None
            stands = self.frozen.read(period)
            if stands is None:
                own = PrivateTable(rows.data.take(np.flatnonzero(arrived == period)))
                counts, entered = self._counted(own, Entered.together(one.entered for one in frozen))
                before = frozen[-1].name if frozen else ""
                stands = self.frozen.freeze(period, self.series.kept(counts, period, chosen), entered, before=before)
            frozen.append(stands)
            made.append(self._released(period, frozen, made))
        return made

    def _counted(self, rows: PrivateTable, entered: Entered) -> tuple[ExactCounts, Entered]:
        """Exact counts of the rows of a period that enter, and whose they are."""
        key = bytes.fromhex(keyed_hash(self._key, "participation", self.release.release_id))
        places, new = entering_rows(rows, self.contract, entered, key=key)
        return ExactCounts.of(PrivateCodes(row_bins(rows, self.contract)[places]), self.series.sizes), new

    def _released(self, period: int, history: Sequence[Frozen], published: Sequence[Arrays]) -> Arrays:
        """A period's release: noted, drawn and published, unless it was."""
        one = self._releases(self.part(period, history[-1].name))
        if one.charge(self.ledger, self.cell).artefact_sha256 is None:
            stream = draws_for(self.contract, self.unit.seed).secret("period", str(period))
            content = io.BytesIO()
            np.savez(content, allow_pickle=False, **self.series.draw([one.counts for one in history], published, stream))
            one.publish(self.ledger, self.cell, content.getvalue())
        return self._read(one)

    def _read(self, release: UnitReleases) -> Arrays:
        """What a period published."""
        with np.load(io.BytesIO(release.read(self.ledger, self.cell)), allow_pickle=False) as stored:
            return dict(stored)

    def _releases(self, release: Release) -> UnitReleases:
        return UnitReleases(UnitFolder(Path(), self.unit, self.contract, self.settings), {self.cell: release})
