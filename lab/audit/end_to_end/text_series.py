"""Claims on texts that arrive period by period: neighbours are histories of deliveries, in one of
which there is one text more or less.

equal   all public bytes of every period are equal between neighbouring histories, once the draws
        are
alone   the text moves what one period's demonstrations are written from, by itself alone, and no
        other's; a late one moves nothing. All periods together are charged what one release of such
        a delivery is
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import few_shot_generation
from dpicl.methods.few_shot_generation import FewShotGeneration
from lab.audit.end_to_end.commands import protect
from lab.audit.end_to_end.observation import Observation, observed
from lab.audit.end_to_end.series import Broken, after_nights
from lab.audit.end_to_end.stand_ins import ReplayedDraws, standing_clock
from lab.audit.end_to_end.world import (
    CATEGORIES,
    FIRST_DAY,
    NAME,
    Declaration,
    SourceRow,
    World,
    new_world,
)

PERIODS = 3
History = Callable[[int, int], list[SourceRow]]
"""What the file of a period holds besides everybody else's texts when another period is written."""
Read = list[Counter[tuple[str, str]]]
"""What every period was written from: texts with their labels."""
_ONE: SourceRow = {"city": "south", "body": "a letter unlike all others"}


def _nothing(_period: int, _now: int) -> list[SourceRow]:
    return []


HISTORIES: dict[str, History] = {
    "in the first period": lambda period, _: [_ONE] * (period == 1),
    "in the last period": lambda period, _: [_ONE] * (period == PERIODS),
    "gone once its period is over": lambda period, now: [_ONE] * (period == now == 1),
}
LATE: History = lambda period, now: [_ONE] * (period < now)
"""In files of periods that are written already."""


def _day(period: int) -> str:
    return (FIRST_DAY + timedelta(days=period - 1)).isoformat()


OTHERS = (8, 8, 0)
"""Texts of everybody else in every period."""


def _put(world: World, one: History, now: int, others_in: Sequence[int] = OTHERS) -> None:
    """The files of all periods."""
    folder = world.data / NAME
    folder.mkdir(parents=True, exist_ok=True)
    (world.data / "public.jsonl").write_text(
        json.dumps({"city": "north", "body": "who is there?"}) + "\n"
    )
    cities = CATEGORIES["city"]
    for period in range(1, PERIODS + 1):
        others = [
            {"city": cities[place % 2], "body": f"letter {period} {place}"}
            for place in range(others_in[period - 1])
        ]
        records = [*others, *one(period, now)]
        (folder / f"{_day(period)}.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in records)
        )


@contextmanager
def _apart() -> Iterator[World]:
    with (
        new_world(Declaration("texts", nights=PERIODS)) as world,
        world.entered(),
        standing_clock(),
    ):
        yield world


def _written(period: int) -> Callable[[], Any]:
    return protect(FewShotGeneration.name, more=("--generator", "fake", "--period", _day(period)))


def equal(others_in: Sequence[int] = OTHERS) -> Broken:
    """All public bytes of every period, where everybody else has so many texts in each; and what
    there is with the usual ones.
    """
    broken, replay = [], ReplayedDraws()
    with _apart() as world:
        first = _shown(world, _nothing, replay, OTHERS)
        if first[-1].code:
            return [f"there is nothing to compare: {first[-1].error}"]
        for name, one in {"nobody": _nothing, **HISTORIES, "late": LATE}.items():
            periods = enumerate(zip(first, _shown(world, one, replay, others_in), strict=True), 1)
            broken += [
                f"{name}: period {period}: {said}"
                for period, (mine, theirs) in periods
                for said in mine.differing(theirs)
            ]
    return broken


def _shown(
    world: World, one: History, replay: ReplayedDraws, others_in: Sequence[int]
) -> list[Observation]:
    world.forget()
    shown = []
    for period in range(1, PERIODS + 1):
        _put(world, one, period, others_in)
        with after_nights(period), replay.recorded():
            shown.append(observed(world, _written(period)))
    return shown


def alone() -> Broken:
    """One text is read in one period, and all are charged as one."""
    broken = []
    with _apart() as world:
        nobody = _read(world, _nothing)
        with open_ledger(Settings.current()) as ledger:
            charged = [entry.release.guarantee.epsilon for entry in ledger.entries(NAME)]
        if charged[1:] != [0.0] * PERIODS or not charged[0]:
            broken.append(f"charges of {charged}, where the horizon alone costs")
        for name, one in HISTORIES.items():
            moved = _moved(nobody, _read(world, one))
            if sorted(moved) != [0] * (PERIODS - 1) + [1]:
                broken.append(
                    f"{name}: {moved} texts more or less in the periods, where one may move one "
                    f"period"
                )
        if any(late := _moved(nobody, _read(world, LATE))):
            broken.append(f"late texts: {late} more or less in the periods, where nothing may move")
    return broken


def _moved(one: Read, other: Read) -> list[int]:
    return [
        ((mine - theirs) + (theirs - mine)).total() for mine, theirs in zip(one, other, strict=True)
    ]


def _read(world: World, one: History) -> Read:
    """What every period was written from."""
    read: Read = []
    write = few_shot_generation.write

    def reading(train: Any, *arguments: Any, **how: Any) -> Any:
        read.append(Counter((row["label"], row["text"]) for row in train.data.to_pylist()))
        return write(train, *arguments, **how)

    world.forget()
    for period in range(1, PERIODS + 1):
        _put(world, one, period)
        with after_nights(period), patch.object(few_shot_generation, "write", reading):
            made = _written(period)()
        if made.code:
            raise RuntimeError(made.err)
    return read
