"""Claims on a table that grows, released night after night: neighbours are histories of the table,
in which one person's rows differ at will.

equal     all public bytes of every night are equal between neighbouring histories, once the draws
          are
covered   what the person moves of all exact sums of all nights, over their noise, is no more than
          what the horizon was charged
late      rows of days that were released already move nothing
corrected rows that take others back are covered as rows are, also where one person's are exchanged
for another's exchanged another person's averages in one's place are covered, where all numbers are
at opposite bounds and nothing is taken back

All but the last two are claimed of a table with a column of days, and of deliveries: a file for
each night, in most of which the person is alone. All but the last are claimed of rows and,
`groups`, of averages of two groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from lab.audit.end_to_end.commands import Command, protect
from lab.audit.end_to_end.observation import Observation, observed
from lab.audit.end_to_end.stand_ins import ReplayedDraws, everywhere, standing_clock
from lab.audit.end_to_end.world import FIRST_DAY, NAME, Declaration, SourceRow, World, new_world

NIGHTS = 6
"""Of a horizon, in the first of which pairs are chosen."""
JOINS, PERSONS = 3, 12
"""The night in which a late joiner comes, and persons who are in all histories."""
Broken = list[str]
History = list[list[SourceRow]]
"""What the table holds in each night."""
Noised = list[tuple[float, np.ndarray]]
"""Variances, and the exact sums that got noise of them."""


def _row(
    person: int, day: int, *, spent: int = 10, city: str = "north", member: str = "no", **sign: int
) -> SourceRow:
    arrived = (FIRST_DAY + timedelta(days=day - 1)).isoformat()
    return {
        "person": person,
        "day": arrived,
        "spent": spent,
        "city": city,
        "member": member,
        **sign,
    }


def night_rows(night: int) -> list[SourceRow]:
    """Rows of everybody else until a night."""
    return [
        _row(
            person,
            day,
            spent=7 * person,
            city=("north", "south")[person % 2],
            member=("no", "yes")[person // 2 % 2],
        )
        for day in range(1, night + 1)
        for person in range(PERSONS)
        if (person + day) % 3 == 0
    ]


def _one(*days: int, **how: Any) -> list[SourceRow]:
    return [
        _row(1000, day, **{"spent": 99, "city": "south", "member": "yes", **how}) for day in days
    ]


HISTORIES: dict[str, Callable[[int], list[SourceRow]]] = {
    "in every night": lambda night: _one(*range(1, night + 1)),
    "a late joiner": lambda night: _one(*range(JOINS, night + 1)),
    "a leaver": lambda night: _one(*range(1, night + 1)) if night < JOINS else [],
    "a correction": lambda night: _one(1) if night < JOINS else _one(1, spent=1, city="north"),
    "one who is only ever here today": lambda night: _one(night),
    "one whose rows become more": lambda night: _one(*range(1, night + 1)) * night,
}
"""The person's rows in the table of a night."""
BEYOND: Callable[[int], list[SourceRow]] = lambda night: _one(*range(1, night + 1), spent=10**6)
"""Values beyond all bounds, of which the log of `validate` says that there are some; they are
clipped before they are counted.
"""
LATE: Callable[[int], list[SourceRow]] = lambda night: _one(*range(1, night))
"""Rows of days that are released already."""


def _history(one: Callable[[int], list[SourceRow]] | None, *, deliveries: bool = False) -> History:
    """Of deliveries everybody else has rows in the first alone."""
    return [
        [*night_rows(1 if deliveries else night), *(one(night) if one else [])]
        for night in range(1, NIGHTS + 1)
    ]


def _put(world: World, rows: list[SourceRow], *, deliveries: bool) -> None:
    """What the source holds: of deliveries a file for each night, with rows or without."""
    if not deliveries:
        world.put(rows, "csv", tuple(_row(0, 1)))
        return
    folder = world.data / NAME
    folder.mkdir(parents=True, exist_ok=True)
    columns = [name for name in _row(0, 1) if name != "day"]
    for night in range(NIGHTS):
        day = (FIRST_DAY + timedelta(days=night)).isoformat()
        lines = [",".join(str(row[name]) for name in columns) for row in rows if row["day"] == day]
        (folder / f"{day}.csv").write_text("\n".join([",".join(columns), *lines, ""]))


