"""What a world is asked to do, in this process: the command line itself, and the stages of a run in the flow's order."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from prefect import Task

from dpicl.engine.batches import parts_of
from dpicl.engine.plan import make_plan
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import StageFailed
from flows import wiring
from flows.end_to_end.world import NAME


@dataclass(frozen=True)
class Said:
    """What a command let out while it ran."""

    code: int
    out: str
    err: str
    log: str


Command = Callable[[], Said]


def command_line(*arguments: str) -> Said:
    """`dpicl ARGUMENTS`."""
    from flows.cli import main

    def typed() -> None:
        with patch.object(sys, "argv", ["dpicl", *arguments]):
            main()

    return heard(typed)


def protect(method: str, *, epsilon: float = 1.0, contract: str = NAME, more: tuple[str, ...] = ()) -> Command:
    """`dpicl protect` of one demonstration into a file beside the data."""

    def work() -> Said:
        out = Path("demonstrations.jsonl")
        out.unlink(missing_ok=True)
        return command_line("protect", contract, "--method", method, "--epsilon", str(epsilon), "--shots", "1", "--out", str(out), *more)

    return work


def ask(query: str, *, epsilon: float = 1.0, more: tuple[str, ...] = ()) -> Command:
    """`dpicl ask` for one answer of an ensemble."""
    asked = ("ask", query, "--account", NAME, "--model", "fake", "--shots", "1", "--count", "1", "--epsilon", str(epsilon), *more)
    return lambda: command_line(*asked)


def run(method: str, *, epsilon: float = 1.0, run_id: str = "audited") -> Command:
    """What `dpicl run` does, stage by stage without an orchestrator."""

    def work() -> None:
        folder = make_plan("audited", {"methods": [method], "epsilons": [epsilon]}, run_id)
        for stage, references in stages(str(folder)):
            stage.fn(*references)
        wiring.remove_private(folder, Settings.from_environment())

    return lambda: heard(work)


def stages(run: str) -> Iterator[tuple[Task[..., Any], tuple[Any, ...]]]:
    """Every stage of a run with its references; looked up in the flow's own module, so that a mutant there is one here."""
    units = read_plan(Path(run)).units
    for dataset in dict.fromkeys(unit.dataset for unit in units.values()):
        yield from preparing(run, dataset)
    for key, unit in units.items():
        yield from drawing(run, key)
        yield wiring.serialize, (run, key)
        fits = wiring.has_baselines(unit, Settings.from_environment().declared(unit.dataset))
        yield from ((wiring.fit_baselines, (run, key)) for _ in range(fits))
        yield from ((wiring.score, (run, key, part)) for part in wiring.parts_to_score(run, key))
        yield wiring.evaluate, (run, key)
    yield from ((stage, (run,)) for stage in (wiring.collect_run, wiring.write_report))


def preparing(run: str, dataset: str) -> Iterator[tuple[Task[..., Any], tuple[Any, ...]]]:
    """From the source to rows that are split and checked."""
    yield wiring.ingest, (run, dataset)
    parts = parts_of(run, dataset)
    yield from ((wiring.prepare_batches, (run, dataset, part, parts)) for part in range(parts))
    yield from ((stage, (run, dataset)) for stage in (wiring.validate, wiring.split))


def drawing(run: str, key: str) -> Iterator[tuple[Task[..., Any], tuple[Any, ...]]]:
    """The stages that release, with those that workers do before."""
    unit = read_plan(Path(run)).units[key]
    parts = parts_of(run, unit.dataset)
    reading = wiring.READING.get(unit.method)
    if parts or reading:
        yield wiring.charge, (run, key)
    yield from ((wiring.count, (run, key, part, parts)) for part in range(parts))
    if reading:
        stage, together = reading
        yield stage, (run, (key,) if together else key)
    yield from ((stage, (run, key)) for stage in wiring.RELEASE[unit.method])


def heard(work: Callable[[], object]) -> Said:
    """Do it, and keep exit code, both outputs and every line that our loggers were given."""
    out, err, log, code = io.StringIO(), io.StringIO(), io.StringIO(), 0
    with ExitStack() as stack:
        for one in (redirect_stdout(out), redirect_stderr(err), _logged(log)):
            stack.enter_context(one)
        try:
            work()
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
        except Exception as error:  # as Prefect keeps it: kind and text are what leaves
            code = 1 if isinstance(error, StageFailed) else 2
            err.write(f"{type(error).__name__}: {error}\n")
    return Said(code, out.getvalue(), err.getvalue(), log.getvalue())


@contextmanager
def _logged(into: io.StringIO) -> Iterator[None]:
    handler, ours = logging.StreamHandler(into), logging.getLogger("dpicl")
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
