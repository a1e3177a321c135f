"""Exact claims: what must be equal, or within a stated number, between neighbouring worlds. Each
returns what breaks it.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import yaml

from dpicl.client import __main__ as client
from dpicl.data.reading import files, source
from dpicl.home.settings import Settings
from dpicl.mechanisms import samplers
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pe import TabPe
from dpicl.runs.artefacts import remove_private
from dpicl.runs.chain import rows_ready
from dpicl.runs.execute import call_all
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import open_unit, read_plan
from lab.audit.end_to_end.commands import Command, Output, captured, protect
from lab.audit.end_to_end.draws import AuditCell, cells, drawn
from lab.audit.end_to_end.observation import Observation, observed
from lab.audit.end_to_end.stand_ins import ReplayedDraws, nothing_slow, standing_clock
from lab.audit.end_to_end.world import (
    NAME,
    Declaration,
    SourceRow,
    World,
    base_rows,
    neighbours,
    new_world,
    newcomer,
)

Broken = list[str]
"""Sentences that say what breaks a claim; empty where it holds."""
BATCH = 8
"""Rows of a batch, in worlds whose tables are small."""


@contextmanager
def apart(declaration: Declaration) -> Iterator[World]:
    """A world that is entered, where nothing is slow, the clock stands and batches are small."""
    # so that a small table comes in several
    sizes = (patch.object(module, "BATCH_ROWS", BATCH) for module in (files, source))
    with (
        new_world(declaration) as world,
        world.entered(),
        nothing_slow(),
        standing_clock(),
        next(sizes),
        next(sizes),
    ):
        yield world


def stability(declaration: Declaration) -> Broken:
    """No more than the rows that are changed, or the person, come to stand elsewhere after reading,
    dropping, splitting and batching.
    """
    return [f"{name}: {moved} move" for name, moved in rows_moved(declaration).items() if moved > 1]


def rows_moved(declaration: Declaration) -> dict[str, int]:
    """How many rows (or persons) one row (or person) moves, by how the sources differ."""
    moved: dict[str, int] = {}
    with apart(declaration) as world:
        before: Counter[Any] = Counter()
        for name, (one, other) in neighbours(declaration).items():
            before = before or _places(world, one, declaration)
            after = _places(world, other, declaration)
            moved[name] = max(
                _units(before - after, declaration), _units(after - before, declaration)
            )
    return moved


def _places(world: World, rows: Sequence[SourceRow], declaration: Declaration) -> Counter[Any]:
    """Where every row stands before a mechanism: how often in each split."""
    world.forget()
    world.put(rows, declaration.kind)
    methods = [DpIcl.name] if declaration.kind == "texts" else [GdpTabicl.name]
    run = make_plan("audited", {"methods": methods}, "audited")
    call_all(rows_ready, str(run), NAME)
    (key,) = read_plan(run).units
    read = open_unit(str(run), key).rows
    tables = {
        "protected": read.train().data,
        **({} if declaration.measured == "public queries" else {"held out": read.test().data}),
    }
    places = Counter(
        (name, tuple(map(str, row.items())))
        for name, table in tables.items()
        for row in table.to_pylist()
    )
    remove_private(run, Settings.current())
    return places


def _units(places: Counter[Any], declaration: Declaration) -> int:
    """Rows, or the persons that they are of."""
    rows = [
        row
        for (split, row), times in places.items()
        for _ in range(times)
        if not declaration.person or split == "protected"
    ]
    return (
        len({next(one for one in row if "person" in one) for row in rows})
        if declaration.person
        else len(rows)
    )


def equality(declaration: Declaration, command: Command, *, most: int | None = None) -> Broken:
    """All that a command lets out is equal between neighbours (of at most so many kinds), once the
    draw is.
    """
    others = {name: other for name, (_, other) in islice(neighbours(declaration).items(), most)}
    return alike(declaration, {"": base_rows(declaration), **others}, command)


def alike(
    declaration: Declaration, tables: Mapping[str, Sequence[SourceRow]], command: Command
) -> Broken:
    """All that a command lets out of these sources is what it lets out of the first."""
    with apart(declaration) as world:
        replay, first, broken = ReplayedDraws(), None, []
        for name, rows in tables.items():
            shown = _shown(world, rows, declaration, command, replay)
            first = first or shown
            if first.code:
                return [f"there is nothing to compare: {first.error}"]
            broken += [f"{name}: {difference}" for difference in first.differing(shown)]
    return broken


def _shown(
    world: World,
    rows: Sequence[SourceRow],
    declaration: Declaration,
    command: Command,
    replay: ReplayedDraws,
) -> Observation:
    world.forget()
    world.put(rows, declaration.kind, tuple(newcomer(declaration)))
    with replay.recorded():
        return observed(world, command)


def refusals(declaration: Declaration, command: Command) -> Broken:
    """Two rows that break the contract in two ways of one kind are refused in the same words."""
    with apart(declaration) as world:
        rows, replay, new = base_rows(declaration), ReplayedDraws(), newcomer(declaration)
        seen = [
            _shown(world, [*rows, {**new, "city": word}], declaration, command, replay)
            for word in ("xxxxx", "yyyyy")
        ]
    if not seen[0].code:
        return ["a row that breaks the contract is let in"]
    return seen[0].differing(seen[1])


def histories(declaration: Declaration, command: Callable[..., Command], *, across: bool) -> Broken:
    """After a release nothing shows that a row was added, removed or corrected: not in the same
    period, not in the next.
    """
    before, after = (("--period", "2031-01"), ("--period", "2031-02")) if across else ((), ())
    with apart(declaration) as world, tempfile.TemporaryDirectory() as folder:
        rows, new, broken = base_rows(declaration), newcomer(declaration), []
        first, later = command(more=before), command(more=after)
        with (replay := ReplayedDraws()).recorded():
            world.put(rows, declaration.kind)
            first()
            kept = (
                world.home,
                world.root / "settings",
            )  # the witness would have seen the later ones
            for place in kept:
                shutil.copytree(place, Path(folder) / place.name)
        changes = {"joined": [*rows, new], "left": rows[1:], "corrected": [new, *rows[1:]]}
        replay, unchanged = ReplayedDraws(), None
        for name, changed in {"": rows, **changes}.items():
            for place in kept:
                shutil.rmtree(place)
                shutil.copytree(Path(folder) / place.name, place)
            world.put(changed, declaration.kind)
            with replay.recorded():
                seen = observed(world, later)
            if seen.code:
                return [f"there is nothing to compare: {seen.error}"]
            unchanged = unchanged or seen
            broken += [f"{name}: {difference}" for difference in unchanged.differing(seen)]
    return broken


def accounts(declaration: Declaration, methods: tuple[str, str]) -> Broken:
    """Two releases through two contracts on one file, by two methods, stay below the one cap."""
    capped = replace(declaration, cap=1.5, neighbours="replace-one")
    with apart(capped) as world:
        world.put(base_rows(capped), capped.kind)
        first = protect(methods[0])()
        copy = capped.contract() | {"name": "another"}
        (world.root / "contracts" / "another.yaml").write_text(
            yaml.safe_dump(copy, sort_keys=False)
        )
        again = [
            protect(methods[1])(),
            protect(methods[0], contract="another")(),
            protect(methods[1], contract="another")(),
        ]
    if first.code:
        return [f"the first release is refused: {first.err}"]
    return [
        f"release {number} of one cap is granted"
        for number, output in enumerate(again, 2)
        if output.code == 0
    ]


_RECORD = b"spent,city,member\n50,north,no\n"
_FORMS = (("once.yaml", 2.0), ("again.yaml", 1000.0))
"""A collector's contracts, with the cap that each states."""


