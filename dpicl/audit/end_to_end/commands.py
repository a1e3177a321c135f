"""What a world is asked to do, in this process: the command line itself, and a whole run."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from dpicl.audit.end_to_end.world import NAME
from dpicl.engine.execute import InProcess, run_units
from dpicl.engine.plan import make_plan
from dpicl.engine.stage import StageFailed
from dpicl.report.stages import report_steps


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
    from dpicl.cli import main

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
    """What `dpicl run` does, in this process."""

    def work() -> None:
        folder = make_plan("audited", {"methods": [method], "epsilons": [epsilon]}, run_id)
        run_units(folder, InProcess(), report_steps(folder))

    return lambda: heard(work)


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