@contextmanager
def after_nights(number: int) -> Iterator[None]:
    """The time after so many days."""
    at = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, 2, tzinfo=UTC) + timedelta(
        days=number
    )
    with everywhere("clock", lambda _: lambda: at):
        yield


@contextmanager
def _apart(**more: Any) -> Iterator[World]:
    with (
        new_world(Declaration(person=True, nights=NIGHTS, **more)) as world,
        world.entered(),
        standing_clock(),
    ):
        yield world


def _night(groups: bool) -> Command:
    """What is done every night."""
    return protect(GdpTabicl.name, more=("--shots", "2")) if groups else protect(MstTabicl.name)


def equal(*, deliveries: bool = False, groups: bool = False) -> Broken:
    """All public bytes of every night."""
    histories = {
        name: _history(one, deliveries=deliveries)
        for name, one in {"": None, **HISTORIES, "late": LATE}.items()
    }
    return series_alike(histories, deliveries=deliveries, groups=groups)


def series_alike(
    histories: Mapping[str, History], *, deliveries: bool = False, groups: bool = False
) -> Broken:
    """All public bytes of every night of these histories are those of the first."""
    broken, replay, first = [], ReplayedDraws(), list[Observation]()
    with _apart(deliveries=deliveries) as world:
        for name, history in histories.items():
            shown = _shown(world, history, replay, _night(groups), deliveries=deliveries)
            first = first or shown
            if first[-1].code:
                return [f"there is nothing to compare: {first[-1].error}"]
            nights = zip(_LOOKED_AT, first, shown, strict=True)
            broken += [
                f"{name}: night {night}: {said}"
                for night, mine, theirs in nights
                for said in mine.differing(theirs)
            ]
    return broken


