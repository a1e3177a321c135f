"""A table that grows, released period by period under one budget: its horizon is charged once, and
its periods are frozen, noted, drawn and published in order, each once. Any window of them is free.

    check     the cap before a row is read, and all rows before anything is charged
    charge    the horizon, once, with the price of all its periods
    freeze    the rows of a period that is over: exact counts, written once, durably
    note      the period's release in the ledger, at no cost, with the random name of its counts
    draw      noisy sums from what is frozen of all periods until then, never from the table
    publish   first wins, as of any release
    derive    a model or averages of the rows of a window, from published sums alone

Killed anywhere, run twice or beside its twin, the same command goes on: a period that is frozen is
read back, and one that is published is not drawn again. A run of a pipeline does the same in its
stage `advance`.

Trust       Frozen counts are private: exact, with keyed hashes of who entered. They are sealed with
            the installation's key under their own horizon and period, for its owner only, and gone
            once the last period is published.
Guarantee   what the method's page says (`mst_series`, `gdp_series`), for all periods together, as
            long as each is drawn once from one history. Whatever became of the table, and however
            often a period is tried, its release is drawn from the counts that were written first:
            each has a random name, which the ledger notes with the period's charge, and others are
            refused from then on.

    series/<horizon>/00031      of the state home: its name and that of the period before; counts,
                                persons and their rows, one after another

A backup holds none of it: a ledger that came back continues no horizon (`ledger.budget`).
"""

from __future__ import annotations

import io
import json
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.contract.models import window_places
from dpicl.contract.periods import clock
from dpicl.contract.pipeline import Point
from dpicl.data.reading.source import arrival_periods, has_arrivals
from dpicl.data.reading.split import Entered, entering_rows
from dpicl.ground.errors import LedgerRefusedError, ParameterError, PrivacyError, clean_errors
from dpicl.ground.files import write_whole
from dpicl.ground.nouns import many
from dpicl.ground.types import PrivateTable
from dpicl.home.accounts import ledger_key, one_ledger, open_ledger
from dpicl.home.sealed import read_archive, write_archive
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger, ReleaseCharge
from dpicl.ledger.keys import keyed_hash
from dpicl.methods import METHODS, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.counted_horizon import SURE, Arrays, CountedHorizon, Exact
from dpicl.release.names import ReleaseFacts, part_of
from dpicl.release.one_release import (
    PublishedRelease,
    check_cap,
    check_release,
    private_rows,
    ready,
    release_once,
    sweep_private,
)
from dpicl.release.releases import NamedRelease, named_releases, paying_account, spending_sentence
from dpicl.release.request import PlannedRelease, check_window


@dataclass(frozen=True)
class HorizonProgress:
    """What all published periods of a horizon published, how many of them only now, and whether the
    horizon was charged now.
    """

    published: Sequence[Arrays]
    made: int
    is_new: bool

    def sentence(self, horizon: Horizon, first: int, last: int, more: str = "") -> str:
        """What was made, and which periods rows are of; `more` tells this horizon from others of
        the contract.
        """
        names = horizon.contract.releases.calendar.periods
        made = (
            f"{many(self.made, 'period')} released now, "
            f"{len(self.published)} of {len(names)} in all"
        )
        window = horizon.series.window_rows(self.published[:last], [(first, last)])
        few = (
            ""
            if window.rows[0] > SURE * window.deviations[0]
            else ", and hardly more than noise: that window has too few rows"
        )
        return (
            f"{horizon.contract.name}{more}: {made}; rows are of {names[first - 1]} to "
            f"{names[last - 1]}{few}."
        )


