"""Statistical cells: a method on two worst-case neighbours, and many draws on each through the
product's own pipeline.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dpicl.methods import dp_icl, few_shot_generation
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pe import TabPe
from dpicl.models.kinds.fake import HashScorer
from dpicl.release.releases import NamedRelease
from dpicl.runs.chain import published, rows_ready
from dpicl.runs.execute import call_all
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import read_plan
from lab.audit.end_to_end.stand_ins import everywhere, fresh_journal, nothing_slow
from lab.audit.end_to_end.world import (
    CATEGORIES,
    NAME,
    NEWCOMER,
    Declaration,
    SourceRow,
    new_world,
)

_AT_ONCE = 10
"""Releases of one run, each a seed of its own."""
_DRAWS = 100
"""Of one release that is charged, each from randomness of its own."""
Score = Callable[[bytes], Sequence[float]]
"""Numbers of a released artefact that may tell two worlds apart."""


@dataclass(frozen=True)
class AuditCell:
    """One method on one kind of neighbours; `epsilon` is the method's parameter, and `draws` are
    made of each release.
    """

    name: str
    method: str
    declaration: Declaration
    one: Sequence[SourceRow]
    other: Sequence[SourceRow]
    statistics: Score
    epsilon: float = 2.0
    shots: int = 1
    draws: int = _DRAWS


@dataclass(frozen=True)
class CellDraws:
    """Scores of every release of one side, shape (runs, scores), and what was charged for each."""

    scores: np.ndarray
    epsilon: float
    delta: float


class _Recorder:
    """Scores of every draw of a cell, and what its releases were charged."""

    def __init__(self, cell: AuditCell) -> None:
        self._cell = cell
        self.scores: list[Sequence[float]] = []
        self.charged: list[Any] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While releases are made: each is drawn as often as the cell says, and the last draw
        published.
        """
        publish, write = NamedRelease.publish, few_shot_generation.write

        def written(*arguments: Any, **options: Any) -> Any:
            self._draw_again(lambda: write(*arguments, **options))
            return write(*arguments, **options)

        def published(named: NamedRelease, ledger: Any, content: bytes) -> Any:
            self.scores.append(self._cell.statistics(content))
            self.charged.append(named.charge.guarantee)
            return publish(named, ledger, content)

        with ExitStack() as stack:
            stack.enter_context(patch.object(NamedRelease, "publish", published))
            if self._cell.declaration.kind == "texts":  # which a model reads
                stack.enter_context(patch.object(few_shot_generation, "write", written))
                stack.enter_context(self._answers())
            else:
                stack.enter_context(everywhere("drafted", self._drafted))
            yield

    def _drafted(self, drafted: Callable[..., Any]) -> Callable[..., Any]:
        def again(*arguments: Any) -> Any:
            for content in (
                one for _ in range(self._cell.draws - 1) for one in drafted(*arguments).values()
            ):
                self.scores.append(self._cell.statistics(content))
            return drafted(*arguments)

        return again

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Votes and answers of an ensemble, together."""
        consult, answer = dp_icl.consult, dp_icl.answer

        def consulted(*queries: Any) -> Any:
            def answered(*arguments: Any) -> Any:
                self._draw_again(lambda: [answer(arguments[0], consult(*queries), *arguments[2:])])
                return answer(*arguments)

            dp_icl.answer = answered  # type: ignore[assignment]
            return consult(*queries)

        with patch.object(dp_icl, "consult", consulted), patch.object(dp_icl, "answer", answer):
            yield

    def _draw_again(self, draw: Callable[[], Sequence[Mapping[Any, Any]]]) -> None:
        """All draws but the last, which the caller makes."""
        for _ in range(self._cell.draws - 1):
            with fresh_journal():
                for unit in draw():
                    self.scores += [
                        self._cell.statistics(repr(content).encode()) for content in unit.values()
                    ]


def drawn(cell: AuditCell, rows: Sequence[SourceRow], runs: int) -> CellDraws:
    """So many draws on these rows through ingest, split and the method's own stages, each of a
    release that was charged in a ledger.
    """
    recorder = _Recorder(cell)
    with (
        new_world(cell.declaration) as world,
        world.entered(),
        nothing_slow(),
        recorder.recording(),
        patch.object(HashScorer, "score", _loud),
    ):
        world.put(rows, cell.declaration.kind)
        while len(recorder.scores) < runs:
            world.forget()
            seeds = min(_AT_ONCE, -(-(runs - len(recorder.scores)) // cell.draws))
            grid = {
                "methods": [cell.method],
                "epsilons": [cell.epsilon],
                "seeds": list(range(seeds)),
                "shots": [cell.shots],
            }
            run = str(make_plan("audited", grid, "audited"))
            call_all(rows_ready, run, NAME)
            for key in read_plan(Path(run)).units:
                call_all(published, run, key)
    return CellDraws(
        np.array(recorder.scores[:runs], dtype=np.float64),
        recorder.charged[0].epsilon,
        recorder.charged[0].delta,
    )


def cells() -> list[AuditCell]:
    """Every method on every kind of neighbours that it has, on tables where one row counts most."""
    # of whom the first has another answer to everything
    clients = Declaration(cap=_CAP, neighbours="replace-one")
    one, other = (
        {"spent": 50, "city": "north", "member": "no"},
        {"spent": 50, "city": "south", "member": "yes"},
    )
    rest = [{"spent": 50, "city": "north", "member": member} for member in CATEGORIES["member"]]
    # as few as the contract allows, and one that a voter repeats, or that alone turns its vote
    texts = Declaration("texts", cap=_CAP)
    plain, own = (
        [{"city": city, "body": "tttt"} for city in CATEGORIES["city"] for _ in range(2)],
        {"city": "south", "body": _LOUD},
    )
    return [
        *_counted(),
        *_averaged(),
        AuditCell(
            f"{LdpTabicl.name} replaced",
            LdpTabicl.name,
            clients,
            [one, *rest],
            [other, *rest],
            _reports,
        ),
        *(
            AuditCell(
                f"{method} {kind}",
                method,
                texts,
                *pair,
                partial(_occurrences, word=word),
                shots=shots,
            )
            for method, word, shots in (
                (DpIcl.name, b"north", 2),
                (FewShotGeneration.name, _LOUD[:1].encode(), 1),
            )
            for kind, pair in _one_more(plain, own)
        ),
    ]


def _counted() -> list[AuditCell]:
    """Many equal rows, and one that is alone in its cell of the only count."""
    plain, other = {"city": "north", "member": "no"}, {"city": "south", "member": "yes"}
    rows = [plain] * 18 + [{**plain, "member": "yes"}] * 2
    mst, swapped = (
        Declaration(cap=_CAP, narrow=True),
        Declaration(cap=_CAP, narrow=True, neighbours="replace-one"),
    )
    person, owned = (
        Declaration(cap=_CAP, narrow=True, person=True),
        [{**row, "person": number} for number, row in enumerate(rows)],
    )
    many = [*owned, *[{**other, "person": NEWCOMER}] * 5]
    return [
        *(
            AuditCell(f"{MstTabicl.name} {kind}", MstTabicl.name, mst, *pair, _last_count)
            for kind, pair in _one_more(rows, other)
        ),
        AuditCell(
            f"{MstTabicl.name} replaced",
            MstTabicl.name,
            swapped,
            rows,
            [other, *rows[1:]],
            _last_count,
            1.0,
        ),
        AuditCell(
            f"{MstTabicl.name} person", MstTabicl.name, person, owned, many, _last_count, 1.0
        ),
        *(
            cell
            for name, told in (
                (AimTabicl.name, _last_count),
                (TabPe.name, partial(_last_count, key="votes")),
            )
            for cell in (
                AuditCell(f"{name} appended", name, mst, rows, [*rows, other], told),
                AuditCell(f"{name} replaced", name, swapped, rows, [other, *rows[1:]], told, 1.0),
                AuditCell(f"{name} person", name, person, owned, many, told, 1.0),
            )
        ),
    ]


def _averaged() -> list[AuditCell]:
    """A small group of two cities, each as frequent, with one value in the middle; and a row at a
    bound.
    """
    plain = {"spent": 50, "city": "north", "member": "no"}
    rows = [plain, {**plain, "city": "south", "member": "yes"}]
    lowest, highest = {**plain, "spent": 0}, {**plain, "spent": 100, "city": "south"}
    gdp, swapped = Declaration(cap=_CAP), Declaration(cap=_CAP, neighbours="replace-one")
    return [
        *(
            AuditCell(f"{GdpTabicl.name} {kind}", GdpTabicl.name, gdp, *pair, _group)
            for kind, pair in _one_more(rows, lowest)
        ),
        AuditCell(
            f"{GdpTabicl.name} replaced",
            GdpTabicl.name,
            swapped,
            [*rows, highest],
            [*rows, lowest],
            _group,
            1.0,
        ),
    ]


def _one_more(
    rows: Sequence[SourceRow], new: SourceRow
) -> list[tuple[str, tuple[Sequence[SourceRow], Sequence[SourceRow]]]]:
    """A row more behind all others or before them, and one less."""
    among = [rows[0], new, *rows[1:]]
    return [
        ("appended", (rows, [*rows, new])),
        ("inserted first", (rows, [new, *rows])),
        ("removed", (among, rows)),
    ]


def _loud(
    _model: HashScorer, prompts: Sequence[str], continuations: Sequence[str], **_: Any
) -> np.ndarray:
    """Scores of a model that says the first label where a prompt holds one text, else the second:
    shape (prompts, labels).
    """
    first = np.array([_LOUD in prompt for prompt in prompts])
    return np.log(
        np.stack([np.where(first, 0.9, 0.1), np.where(first, 0.1, 0.9)], axis=1)[
            :, : len(continuations)
        ]
    )


_CAP = 1e6
_LOUD = "eeee"


def _last_count(content: bytes, key: str = "counts") -> Sequence[float]:
    """How many rows are in the last cell of every noisy count."""
    return [float(np.asarray(marginal[key]).ravel()[-1]) for marginal in json.loads(content)]


def _group(content: bytes) -> Sequence[float]:
    """The most frequent city, and the average."""
    (group,) = json.loads(content)
    return [float(group["values"]["city"] == "north"), float(group["values"]["spent"])]


def _reports(content: bytes) -> Sequence[float]:
    """The sum of the first client's answers."""
    return [float(np.load(io.BytesIO(content), allow_pickle=False)[0].sum())]


def _occurrences(content: bytes, *, word: bytes) -> Sequence[float]:
    return [float(content.count(word))]
