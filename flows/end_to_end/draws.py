"""Statistical cells: a method on two worst-case neighbours, and which of its many draws the pipeline of the product releases on each."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from flows.end_to_end.commands import drawing, preparing
from flows.end_to_end.neighbours import NEWCOMER
from flows.end_to_end.stand_ins import everywhere, nothing_slow
from flows.end_to_end.world import CATEGORIES, NAME, Declaration, Row, new_world
from tasks.plan import make_plan
from tasks.releases import UnitReleases
from tasks.run_folder import read_plan

_AT_ONCE = 40
"""Releases of one run, each a seed of its own."""
Score = Callable[[bytes], Sequence[float]]
"""Numbers of a released artefact that may tell two worlds apart."""


@dataclass(frozen=True)
class Cell:
    """One method on one kind of neighbours; `epsilon` is what the method is asked for, and one of `slow` runs is made."""

    name: str
    method: str
    declaration: Declaration
    one: Sequence[Row]
    other: Sequence[Row]
    score: Score
    epsilon: float = 2.0
    slow: int = 1


@dataclass(frozen=True)
class Drawn:
    """Scores of every release of one side, shape (runs, scores), and what was charged for each."""

    scores: np.ndarray
    epsilon: float
    delta: float


def drawn(cell: Cell, rows: Sequence[Row], runs: int) -> Drawn:
    """So many releases of these rows through ingest, split and the method's own stages, each charged in a ledger."""
    scores: list[Sequence[float]] = []
    charged: list[Any] = []

    def published(releases: UnitReleases, ledger: Any, of: Any, content: bytes, *more: Any) -> Any:
        scores.append(cell.score(content))
        charged.append(releases.named[of].guarantee)
        return publish(releases, ledger, of, content, *more)

    publish = UnitReleases.publish
    with new_world(cell.declaration) as world, world.entered(), nothing_slow(), patch.object(UnitReleases, "publish", published):
        world.put(rows, cell.declaration.kind)
        while len(scores) < runs:
            world.forget()
            with _one_ledger():
                _release(cell, min(_AT_ONCE, runs - len(scores)))
    return Drawn(np.array(scores, dtype=np.float64), charged[0].epsilon, charged[0].delta)


def _release(cell: Cell, seeds: int) -> None:
    grid = {"methods": [cell.method], "epsilons": [cell.epsilon], "seeds": list(range(seeds))}
    run = str(make_plan("audited", grid, "audited"))
    stages = [*preparing(run, NAME), *(step for key in read_plan(Path(run)).units for step in drawing(run, key))]
    for stage, references in stages:
        if stage.name != "reconstruct":  # after the draw
            stage.fn(*references)


@contextmanager
def _one_ledger() -> Iterator[None]:
    """The ledger is opened once, not for every release: each is charged in it as ever."""
    opened: list[Any] = []
    with ExitStack() as stack:

        def kept_open(really: Callable[[Any], Any]) -> Callable[[Any], Any]:
            @contextmanager
            def once(settings: Any) -> Iterator[Any]:
                if not opened:
                    opened.append(stack.enter_context(really(settings)))
                yield opened[0]

            return once

        stack.enter_context(everywhere("open_ledger", kept_open))
        yield


def cells() -> list[Cell]:
    """Every method on every kind of neighbours that it has, on tables where one row counts most."""
    plain, other = {"spent": 50, "city": "north", "member": "no"}, {"spent": 100, "city": "south", "member": "yes"}
    many, few = [plain] * 18 + [{**plain, "member": "yes"}] * 2, [plain, {**plain, "city": "south", "member": "yes"}] * 3
    lowest = {**plain, "spent": 0}
    found = [
        *(
            Cell(f"mst_tabicl {kind}", "mst_tabicl", Declaration(cap=_CAP), many, rows, _last_counts)
            for kind, rows in _changed(many, other)
        ),
        *(Cell(f"gdp_tabicl {kind}", "gdp_tabicl", Declaration(cap=_CAP), few, rows, _group) for kind, rows in _changed(few, lowest)),
    ]
    replaced = Declaration(cap=_CAP, neighbours="replace-one")
    found += [
        Cell("mst_tabicl replaced", "mst_tabicl", replaced, many, [*many[1:], other], _last_counts, 1.0),
        Cell("gdp_tabicl replaced", "gdp_tabicl", replaced, few, [*few[1:], {**lowest, "city": "south"}], _group, 1.0),
        Cell("ldp_tabicl replaced", "ldp_tabicl", replaced, few, [{**few[0], "city": "south"}, *few[1:]], _reports),
    ]
    person = Declaration(cap=_CAP, person=True)
    owned = [{**row, "person": number} for number, row in enumerate(many)]
    found.append(
        Cell("mst_tabicl person", "mst_tabicl", person, owned, [*owned, *[{**other, "person": NEWCOMER}] * 5], _last_counts, 1.0),
    )
    return found + _of_texts()


def _changed(rows: Sequence[Row], new: Row) -> list[tuple[str, Sequence[Row]]]:
    return [("appended", [*rows, new]), ("inserted first", [new, *rows]), ("removed", rows[:-1])]


def _of_texts() -> list[Cell]:
    texts = Declaration("texts", cap=_CAP)
    plain = [{"city": city, "body": "aaaa"} for city in CATEGORIES["city"] for _ in range(4)]
    own = {"city": "north", "body": "zzzz"}
    found = []
    for method, score in (("dp_icl", _answered), ("few_shot_generation", _written)):
        for kind, rows in (("appended", [*plain, own]), ("removed", plain[1:])):
            found.append(Cell(f"{method} {kind}", method, texts, plain, rows, score, slow=4))
    return found


_CAP = 1e6


def _last_counts(content: bytes) -> Sequence[float]:
    """How many rows are of the last level of everything, as all noisy counts together see it; and of the first."""
    seen = [(np.asarray(one["counts"], dtype=float).ravel(), one["scale"]) for one in json.loads(content)]
    return [sum(counts[-1] / scale for counts, scale in seen), sum(counts[0] / scale for counts, scale in seen)]


def _group(content: bytes) -> Sequence[float]:
    """The most frequent city, and the average."""
    (group,) = json.loads(content)
    return [float(group["values"]["city"] == "north"), float(group["values"]["spent"])]


def _reports(content: bytes) -> Sequence[float]:
    """What every client reports."""
    return [float(code) for code in np.load(io.BytesIO(content), allow_pickle=False).ravel()]


def _answered(content: bytes) -> Sequence[float]:
    return [float(content.count(b"north"))]


def _written(content: bytes) -> Sequence[float]:
    return [float(content.count(b"z")), float(content.count(b"a"))]