@dataclass(frozen=True)
class Horizon:
    """One horizon of a contract: its release, and those of its periods, counted from 1."""

    ledger: Ledger
    point: Point[Any]
    named: NamedRelease

    @staticmethod
    def all_of(
        ledger: Ledger,
        contract: Contract,
        method: str,
        asked: Sequence[Point[Any]],
        settings: Settings,
    ) -> list[Horizon]:
        """Those of these releases, each charged by itself; opens their account."""
        account = paying_account(ledger, contract, method, settings)
        named = named_releases(account, contract, method, asked, settings, ReleaseFacts())
        return [Horizon(ledger, point, named[point.key]) for point in asked]

    @staticmethod
    def of(ledger: Ledger, planned: PlannedRelease, settings: Settings) -> Horizon:
        """That of one release."""
        contract = planned.contract
        assert isinstance(contract, Contract)
        (horizon,) = Horizon.all_of(ledger, contract, planned.method, [planned.point], settings)
        return horizon

    @property
    def contract(self) -> Contract:
        """Whose periods are counted."""
        assert isinstance(self.named.contract, Contract)
        return self.named.contract

    @property
    def release(self) -> ReleaseCharge:
        """That of the whole horizon, in the ledger."""
        return self.named.charge

    @property
    def settings(self) -> Settings:
        """Of the installation."""
        return self.named.settings

    @cached_property
    def series(self) -> CountedHorizon[Any, Any]:
        """Its counters."""
        return tabular(self.named.method).series(self.contract, self.point)

    @property
    def frozen(self) -> FrozenPeriods:
        """What its periods counted."""
        return FrozenPeriods(
            self.settings, self._key, self.release.release_id, self.contract.name, self.series
        )

    def until(
        self,
        last: int,
        over: int,
        rows: Callable[[], AbstractContextManager[PrivateTable]],
        begun: Callable[[bool, int], object] = lambda is_new, published: None,
    ) -> HorizonProgress:
        """Have at least the periods 1 to `last` published: where some are not, those until `over`
        are made in order, from the rows that `rows` gives. Nothing is read nor charged where they
        are. Once all of the horizon are published, what is private of it is gone. `begun` is told,
        before anything is drawn, whether the horizon was charged now and how many periods were
        published. Raises DpiclError: the budget does not allow it; LedgerRefusedError: the horizon
        cannot go on.
        """
        before = published = self.published(self.series.periods)
        is_new = False
        if len(before) < last:  # a window of what is published needs no further period
            try:
                history = self.history(len(before))
                with rows() as table:
                    is_new = self.charge()
                    begun(is_new, len(before))
                    published = self.make(over, history, before, table)
            except (LedgerRefusedError, PrivacyError, FileNotFoundError):
                # a twin may have ended the horizon meanwhile: what was frozen is gone, and frozen
                # anew it is another one than was charged
                if len(published := self.published(self.series.periods)) < last:
                    raise
        # also after one that was killed, or froze again, when these were gone
        if len(published) == self.series.periods:
            self.frozen.forget()
        return HorizonProgress(published, len(published) - len(before), is_new)

    def uncounted(self, last: int) -> list[int]:
        """The periods until `last` whose rows are yet to be counted: neither published nor frozen.
        Raises LedgerRefusedError: see `frozen`.
        """
        made = len(self.published(self.series.periods))
        return [period for period in range(made + 1, last + 1) if self.frozen.read(period) is None]

    def charge(self) -> bool:
        """Charge the price of all periods, unless it was charged, and publish what the horizon is;
        whether it was charged now.
        """
        reserved = self.named.reserve(self.ledger)
        if reserved.is_missing:
            stated = {"periods": self.contract.releases.calendar.periods, **self.series.stated}
            self.named.publish(self.ledger, json.dumps(stated, sort_keys=True).encode())
        return reserved.is_new

    def published(self, periods: int) -> list[Arrays]:
        """What the first so many periods published, up to the first that did not."""
        released: list[Arrays] = []
        won = {
            entry.release.release_id
            for entry in self.ledger.entries(self.release.account)
            if entry.artefact_sha256 is not None
        }
        for period in range(1, periods + 1):
            part = self.part(period)
            if part.release_id not in won:
                break
            released.append(self._read(self._named(part)))
        return released

    @cached_property
    def _key(self) -> bytes:
        return ledger_key(self.settings)

    @cached_property
    def _contract(self) -> str:
        return contract_digest(self.contract)

    def part(self, period: int, frozen: str = "") -> ReleaseCharge:
        """A period's release, which costs nothing beside the horizon; its name says nothing of
        rows, `frozen` is that of its counts.
        """
        name = self.contract.releases.calendar.periods[period - 1]
        return part_of(
            self._key,
            self.release,
            self._contract,
            index=period,
            period=name,
            noted={"frozen": frozen},
        )

    def history(self, made: int) -> list[PeriodCounts]:
        """What is frozen of the periods that are made. Raises LedgerRefusedError: some is lost, or
        is not what the ledger notes, so that what would be refused after rows were read is refused
        for free.
        """
        history = self.frozen.history(made)
        self.ledger.check_horizon(self.release.release_id)
        for period in (made, made + 1):
            noted = (
                self.ledger.find(self.part(period).release_id)
                if 1 <= period <= self.series.periods
                else None
            )
            stands = self.frozen.read(period) if noted is not None else None
            if noted is not None and (
                stands is None or stands.name != noted.release.parameters["frozen"]
            ):
                raise LedgerRefusedError(
                    f"{self.contract.name}: the counts of period {period} are lost, or others; "
                    f"{RESTART}"
                )
        return history

    def make(
        self,
        over: int,
        history: Sequence[PeriodCounts],
        published: Sequence[Arrays],
        rows: PrivateTable,
    ) -> list[Arrays]:
        """Freeze, note, draw and publish in order the periods that are over and not `published`;
        gives what all of them published.
        """
        frozen = list(history)
        made = list(published)
        arrived = arrival_periods(rows, self.contract)
        for period in range(len(made) + 1, over + 1):
            stands = self.frozen.read(period)
            if stands is None:
                if not has_arrivals(rows, self.contract, period):
                    raise LedgerRefusedError(
                        f"{self.contract.name}: the counts of period {period} are gone since its "
                        f"delivery was left unread; start again"
                    )
                own = PrivateTable(rows.data.take(np.flatnonzero(arrived == period)))
                counts, entered = self._counted(
                    own, Entered.together(counted.entered for counted in frozen)
                )
                before = frozen[-1].name if frozen else ""
                stands = self.frozen.freeze(
                    period, self.series.needed(counts, made), entered, before=before
                )
            frozen.append(stands)
            made.append(self._released(period, frozen, made))
        return made

    def _counted(self, rows: PrivateTable, entered: Entered) -> tuple[Any, Entered]:
        """See `entering_counts`; everybody's rows are told apart by one key for the whole
        horizon.
        """
        key = bytes.fromhex(keyed_hash(self._key, "participation", self.release.release_id))
        return entering_counts(self.series, rows, self.contract, entered, key=key)

    def _released(
        self, period: int, history: Sequence[PeriodCounts], published: Sequence[Arrays]
    ) -> Arrays:
        """A period's release: noted, drawn and published, unless it was."""
        named = self._named(self.part(period, history[-1].name))
        if named.reserve(self.ledger).is_missing:
            stream = draws_for(self.contract, self.point.seed).secret("period", str(period))
            content = io.BytesIO()
            np.savez(
                content,
                allow_pickle=False,
                **self.series.draw([night.counts for night in history], published, stream),
            )
            named.publish(self.ledger, content.getvalue())
        return self._read(named)

    def _read(self, named: NamedRelease) -> Arrays:
        """What a period published."""
        with np.load(io.BytesIO(named.read(self.ledger)), allow_pickle=False) as stored:
            return dict(stored)

    def _named(self, part: ReleaseCharge) -> NamedRelease:
        return replace(self.named, charge=part)


