"""What `dpicl run` does: a run up to its first charge with --dry-run, else all of it, with a count of the finished cells."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpicl.cli.budget import print_quotes, warn_of_caps
from dpicl.cli.contributed import FLOWS
from dpicl.cli.stopping import when_stopped
from dpicl.cli.terminal import Count, check_state, console, counted, errors, note, say_json
from dpicl.engine.artefacts import PROMPTS, RESULTS, WRITING
from dpicl.engine.benchmarks import known_when_read
from dpicl.engine.collect import left_out
from dpicl.engine.execute import call_all, run_units
from dpicl.engine.files import read_json
from dpicl.engine.plan import check_plan, check_quotes, make_plan, plan_for
from dpicl.engine.pool import Pool
from dpicl.engine.quote import plan_accounts, quote_plan
from dpicl.engine.received import NOTHING_CHARGED
from dpicl.engine.run_folder import LOCK, read_plan, run_folder, write_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import StageFailed
from dpicl.engine.stages.probe import probe
from dpicl.errors import DpiclError, ParameterError, RunError
from dpicl.leaving import passing, sweep
from dpicl.pipeline import Unit
from dpicl.report.load import load_run
from dpicl.report.stages import report_steps
from dpicl.report.story import story

Execute = Callable[[Path, str, dict[str, Any], int, Callable[[str], object]], None]
"""Does a planned run: its folder, the pipeline and the changes to it, how many workers, and what shows a line."""


_PREFECT = ("prefect", "prefect_dask")
"""Packages of a run on Prefect, besides `flows`, which comes with the repository and the image."""


def executor_named(chosen: str | None) -> Execute:
    """What does the run; what it needs is checked.

    Raises:
        DpiclError: there is no such executor, or Prefect was chosen and this is no clone.
        ModuleNotFoundError: Prefect was chosen, and is not installed.
    """
    if chosen not in (None, "pool", "prefect"):
        raise ParameterError("executor", chosen, "pool or prefect")
    missing = [name for name in _PREFECT if not _is_installed(name)]
    if chosen == "pool" or (chosen is None and (missing or not FLOWS.exists())):
        check_state()
        return _on_pool
    if not FLOWS.exists():
        raise DpiclError(
            "--executor prefect: runs on Prefect are started from the repository or the image; expected a clone, or --executor pool"
        )
    if missing:
        raise ModuleNotFoundError(f"No module named {missing[0]!r}", name=missing[0])
    execute: Execute = importlib.import_module("flows.console").prepared()
    return execute


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a finder of somebody's may say so
        return False


def do_run(
    pipeline: str, changes: dict[str, Any], run_id: str | None, execute: Execute, *, resume: bool, workers: int, period: str | None
) -> Path:
    """Plan, run, and show how far it is; returns the run's folder."""
    folder = make_plan(pipeline, changes, run_id, resume=resume, period=period)
    when_stopped(f"dpicl: interrupted; `dpicl run --resume {folder.name}` continues it")
    note(f"run {folder.name}")
    plan, settings = read_plan(folder), Settings.current()
    units = plan.units
    if not units:  # a table of costs needs no workers
        call_all([report_steps(folder)])
        return folder
    warn_of_caps(plan_accounts(plan, settings), settings)
    private = (settings.private_home / dataset / folder.name for dataset in {unit.dataset for unit in units.values()})
    sweep(settings.private_home)
    with (
        passing(*private, lock=folder / LOCK),
        counted("running", "cells", partial(_look, folder, units)) as count,
    ):  # a resumed run reads the rows again
        execute(folder, pipeline, changes, workers, partial(setattr, count, "doing"))
        count.doing = "done"
    return folder


def story_of(folder: Path) -> list[str]:
    """What a run that is done came to, in a few lines."""
    return story(load_run(folder)) if read_plan(folder).units else []  # a table of costs releases nothing


def _on_pool(folder: Path, _pipeline: str, _changes: dict[str, Any], workers: int, show: Callable[[str], object]) -> None:
    show("starting the workers")
    with Pool(workers, Settings.current()) as pool:
        show("running")
        run_units(folder, pool, report_steps(folder))


def print_dry_run(pipeline: str, changes: dict[str, Any], run_id: str | None, *, resume: bool, period: str | None, as_json: bool) -> None:
    """A run up to its first charge, in a folder that is deleted: what it refuses is refused here in the same words; reads no row.

    What it would be charged is printed per account, also where a cap refuses it.

    Raises:
        DpiclError: as `make_plan` and the stage `probe`.
    """
    settings = Settings.current()
    plan = plan_for(pipeline, changes, settings, run_id, resume=resume, period=period)
    units = plan.units
    if resume:
        units = {key: unit for key, unit in units.items() if not (run_folder(settings, plan.run_id) / "units" / key / RESULTS).exists()}
    else:
        check_plan(plan, settings)
    to = errors if as_json else console
    quotes = quote_plan(plan, settings, units.values())
    if plan.pipeline.reports is None:
        print_quotes(quotes, as_json=as_json)
    else:
        note(NOTHING_CHARGED, to=to)
        if as_json:
            say_json([])
    warn_of_caps(plan_accounts(plan, settings), settings, to)
    if not resume:
        check_quotes(quotes)
    if units:
        settings.make_runs()
        with (
            TemporaryDirectory(dir=settings.runs, prefix=".dry-run-") as folder,
            passing(Path(folder)),
        ):  # no name of a run begins with a dot
            write_plan(run := Path(folder) / plan.run_id, plan)
            try:
                probe(str(run))
            except StageFailed as error:
                raise RunError(f"run {plan.run_id}: {error}") from None
        note("the model answered public prompts, as it has to before a run is charged", to=to)
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    note(*left_out(plan, contracts), to=to)
    if unread := known_when_read(contracts.values()):
        note(f"{', '.join(unread)}: whether the rows are published is checked when they are read; a run refuses others", to=to)


def _look(folder: Path, units: Mapping[str, Unit], count: Count) -> None:
    """Finished cells in the run's folder; of a model that reads private rows, how far it is."""
    count.update(_done(folder, units), sum(_cell_count(unit) + 1 for unit in units.values()))
    running = (path for path in folder.glob(f"{WRITING}/*.json") if not (folder / "units" / path.stem / PROMPTS).exists())
    done, most, what = min(((state["done"], state["of"], state["what"]) for state in map(read_json, running)), default=(0, 0, ""))
    count.detail = f"{what} {done} of {most}" if what else ""


def _cell_count(unit: Unit) -> int:
    """Scored cells of a unit: zero-shot and its own; raw rows have none without noise."""
    return 1 + sum(cell.system != "raw-rows" or cell.epsilon != float("inf") for cell in unit.evaluated_cells)


def _done(folder: Path, units: Mapping[str, Unit]) -> int:
    count = 0
    for key, unit in units.items():
        path = folder / "units" / key
        if (path / RESULTS).exists():
            count += _cell_count(unit) + 1
        elif (path / PROMPTS).exists():
            count += sum(1 for _ in path.glob("scored/[0-9]*.npz"))
    return count
