"""What every stage has in common: skipping what is done, timing, a line for the log, clean errors.

A stage is a function of references; its exception text reaches an orchestrator's database.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpicl.engine.failures import clean_errors
from dpicl.engine.files import write_json
from dpicl.engine.logs import stage_log
from dpicl.engine.run_folder import UnitFolder, open_unit, settings_of_run
from dpicl.engine.settings import Settings
from dpicl.engine.verdicts import Verdicts
from dpicl.pipeline import parts_of

Place = Literal["owner", "worker", "model worker"]
"""Where a stage is done: in the process that holds the ledger, or on a worker; on one that may open
a model.
"""


@contextmanager
def timed(
    run: Path, owner: str, stage: str, part: str = "", *, reads_rows: bool = True
) -> Iterator[None]:
    """Store how long a stage (or a part of it) of a unit or data set took; the last attempt counts.
    Where it reads private rows, its time goes by them, and is stored for their holder alone.
    """
    started, worked = time.perf_counter(), time.process_time()
    yield
    taken = {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - worked,
    }
    file, content = f"timings/{owner}/{stage}{part}.json", {"owner": owner, "stage": stage, **taken}
    if not reads_rows:
        write_json(run / file, content, replace=True)
        return
    settings, named = Settings.current(), parts_of(owner)
    Verdicts.of(run, settings.declared(owner if named is None else named[1]), settings).write(
        file, content
    )


@dataclass(frozen=True)
class Stage:
    """A stage of a run: called with references, it does what is not yet done and gives one line of
    counts. `run` is the work, logged, its errors clean; only the owner of the ledger charges and
    publishes. Where several units of a data set are taken `together`, their keys come as a tuple in
    place of one.
    """

    name: str
    run: Callable[..., str]
    place: Place = "worker"
    together: bool = False

    def __call__(self, *references: Any) -> str:
        """Do it in this process."""
        return self.run(*references)


def stage(
    name: str, place: Place = "worker", *, together: bool = False
) -> Callable[[Callable[..., str]], Stage]:
    """Make a stage of a function of references; the arguments are `Stage`'s."""

    def decorate(function: Callable[..., str]) -> Stage:
        clean = clean_errors(name, function)  # what is logged of a failure is clean

        @functools.wraps(function)
        def logged(*arguments: Any, **options: Any) -> str:
            with settings_of_run(Path(str(arguments[0]))), stage_log(name, arguments) as lines:
                lines.append(clean(*arguments, **options))
            return lines[0]

        return Stage(name, logged, place, together)

    return decorate


def unit_stage(
    name: str,
    output: str | Callable[[UnitFolder], str],
    place: Place = "worker",
    *,
    private: bool = False,
    reads_rows: bool = True,
) -> Callable[[Callable[[UnitFolder], str]], Stage]:
    """Make a stage of a unit, a function of its folder that gives a line of counts: done once
    `output` stands in the (private) folder. One that reads no rows still may where held-out ones
    are queries.
    """

    def decorate(function: Callable[[UnitFolder], str]) -> Stage:
        def once(run: str, unit_key: str) -> str:
            folder = open_unit(run, unit_key)
            file = output if isinstance(output, str) else output(folder)
            if ((folder.private if private else folder.path) / file).exists():
                return "already done"
            with timed(
                folder.run,
                unit_key,
                name,
                reads_rows=reads_rows or folder.declared.evaluation == "charged",
            ):
                return function(folder)

        once.__doc__, once.__module__ = function.__doc__, function.__module__
        return stage(name, place)(once)

    return decorate