def uncounted(
    contract: Contract,
    asked: Iterable[tuple[str, Sequence[Point[Any]]]],
    settings: Settings,
    period: str,
) -> list[int]:
    """The periods until this one whose deliveries are yet to be counted, by any of the horizons of
    what these methods are asked for. Raises LedgerRefusedError: a horizon cannot go on.
    """
    last = contract.releases.calendar.index(period)
    with open_ledger(settings) as ledger:
        every = [
            Horizon.all_of(ledger, contract, method, points, settings) for method, points in asked
        ]
        return sorted(
            {number for some in every for horizon in some for number in horizon.uncounted(last)}
        )


def entering_counts(
    series: CountedHorizon[Exact, Any],
    rows: PrivateTable,
    contract: Contract,
    entered: Entered,
    *,
    key: bytes,
) -> tuple[Exact, Entered]:
    """Exact counts of the rows of a period that enter, less those that take others back; and whose
    all of these are. The other arguments are those of `entering_rows`.
    """
    places, new = entering_rows(rows, contract, entered, key=key)
    if contract.source.sign is None:
        return series.counted(rows, contract, places), new
    signs = rows.numbers(contract.source.sign)[places]
    come, back = (series.counted(rows, contract, places[signs == sign]) for sign in (1, -1))
    return come - back, new


FOLDER = "series"
_ABOUT = "about.json"
_ARRAYS = "arrays"
_NAME_BYTES = 16


@dataclass(frozen=True)
class PeriodCounts:
    """One period: its random name and that of the period before, exact counts, and how many rows of
    each person entered.
    """

    name: str
    before: str
    counts: Any
    entered: Entered


def new_name(_counts: np.ndarray) -> str:
    """At random, whatever was counted: the ledger shows it."""
    return secrets.token_hex(_NAME_BYTES)


