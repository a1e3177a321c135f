"""A run's stages one after another, without an orchestrator, in a process that may be killed at any
file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from itertools import chain as joined
from pathlib import Path
from typing import Any, Literal

from dpicl.home.settings import Settings
from dpicl.report import report_steps
from dpicl.runs.chain import chain, rows_ready
from dpicl.runs.execute import InProcess, Step, run_units, steps_of
from dpicl.runs.plan import make_plan
from dpicl.runs.probe import probe
from dpicl.runs.run_folder import read_plan
from tests.harness import exit_code, forked

End = Literal["finished", "torn", "placed"]


def steps(run: str) -> Iterator[Step]:
    """Every step of a run, unit by unit, whatever of it is done."""
    units = read_plan(Path(run)).units
    yield Step(probe, (run,))
    for dataset in dict.fromkeys(unit.dataset for unit in units.values()):
        yield from joined.from_iterable(steps_of(rows_ready, run, dataset))
    for key in units:
        yield from joined.from_iterable(steps_of(chain, run, key))
    yield from report_steps(Path(run))


def do_run(
    pipeline: str, changes: Mapping[str, Any], run_id: str | None = "r", *, before: str = ""
) -> Path:
    """Plan a run and do its stages in this process, up to the first one of a name."""
    run = make_plan(pipeline, dict(changes), run_id)
    for stage, references in steps(str(run)):
        if stage.name == before:
            break
        stage(*references)
    return run


def work(
    environment: Mapping[str, str], pipeline: str, changes: Mapping[str, Any], run_id: str, end: End
) -> None:
    """Plan and do a run; unless `end` is `finished`, die at a new file.

    `torn`     at the second new file, with half of it written under its temporary name
    `placed`   at the first new file, right after it got its name

    Drafts of releases do not count: every try draws another one. `protocol` kills around those.
    """
    os.environ.update(environment)
    if end != "finished":
        _die(end)
    with Settings.from_environment().entered():
        run = make_plan(pipeline, changes, run_id)
        run_units(run, InProcess(), report_steps(run))


def _die(end: End) -> None:
    link, new = os.link, []

    def deadly(source: os.PathLike[str], target: os.PathLike[str], **options: Any) -> None:
        if Path(target).exists() or Path(target).suffix == ".draft":
            link(source, target, **options)
            return
        new.append(target)
        if end == "torn" and len(new) == 2:
            os.truncate(source, Path(source).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        link(source, target, **options)
        if end == "placed":
            os.kill(os.getpid(), signal.SIGKILL)

    os.link = deadly  # type: ignore[assignment]


def in_process(*arguments: Any) -> int:
    """`work` in a fresh fork of a process that has imported everything; gives its exit code."""
    return exit_code(forked(work, *arguments), 300)