def wallet_cap() -> Broken:
    """A contract with a larger cap gets no more than the cap that the client set at the first
    collection.
    """
    with new_world(Declaration(neighbours="replace-one")) as world, world.entered():
        for file, cap in _FORMS:
            form = Declaration(neighbours="replace-one", cap=cap).contract()
            (world.root / file).write_text(yaml.safe_dump(form | {"name": file.split(".")[0]}))
        first = _collect(world, _FORMS[0][0], "2", "--cap", "2")
        again = [_collect(world, _FORMS[1][0], epsilon) for epsilon in ("12", "0.1")]
    if first.code:
        return [f"the first collection is refused: {first.err}"]
    return [
        f"collection {number} is answered after the cap is spent"
        for number, output in enumerate(again, 2)
        if output.code == 0
    ]


def _collect(world: World, form: str, epsilon: str, *more: str) -> Output:
    typed = [
        "client",
        str(world.root / form),
        "--epsilon",
        epsilon,
        "--memory",
        str(world.root / "wallet.jsonl"),
        *more,
    ]
    record = SimpleNamespace(buffer=io.BytesIO(_RECORD))
    with patch.object(sys, "argv", typed), patch.object(sys, "stdin", record):
        return captured(lambda: sys.exit(client.main()))


Noised = list[tuple[Fraction, int]]
"""Scales, and the exact numbers that got noise of them, in order."""
COVERED = (MstTabicl.name, AimTabicl.name, TabPe.name, GdpTabicl.name)
"""Methods all of whose noise on these tables is discrete Laplace."""
_SLACK = 1e-9


class _ZeroNoise(int):
    """Zero, which records what it is added to."""

    noised: Noised
    scale: Fraction

    def __sub__(self, other: int) -> _ZeroNoise:
        return self

    def __radd__(self, exact: int) -> int:
        self.noised.append((self.scale, exact))
        return exact


def _noised(cell: AuditCell, rows: Sequence[SourceRow]) -> tuple[Noised, float]:
    """What got noise in one release, and the epsilon that was charged for it."""
    noised: Noised = []

    def zeros(scale: Fraction, count: int, _stream: Any) -> list[_ZeroNoise]:
        noise = [_ZeroNoise() for _ in range(count)]
        for zero in noise:
            zero.noised, zero.scale = noised, scale
        return noise

    with patch.object(samplers, "geometrics", zeros):
        return noised, drawn(replace(cell, draws=1), rows, 1).epsilon


def covered(method: str) -> Broken:
    """On worst-case neighbours no method's exact numbers differ by more than their noise's scales
    times what is charged.

    Noise is replaced below the sampler by a zero that remembers its scale, and what it is added to
    is recorded.
    """
    broken: list[str] = []
    its_own = [cell for cell in cells() if cell.method == method]
    if not its_own:
        return [f"{method}: no neighbours to look at"]
    for cell in its_own:
        (one, charged), (other, _) = _noised(cell, cell.one), _noised(cell, cell.other)
        if not one or [scale for scale, _ in one] != [scale for scale, _ in other]:
            broken.append(f"{cell.name}: how much noise is drawn depends on the rows")
            continue
        loss = float(
            sum(
                (abs(a - b) / scale for (scale, a), (_, b) in zip(one, other, strict=True)),
                Fraction(0),
            )
        )
        if loss > charged * (1 + _SLACK):
            broken.append(f"{cell.name}: a loss of {loss:.4g}, charged {charged:.4g}")
    return broken