@dataclass(frozen=True)
class FrozenPeriods:
    """The periods of one horizon, by the id of its release; `where` names it in messages, and
    `method` knows what was counted.
    """

    settings: Settings
    key: bytes
    horizon: str
    where: str
    method: CountedHorizon[Any, Any]

    def freeze(self, period: int, counts: Any, entered: Entered, *, before: str) -> PeriodCounts:
        """Write a period, unless it is there; gives what stands. Raises LedgerRefusedError: a twin
        has ended the horizon meanwhile.
        """
        said, flat = self.method.packed(counts)
        about, arrays = _packed(flat, entered)
        named = json.dumps({**said, **about, "name": new_name(flat), "before": before}).encode()
        contents = ((_ABOUT, named), (_ARRAYS, zlib.compress(arrays, 1)))
        self.settings.own(FOLDER, self.horizon)
        write_whole(
            self._path(period), lambda file: write_archive(file, self._key(period), iter(contents))
        )
        stands = self.read(period)
        if stands is None:
            raise LedgerRefusedError(
                f"{self.where}: the counts of period {period} are gone; {RESTART}"
            )
        return stands

    def read(self, period: int) -> PeriodCounts | None:
        """A period as it was frozen; None before.
        Raises LedgerRefusedError: its file is another one, or damaged.
        """
        path = self._path(period)
        if not path.exists():
            return None
        try:
            contents = dict(read_archive(path, self._key(period)))
            about = json.loads(contents[_ABOUT])
            flat, entered = _unpacked(about, zlib.decompress(contents[_ARRAYS]))
            counts = self.method.unpacked(about, flat)
        except (ParameterError, KeyError, ValueError, zlib.error):
            raise LedgerRefusedError(
                f"{self.where}: the counts of period {period} are damaged, or of another "
                f"installation; {RESTART}"
            ) from None
        return PeriodCounts(about["name"], about["before"], counts, entered)

    def history(self, periods: int) -> list[PeriodCounts]:
        """Periods 1 to `periods`, each of which names the one before. Raises LedgerRefusedError:
        one is lost, or is another one.
        """
        frozen: list[PeriodCounts] = []
        for period in range(1, periods + 1):
            night = self.read(period)
            if night is None or night.before != (frozen[-1].name if frozen else ""):
                what = (
                    "are lost"
                    if night is None
                    else "are not those that the period before was counted with"
                )
                raise LedgerRefusedError(
                    f"{self.where}: the counts of period {period} {what}; {RESTART}"
                )
            frozen.append(night)
        return frozen

    def forget(self) -> None:
        """Remove all periods: the horizon is over."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.settings.home / FOLDER / self.horizon

    def _path(self, period: int) -> Path:
        return self._folder / f"{period:05}"

    def _key(self, period: int) -> bytes:
        return bytes.fromhex(keyed_hash(self.key, "frozen period", self.horizon, period))


RESTART = "what was published stands, and a new horizon (`releases.first`) is a new charge"


def _narrow(values: np.ndarray) -> np.ndarray:
    """In the shortest signed whole numbers that hold them."""
    most = int(np.abs(values).max()) if values.size else 0
    return values.astype(np.min_scalar_type(-most - 1))


def _packed(flat: np.ndarray, entered: Entered) -> tuple[dict[str, Any], bytes]:
    """All arrays one after another, and what they are: many small files of arrays would take longer
    to read than to count.
    """
    counts = _narrow(flat)
    rows = _narrow(entered.rows)
    about = {"counts": counts.dtype.str, "persons": len(rows), "rows": rows.dtype.str}
    return about, counts.tobytes() + entered.persons.tobytes() + rows.tobytes()


def _unpacked(about: Mapping[str, Any], content: bytes) -> tuple[np.ndarray, Entered]:
    after = about["persons"] * (np.dtype(np.uint64).itemsize + np.dtype(about["rows"]).itemsize)
    flat = np.frombuffer(
        content, about["counts"], (len(content) - after) // np.dtype(about["counts"]).itemsize
    )
    persons = np.frombuffer(content, np.uint64, about["persons"], flat.nbytes)
    rows = np.frombuffer(content, about["rows"], about["persons"], flat.nbytes + persons.nbytes)
    return flat, Entered(persons, rows.astype(np.int64))


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
    first, last = places
    contract = planned.contract
    assert isinstance(contract, Contract)
    names = contract.releases.calendar.periods
    planned = replace(planned, period=names[last - 1])  # which deliveries are read goes by it
    with one_ledger(settings), open_ledger(settings) as ledger:
        check_release(planned, settings)
        check_cap(planned, settings)
        horizon = Horizon.of(ledger, planned, settings)
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
    named = replace(planned, period=names[0])
    return PublishedRelease(named, drawn, spent, replace(settings, given=None), named.facts)


def window_of(
    planned: PlannedRelease, *, until: str | None, window: int | None, now: datetime
) -> tuple[int, int] | None:
    """The first and last period of what is derived, counted from 1; None where the release is of no
    horizon. The arguments are those of `release_planned`. Raises ParameterError: it is not over, or
    reaches back by none; or a window is given for what is no horizon.
    """
    contract = planned.contract
    method = planned.method
    if not METHODS[method].is_series(contract):
        check_window(contract, method, window)
        return None
    assert isinstance(contract, Contract)
    return window_places(contract, until=until, window=window, now=now)


@contextmanager
def _table(planned: PlannedRelease, settings: Settings) -> Iterator[PrivateTable]:
    """All rows that are there now."""
    asked = [(planned.method, [planned.point])]
    until = partial(uncounted, asked=asked, settings=settings, period=planned.period)
    with private_rows(planned.contract, settings) as rows:
        clean_errors("release", partial(ready, uncounted=until))(rows, planned.period)
        yield rows.train()