_LOOKED_AT = (1, NIGHTS // 2, NIGHTS)
"""Nights in which all bytes are compared; those between are caught up by the next."""


def _shown(
    world: World, history: History, replay: ReplayedDraws, made: Command, *, deliveries: bool
) -> list[Observation]:
    world.forget()
    names, shown = count(), []
    for night in _LOOKED_AT:
        _put(world, history[night - 1], deliveries=deliveries)
        with (
            after_nights(night),
            replay.recorded(),
            everywhere("new_name", lambda named: _named(named, names)),
        ):
            shown.append(observed(world, made))
    return shown


def _named(new_name: Callable[[Any], str], names: Iterator[int]) -> Callable[[Any], str]:
    """The same random names in both worlds; those that follow from the rows stay what they are."""

    def named(counts: Any) -> str:
        return f"{next(names):032x}" if new_name(counts) != new_name(counts) else new_name(counts)

    return named


def covered(*, deliveries: bool = False, groups: bool = False) -> Broken:
    """No person moves what is noised by more than what is charged for, in whatever history; late
    rows move nothing.
    """
    broken = []

    def noised(one: Callable[[int], list[SourceRow]] | None) -> tuple[Noised, float]:
        return _noised(
            world, _history(one, deliveries=deliveries), _night(groups), deliveries=deliveries
        )

    with _apart(deliveries=deliveries) as world:
        (nobody, mu_squared) = noised(None)
        for name, one in {**HISTORIES, "beyond all bounds": BEYOND}.items():
            moved = _moved(nobody, noised(one)[0])
            if not 0 < moved <= mu_squared * (1 + 1e-9):
                broken.append(f"{name}: a loss of {moved:.4g}, charged {mu_squared:.4g}")
        if late := _moved(nobody, noised(LATE)[0]):
            broken.append(f"late rows: a loss of {late:.4g}, where nothing may move")
    return broken


_ALL = range(1, NIGHTS + 1)
_DAYS = [(night, (FIRST_DAY + timedelta(days=night - 1)).isoformat()) for night in _ALL]
"""Nights and their days."""
CORRECTED: dict[str, list[SourceRow]] = {
    "rows that are taken back": [*_one(*_ALL[::2]), *_one(*_ALL[1::2], sign=-1)],
    "more taken back than a person has rows": [
        *_one(1, 2),
        *_one(*_ALL[2:], sign=-1, spent=1, city="north", member="no"),
    ],
}
"""The person's rows until the last night, with signs."""
EXCHANGED: tuple[list[SourceRow], list[SourceRow]] = (_one(*_ALL), _one(*_ALL, sign=-1))
"""Of one person, and of another in their place: what comes by the one goes by the other."""


def corrected(*, groups: bool = False) -> Broken:
    """Rows that take others back are charged as rows: no person moves what is noised by more, nor
    does another in their place.
    """
    night = _night(groups)
    broken: Broken = []
    with _apart(corrections=True) as world:
        (nobody, mu_squared) = _noised(world, _signed([]), night)
        for name, rows in CORRECTED.items():
            moved = _moved(nobody, _noised(world, _signed(rows), night)[0])
            if not 0 < moved <= mu_squared * (1 + 1e-9):
                broken.append(f"{name}: a loss of {moved:.4g}, charged {mu_squared:.4g}")
    with _apart(corrections=True, neighbours="replace-one") as world:
        (one, mu_squared), (other, _) = (_noised(world, _signed(rows), night) for rows in EXCHANGED)
        moved = _moved(one, other)
        if not 0 < moved <= mu_squared * (1 + 1e-9):
            broken.append(f"another person: a loss of {moved:.4g}, charged {mu_squared:.4g}")
    return broken


OPPOSITE: dict[str, tuple[list[SourceRow], list[SourceRow]]] = {
    "at opposite bounds, in other categories": (
        _one(*_ALL, spent=100, city="south"),
        _one(*_ALL, spent=0, city="north"),
    ),
    "in another group": (_one(*_ALL, spent=100, member="yes"), _one(*_ALL, spent=0, member="no")),
}
"""Rows of one person, and of another in their place."""


def exchanged() -> Broken:
    """Another person in one's place moves averages by no more than is charged: counts cannot, but
    sums from the middle may have opposite signs.
    """
    broken, night = [], _night(groups=True)
    with _apart(neighbours="replace-one") as world:
        for name, pair in OPPOSITE.items():
            (one, mu_squared), (other, _) = (_noised(world, _with(rows), night) for rows in pair)
            moved = _moved(one, other)
            if not 0 < moved <= mu_squared * (1 + 1e-9):
                broken.append(f"{name}: a loss of {moved:.4g}, charged {mu_squared:.4g}")
    return broken


def _with(rows: list[SourceRow]) -> History:
    """What the table holds in each night, of rows that are there from their day on."""
    return [
        [*night_rows(night), *(row for row in rows if row["day"] <= day)] for night, day in _DAYS
    ]


def _signed(rows: list[SourceRow]) -> History:
    """The same; all have a sign."""
    return [[{"sign": 1, **row} for row in each] for each in _with(rows)]


def _noised(
    world: World, history: History, command: Command, *, deliveries: bool = False
) -> tuple[Noised, float]:
    """What got noise in all nights, and mu^2 that was charged for them."""
    noised: Noised = []

    def recorded(_: Any) -> Callable[..., Any]:
        def noisy_sums(
            sums: Sequence[int] | np.ndarray, *, variance: Any, stream: Any
        ) -> list[int]:
            noised.append((float(variance), np.array(sums, dtype=np.float64)))
            return [int(total) for total in sums]

        return noisy_sums

    world.forget()
    for night, rows in enumerate(history, 1):
        _put(world, rows, deliveries=deliveries)
        # pairs are the same in all histories: those that are not chosen are a step of the budget of
        # their own
        with (
            after_nights(night),
            everywhere("noisy_sums", recorded),
            everywhere("bounded_range_max", lambda _: lambda *_scores, **_how: 1),
        ):
            made = command()
        if made.code:
            raise RuntimeError(made.err)
    with open_ledger(Settings.current()) as ledger:
        (horizon,) = [
            entry.release.guarantee
            for entry in ledger.entries(NAME)
            if entry.release.guarantee.epsilon
        ]
    event, replaced = dict(horizon.event.parameters), horizon.neighbours is Neighbours.REPLACE_ONE
    # the price of another unit in the place of one is of twice what one moves
    return noised, (float(event["sensitivity"]) / float(event["sigma"])) ** 2 * (
        4 if replaced else 1
    )


def _moved(one: Noised, other: Noised) -> float:
    if [(variance, len(sums)) for variance, sums in one] != [
        (variance, len(sums)) for variance, sums in other
    ]:
        return np.inf
    return float(
        sum(
            np.square(mine - theirs).sum() / (variance - 4)
            for (variance, mine), (_, theirs) in zip(one, other, strict=True)
        )
    )
