"""Exact claims: what must be equal, or within a stated number, between neighbouring worlds. Each gives what breaks it; nothing if it holds."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from dpicl.audit.end_to_end.commands import Command, protect
from dpicl.audit.end_to_end.neighbours import base_rows, neighbours, newcomer
from dpicl.audit.end_to_end.observe import Observation, observed
from dpicl.audit.end_to_end.stand_ins import Replay, nothing_slow, small_batches, standing_clock
from dpicl.audit.end_to_end.world import NAME, Declaration, Row, World, new_world
from dpicl.engine.artefacts import read_split, remove_private
from dpicl.engine.execute import call_all
from dpicl.engine.order import rows_ready
from dpicl.engine.plan import make_plan
from dpicl.engine.run_folder import open_unit, read_plan
from dpicl.engine.settings import Settings
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.gdp_tabicl import GdpTabicl

Broken = list[str]
"""Sentences that say what breaks a claim."""
PERIODS = ("2031-01", "2031-02")


@contextmanager
def _apart(declaration: Declaration) -> Iterator[World]:
    with new_world(declaration) as world, world.entered(), nothing_slow(), standing_clock(), ExitStack() as stack:
        if declaration.kind == "batches":
            stack.enter_context(small_batches())
        yield world


def stability(declaration: Declaration) -> Broken:
    """No more than the rows that are changed, or the person, come to stand elsewhere after reading, dropping, splitting and batching."""
    return [f"{name}: {moved} move" for name, moved in rows_moved(declaration).items() if moved > 1]


def rows_moved(declaration: Declaration) -> dict[str, int]:
    """How many rows (or persons) one row (or person) moves, by how the sources differ."""
    moved: dict[str, int] = {}
    with _apart(declaration) as world:
        found: dict[str, Counter[Any]] = {}
        for name, (one, other) in neighbours(declaration).items():
            before = found.setdefault("", _places(world, one, declaration)) if not found else found[""]
            after = _places(world, other, declaration)
            moved[name] = max(_units(before - after, declaration), _units(after - before, declaration))
    return moved


def _places(world: World, rows: Sequence[Row], declaration: Declaration) -> Counter[Any]:
    """Where every row stands before a mechanism: how often in each split."""
    world.forget()
    world.put(rows, declaration.kind)
    methods = [DpIcl.name] if declaration.kind == "texts" else [GdpTabicl.name]
    run = make_plan("audited", {"methods": methods}, "audited")
    call_all(rows_ready(str(run), NAME))
    (key,) = read_plan(run).units
    split = read_split(open_unit(str(run), key))
    tables = {"protected": split.train.data, **({} if declaration.measured == "public queries" else {"held out": split.test.data})}
    found = Counter((name, tuple(map(str, row.items()))) for name, table in tables.items() for row in table.to_pylist())
    remove_private(run, Settings.from_environment())
    return found


def _units(found: Counter[Any], declaration: Declaration) -> int:
    """Rows, or the persons that they are of."""
    rows = [row for (split, row), times in found.items() for _ in range(times) if not declaration.person or split == "protected"]
    return len({next(one for one in row if "person" in one) for row in rows}) if declaration.person else len(rows)


def equality(declaration: Declaration, command: Command, *, most: int | None = None) -> Broken:
    """All that a command lets out is equal between neighbours (of so many kinds at most), once the draw is."""
    with _apart(declaration) as world:
        replay, first, broken = Replay(), None, []
        for name, (one, other) in islice(neighbours(declaration).items(), most):
            first = first or _shown(world, one, declaration, command, replay)
            if first.code:
                return [f"there is nothing to compare: {first.error}"]
            broken += [f"{name}: {told}" for told in first.differing(_shown(world, other, declaration, command, replay))]
    return broken


def _shown(world: World, rows: Sequence[Row], declaration: Declaration, command: Command, replay: Replay) -> Observation:
    world.forget()
    world.put(rows, declaration.kind)
    with replay.recorded():
        return observed(world, command)


def refusals(declaration: Declaration, command: Command) -> Broken:
    """Two rows that break the contract in two ways of one kind are refused in the same words."""
    with _apart(declaration) as world:
        rows, replay, new = base_rows(declaration), Replay(), newcomer(declaration)
        seen = [_shown(world, [*rows, {**new, "city": word}], declaration, command, replay) for word in ("xxxxx", "yyyyy")]
    if not seen[0].code:
        return ["a row that breaks the contract is let in"]
    return seen[0].differing(seen[1])


def histories(declaration: Declaration, command: Callable[[str | None], Command], *, across: bool) -> Broken:
    """After a release, whether somebody joined, left or was corrected shows nowhere: not in the same period, not in the next."""
    before, after = PERIODS if across else (None, None)
    with _apart(declaration) as world, tempfile.TemporaryDirectory() as folder:
        rows, new, broken = base_rows(declaration), newcomer(declaration), []
        first, later = command(before), command(after)
        with (replay := Replay()).recorded():
            world.put(rows, declaration.kind)
            first()
            kept = shutil.copytree(world.home, Path(folder) / "home")
        changes = {"joined": [*rows, new], "left": rows[1:], "corrected": [new, *rows[1:]]}
        replay, nobody = Replay(), None
        for name, changed in {"": rows, **changes}.items():
            shutil.rmtree(world.home)
            shutil.copytree(kept, world.home)
            world.put(changed, declaration.kind)
            with replay.recorded():
                seen = observed(world, later)
            if seen.code:
                return [f"there is nothing to compare: {seen.error}"]
            nobody = nobody or seen
            broken += [f"{name}: {told}" for told in nobody.differing(seen)]
    return broken


def accounts(declaration: Declaration, methods: tuple[str, str]) -> Broken:
    """Two releases through two contracts on one file, by two methods, stay below the one cap."""
    capped = replace(declaration, cap=2.0, neighbours="replace-one")  # under which a central release of one costs two
    with _apart(capped) as world:
        world.put(base_rows(capped), capped.kind)
        first = protect(methods[0])()
        copy = capped.contract() | {"name": "another"}
        (world.root / "contracts" / "another.yaml").write_text(yaml.safe_dump(copy, sort_keys=False))
        again = [protect(methods[1])(), protect(methods[0], contract="another")(), protect(methods[1], contract="another")()]
    if first.code:
        return [f"the first release is refused: {first.err}"]
    return [f"release {number} of one cap is granted" for number, said in enumerate(again, 2) if said.code == 0]
