"""What `dpicl run` does: all of a run, with a count of the finished cells.

`dpicl run --dry-run`: a run up to its first charge.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpicl.cli.budget import print_quotes, warn_of_caps
from dpicl.cli.executors import Execute
from dpicl.cli.terminal import (
    Count,
    console,
    counted,
    errors,
    note,
    say_json,
    waiting,
    when_stopped,
)
from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.pipeline import Unit
from dpicl.ground.errors import RunError, StageFailed
from dpicl.ground.files import read_json
from dpicl.ground.nouns import many
from dpicl.ground.shutdown import passing, sweep
from dpicl.home.benchmarks import check_unlisted, known_when_read
from dpicl.home.settings import Settings
from dpicl.methods import METHODS
from dpicl.models.asking import AskedBy
from dpicl.release.pipelines import asks_models
from dpicl.release.releases import check_quotes
from dpicl.report import REPORT, report_steps
from dpicl.runs.artefacts import PART, PROMPTS, RESULTS, WRITING
from dpicl.runs.model_check import day_of, remember, remembered
from dpicl.runs.plan import check_plan, make_plan, plan_accounts, plan_for, quote_plan, settled_plan
from dpicl.runs.probe import PROBE, probe
from dpicl.runs.results import left_out
from dpicl.runs.run_folder import LOCK, Plan, begun_units, read_plan, run_folder, write_plan


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
    with waiting("planning the run"):
        if not resume:
            _check_benchmarks(
                plan_for(pipeline, changes, Settings.current(), run_id, period=period)
            )
        folder = make_plan(pipeline, changes, run_id, resume=resume, period=period)
    when_stopped(f"dpicl: interrupted; `dpicl run --resume {folder.name}` continues it")
    note(f"run {folder.name}")
    plan = read_plan(folder)
    settings = Settings.current()
    units = plan.units
    asked = asks_models(plan.pipeline.datasets, settings)
    for spec in (plan.model, plan.writing_model, *plan.beside) if asked else ():
        spec.of_kind.make_ready(spec)
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


def _check_benchmarks(plan: Plan) -> None:
    """Refuse rows that are not public before workers start and a folder is made for them, and
    before they are read whatever else a plan is refused for.
    """
    settings = Settings.current()
    names = {unit.dataset for unit in plan.units.values()} if plan.pipeline.reports is None else ()
    contracts = [settings.declared(name) for name in plan.pipeline.datasets if name in names]
    check_plan(plan, settings)
    check_unlisted(contracts, settings)


def story_of(folder: Path) -> list[str]:
    """What a run that is done came to, in a few lines, and where its demonstrations are."""
    if not read_plan(folder).units:  # a table of costs releases nothing
        return []
    from dpicl.report.load import demonstration_files, load_run  # a second to import
    from dpicl.report.opening import story

    run = load_run(folder)
    files = demonstration_files(run.demonstrations)
    return [*story(run), *[f"demonstrations: {folder / files}"][: bool(files)]]


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
    states = ((state["done"], state["of"], state["what"]) for state in map(read_json, running))
    # what is done waits for what comes after it, and would hide what still goes on
    done, most, what = min(
        (state for state in states if state[0] < state[1]),
        key=lambda state: state[0] / state[1],
        default=(0, 0, ""),
    )
    count.detail = f"{what} {done} of {most}" if what else _phase(folder, plan)


def _phase(folder: Path, plan: Plan) -> str:
    """What is done while no model says how far it is, by what is in the folder."""
    at = {key: folder / "units" / key for key in begun_units(folder, plan)}
    left = [key for key, place in at.items() if not (place / RESULTS).exists()]
    undrawn = [
        key for key in left if not (at[key] / METHODS[plan.units[key].method].artefact).exists()
    ]
    if at and not left:
        return "closing the workers" if (folder / REPORT).exists() else "writing the report"
    if undrawn:
        return f"reading rows and drawing releases of {many(len(undrawn), 'unit')}"
    if not all((at[key] / PROMPTS).exists() for key in left):
        return "writing prompts"
    return f"asking {plan.model.name}"


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


def print_dry_run(
    pipeline: str,
    changes: dict[str, Any],
    run_id: str | None,
    *,
    resume: bool,
    period: str | None,
    as_json: bool,
) -> None:
    """A run up to its first charge, in a folder that is deleted: what it refuses is refused here in
    the same words; reads no row.

    What it would be charged is printed per account, also where a cap refuses it.

    Raises:
        DpiclError: as `make_plan` and the stage `probe`.
    """
    settings = Settings.current()
    plan = plan_for(pipeline, changes, settings, run_id, resume=resume, period=period)
    units = plan.units
    asked = dict[str, AskedBy]()
    if resume:
        units = {
            key: unit
            for key, unit in units.items()
            if not (run_folder(settings, plan.run_id) / "units" / key / RESULTS).exists()
        }
    else:
        with waiting("planning the run"):
            check_plan(plan, settings)
            plan, asked = settled_plan(plan, settings)
    to = errors if as_json else console
    quotes = quote_plan(plan, settings, units.values())
    if plan.pipeline.reports is None:
        print_quotes(quotes, as_json=as_json)
    else:
        note(CLIENTS_PAY, to=to)
        if as_json:
            say_json([])
    warn_of_caps(plan_accounts(plan, settings), settings, to)
    if not resume:
        check_quotes(quotes)
    note(*(f"{name} is {by.sentence}" for name, by in asked.items()), to=to)
    if units and asks_models(plan.pipeline.datasets, settings):
        note(
            f"The model works: it answered public test prompts{_ask(plan, settings)}. Nothing is "
            f"charged yet.",
            to=to,
        )
    elif units:
        note("No model is asked, as no contract here has queries. Nothing is charged yet.", to=to)
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    note(*left_out(plan, contracts), to=to)
    if unread := known_when_read(contracts.values()):
        note(
            f"{', '.join(unread)}: whether the rows are published is checked when they are read; "
            f"a run refuses others",
            to=to,
        )


def _ask(plan: Plan, settings: Settings) -> str:
    """Ask the models public prompts, as the stage `probe` does, unless they have answered before;
    gives when, if so.

    Raises:
        DpiclError: as the stage `probe`.
    """
    settings.make_runs()
    place = remembered(plan, settings)
    if (day := day_of(place)) is not None:
        return f" on {day}"
    # no name of a run begins with a dot
    with TemporaryDirectory(dir=settings.runs, prefix=".dry-run-") as folder, passing(Path(folder)):
        write_plan(run := Path(folder) / plan.run_id, plan)
        try:
            probe(str(run))
        except StageFailed as error:
            raise RunError(f"run {plan.run_id}: {error}") from None
    remember(place)
    return ""
