"""What `dpicl run` does: all of a run, with a count of the finished cells."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.cli.budget import warn_of_caps
from dpicl.cli.executors import Execute
from dpicl.cli.stopping import when_stopped
from dpicl.cli.terminal import Count, counted, note
from dpicl.engine.artefacts import PART, PROMPTS, RESULTS, WRITING
from dpicl.engine.files import read_json
from dpicl.engine.plan import make_plan
from dpicl.engine.run_folder import LOCK, Plan, read_plan
from dpicl.engine.run_quote import plan_accounts
from dpicl.engine.settings import Settings
from dpicl.engine.stages.probe import PROBE
from dpicl.leaving import passing, sweep
from dpicl.lm.models import make_ready
from dpicl.pipeline import Unit
from dpicl.report.load import load_run
from dpicl.report.stages import report_steps
from dpicl.report.story import story


def do_run(
    pipeline: str,
    changes: dict[str, Any],
    run_id: str | None,
    execute: Execute,
    *,
    resume: bool,
    workers: int | None,
    period: str | None,
) -> Path:
    """Plan, run on so many workers, one per core if not said, and show how far it is; returns the
    run's folder.
    """
    folder = make_plan(pipeline, changes, run_id, resume=resume, period=period)
    when_stopped(f"dpicl: interrupted; `dpicl run --resume {folder.name}` continues it")
    note(f"run {folder.name}")
    plan, settings = read_plan(folder), Settings.current()
    units = plan.units
    for spec in (plan.model, plan.writing_model, *plan.beside):
        make_ready(spec)
    if not units:  # a table of costs needs no workers
        for step in report_steps(folder):
            step.stage(*step.references)
        return folder
    warn_of_caps(plan_accounts(plan, settings), settings)
    private = (
        settings.private_home / dataset / folder.name
        for dataset in {unit.dataset for unit in units.values()}
    )
    sweep(settings.private_home)
    # a resumed run reads the rows again
    with (
        passing(*private, lock=folder / LOCK),
        counted("running", "cells", partial(_look, folder, plan)) as count,
    ):
        execute(
            folder,
            pipeline,
            changes,
            workers or os.cpu_count() or 1,
            partial(setattr, count, "doing"),
        )
        count.doing = "done"
    return folder


def story_of(folder: Path) -> list[str]:
    """What a run that is done came to, in a few lines."""
    # a table of costs releases nothing
    return story(load_run(folder)) if read_plan(folder).units else []


def _look(folder: Path, plan: Plan, count: Count) -> None:
    """Finished cells in the run's folder, and how far a model is: that is opened, that reads
    private rows, or answers public queries.
    """
    units = plan.units
    count.update(_done(folder, plan), sum(_cell_count(unit, plan) + 1 for unit in units.values()))
    if not (folder / PROBE).exists():
        names = dict.fromkeys(spec.name for spec in (plan.model, plan.writing_model, *plan.beside))
        count.detail = f"opening and checking {' and '.join(names)}"
        return
    running = (path for path in folder.glob(f"{WRITING}/*.json") if not _is_over(folder, path.stem))
    done, most, what = min(
        ((state["done"], state["of"], state["what"]) for state in map(read_json, running)),
        default=(0, 0, ""),
    )
    count.detail = f"{what} {done} of {most}" if what else ""


def _is_over(folder: Path, name: str) -> bool:
    """Whether what a file of progress shows is done: a unit's texts stand in its prompts, the
    answers to a part of it in its results.
    """
    key, part, _ = name.partition(PART)
    return (folder / "units" / key / (RESULTS if part else PROMPTS)).exists()


def _cell_count(unit: Unit, plan: Plan) -> int:
    """Scored cells of a unit, by each model: zero-shot and its own; raw rows have none without
    noise.
    """
    own = 1 + sum(
        cell.system != "raw-rows" or cell.epsilon != float("inf") for cell in unit.evaluated_cells
    )
    return own * (1 + len(plan.beside))


def _done(folder: Path, plan: Plan) -> int:
    count = 0
    for key, unit in plan.units.items():
        path = folder / "units" / key
        if (path / RESULTS).exists():
            count += _cell_count(unit, plan) + 1
        elif (path / PROMPTS).exists():
            count += sum(1 for _ in path.glob("scored/[0-9]*.npz"))
    return count
