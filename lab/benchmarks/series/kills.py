"""SIGKILL anywhere in a night of a series, over and over: every period is frozen once, drawn once
as far as anybody sees, and charged nothing.

Nights follow each other under one horizon, then under the next. In each, one to three processes
make the night beside each other; most kill themselves before a change of a file or a commit of the
ledger, at a place dealt beforehand; then others come, and at last one that lives. Before each try
the table is another one, its past too. After each death an observer reads what a later reader
would.
"""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import yaml

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.release.horizon import Horizon, release_planned
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.fork_server import own_fork_server
from tests.harness import Place, new_place
from tests.library.series_contracts import NAME, after, series_tree, visits

KILLS, PERIODS, EPSILON = sized(500, 5), sized(12, 3), "2"
_CHANGES = ("os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
_PATIENCE_SECONDS = 120.0
_NEVER, _COUNTED = 10**9, "changes"
Mutation = Callable[[], None] | None


@dataclass
class Seen:
    """What an observer saw of a horizon: hashes of frozen files and of published artefacts by
    period, and what is spent.
    """

    frozen: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    published: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    spent: set[float] = field(default_factory=set)

    @property
    def second(self) -> int:
        """Counts or draws beyond the first of a period, and prices beyond the first."""
        several: list[Sized] = [*self.frozen.values(), *self.published.values(), self.spent]
        return sum(max(0, len(one) - 1) for one in several)


@dataclass
class Verdict:
    """Of all horizons; every count but `kills` has zero as its right value."""

    kills: int = 0
    second_draws: int = 0
    unrecovered: int = 0


def measure(figures: Figures) -> None:
    """Five hundred kills, and a hundred in nights of averages."""
    for method, what, kills in ((None, "", KILLS), (GdpTabicl.name, "-of-averages", KILLS // 5)):
        verdict = killed_nights(kills, method=method)
        figures.at_least(f"kills-in-nights-of-a-series{what}", verdict.kills, kills)
        figures.exactly(f"second-draws-of-a-night{what}", verdict.second_draws, 0)
        figures.exactly(f"nights-not-recovered{what}", verdict.unrecovered, 0)


def killed_nights(
    kills: int,
    *,
    seed: int = 0,
    mutate: Mutation = None,
    deliveries: bool = False,
    method: str | None = None,
) -> Verdict:
    """Horizon after horizon until so many processes were killed; `mutate` breaks the protocol in
    each of them. Of a table with a column of days, or of `deliveries`: all files are other ones at
    every try, those that were counted too. By the usual method, or the one that is named.
    """
    verdict, number = Verdict(), 0
    with own_fork_server(["lab.benchmarks.series.warm"]):
        with _scratch() as folder:
            changes = _changes(
                new_horizon(Path(folder), random.Random(seed), deliveries=deliveries), method
            )
        while verdict.kills < kills:
            with _scratch() as folder:
                _horizon(
                    Path(folder),
                    random.Random(f"{seed} {number}"),
                    verdict,
                    kills,
                    mutate,
                    deliveries,
                    changes,
                    method,
                )
            number += 1
    return verdict


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def _changes(place: Place, method: str | None) -> tuple[int, int]:
    """How many changes the first night makes, and a later one: places of death beyond would be
    none.
    """
    for night in (1, 2):
        assert _together(place, night, [_NEVER], None, method) == [0]
    first, later = map(int, (place.root / _COUNTED).read_text().split())
    return first, later


def _horizon(
    root: Path,
    chance: random.Random,
    verdict: Verdict,
    kills: int,
    mutate: Mutation,
    deliveries: bool,
    changes: tuple[int, int],
    method: str | None,
) -> None:
    place, seen = new_horizon(root, chance, deliveries=deliveries), Seen()
    for night in range(1, PERIODS + 1):
        for _ in range(chance.choice((1, 2, 3))):
            _deliver(place, chance)
            dealt = [
                chance.randrange(changes[night > 1]) for _ in range(chance.choice((1, 2, 2, 3)))
            ]
            verdict.kills += sum(
                code == -signal.SIGKILL for code in _together(place, night, dealt, mutate, method)
            )
            _observe(place, seen, method)
        _deliver(place, chance)
        verdict.unrecovered += sum(
            code != 0 for code in _together(place, night, [None], mutate, method)
        )
        _observe(place, seen, method)
        if verdict.kills >= kills:
            break
    verdict.unrecovered += night - len(seen.published)
    verdict.second_draws += seen.second


def new_horizon(root: Path, chance: random.Random, *, deliveries: bool = False) -> Place:
    """An installation with a table that grows, or with deliveries."""
    place = new_place(root / "place")
    tree = series_tree(**({"source": {"deliveries": NAME}} if deliveries else {}))
    (place.root / "contracts" / f"{NAME}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    if deliveries:
        (place.root / "data" / NAME).mkdir()
    _deliver(place, chance)
    return place


def _deliver(place: Place, chance: random.Random) -> None:
    """Another table: of other persons, on other days, as a whole."""
    shift = chance.randrange(1000)
    rows = visits(
        PERIODS, 10 + chance.randrange(20), of=lambda who: {"who": f"p{(who + shift) % 40}"}
    )
    folder = place.root / "data" / NAME
    if not folder.exists():
        _write(folder.with_suffix(".csv"), rows, list(rows[0]))
        return
    for day in sorted({row["day"] for row in rows}):
        own = [
            {name: value for name, value in row.items() if name != "day"}
            for row in rows
            if row["day"] == day
        ]
        _write(folder / f"{day}.csv", own, list(own[0]))


def _write(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Whole, in the place of the file before."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    draft = path.with_name(f".{path.name}")
    draft.write_text(text.getvalue())
    draft.replace(path)


def _together(
    place: Place,
    night: int,
    dealt: Sequence[int | None],
    mutate: Mutation,
    method: str | None,
) -> list[int | None]:
    """Exit codes of processes that make a night at once; each dies before its change of that
    number, if it gets there.
    """
    context = multiprocessing.get_context("forkserver")
    processes: list[BaseProcess] = [
        context.Process(target=make_night, args=(place, night, one, mutate, method))
        for one in dealt
    ]
    for one in processes:
        one.start()
    for one in processes:
        one.join(_PATIENCE_SECONDS)
        one.kill()
    return [process.exitcode for process in processes]


def make_night(
    place: Place, night: int, dies: int | None, mutate: Mutation, method: str | None = None
) -> None:
    """Make the night after so many days, and die before a change of that number, if any."""
    logging.disable(logging.CRITICAL)
    if mutate is not None:
        mutate()
    done = _die_before(dies) if dies is not None else None
    with ExitStack() as entered:
        entered.enter_context(place.entered())
        settings = Settings.from_environment()
        release_planned(
            planned_table(
                ReleaseRequest(dataset=NAME, epsilon=float(EPSILON), method=method, shots=1),
                settings,
            ),
            settings,
            now=after(night),
        )
    if done is not None and dies == _NEVER:
        with (place.root / _COUNTED).open("a") as file:
            file.write(f"{_NEVER - done[0]} ")


def _die_before(change: int) -> list[int]:
    """Kill this process before its change of that number, from 0: files that are opened to write,
    linked, renamed, removed; commits. Gives how many are left.
    """
    from sqlalchemy import Engine, event

    from dpicl.ledger.keys import Anchor

    left = [change]

    def reach() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(name: str, arguments: tuple[Any, ...]) -> None:
        if name in _CHANGES or (
            name == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            reach()

    advance = Anchor.advance

    def advancing(self: Anchor, *arguments: Any) -> None:
        reach()
        advance(self, *arguments)

    Anchor.advance = advancing  # type: ignore[assignment, method-assign]
    event.listen(Engine, "commit", lambda _: reach())
    sys.addaudithook(heard)
    return left


def _observe(place: Place, seen: Seen, method: str | None) -> None:
    """Read whatever stands, like any later reader."""
    with place.entered():
        settings = Settings.from_environment()
        plan = planned_table(
            ReleaseRequest(dataset=NAME, epsilon=float(EPSILON), method=method, shots=1), settings
        )
        with open_ledger(settings) as ledger:
            horizon = Horizon.of(ledger, plan, settings)
            ledger.verify()
            horizon.published(PERIODS)
            for period in range(1, PERIODS + 1):
                won = ledger.published(horizon.part(period).release_id)
                seen.published[period] |= {won} if won else set()
            if ledger.entries(horizon.release.account):
                seen.spent.add(ledger.spent(horizon.release.account).epsilon)
        for path in (settings.home / "series").glob("*/[0-9]*"):
            seen.frozen[int(path.name)].add(hashlib.sha256(path.read_bytes()).hexdigest())
    for period in [period for period, hashes in seen.published.items() if not hashes]:
        del seen.published[period]
