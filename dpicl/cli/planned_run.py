"""What `dpicl run` does: a run up to its first charge with --dry-run, else all of it, under a bar of the finished cells."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dpicl.cli.budget import number, warn_of_caps
from dpicl.cli.contributed import FLOWS
from dpicl.cli.stopping import when_stopped
from dpicl.cli.terminal import check_state, console, errors, new_table, say, say_json
from dpicl.engine.artefacts import PROMPTS, RESULTS, WRITING
from dpicl.engine.benchmarks import known_when_read
from dpicl.engine.collect import left_out
from dpicl.engine.execute import call_all, run_units
from dpicl.engine.files import read_json
from dpicl.engine.plan import check_caps, check_plan, make_plan, plan_for
from dpicl.engine.pool import Pool
from dpicl.engine.quote import accounts_of, quote_plan
from dpicl.engine.run_folder import read_plan, run_folder, write_plan
from dpicl.engine.settings import Settings
from dpicl.engine.stage import StageFailed
from dpicl.engine.stages.probe import probe
from dpicl.errors import DpiclError, ParameterError, RunError
from dpicl.leaving import passing
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
    say(f"run {folder.name}")
    units, settings = read_plan(folder).units, Settings.current()
    if not units:  # a table of costs needs no workers
        call_all([report_steps(folder)])
        return folder
    warn_of_caps(accounts_of(((unit.dataset, unit.method) for unit in units.values()), settings), settings)
    private = (settings.home / "private" / dataset / folder.name for dataset in {unit.dataset for unit in units.values()})
    with passing(*private), _progress(folder, units) as show:  # a resumed run reads the rows again
        execute(folder, pipeline, changes, workers, show)
        show("done")
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
    to, lines = errors if as_json else console, []
    table = new_table("account", "releases", "charged before", "would cost", "spent", "cap", "left after")
    for line in quote_plan(plan, settings, units.values()):
        quote, refused = line.quote, "" if line.quote.allowed else " (refused)"
        left = "-" if quote.left is None else number(quote.left)
        counts = str(line.releases), str(line.charged_before)
        table.add_row(line.account, *counts, *map(number, (quote.cost.epsilon, quote.before.epsilon, quote.cap)), left + refused)
        costs = {"epsilon": quote.cost.epsilon, "delta": quote.cost.delta, "epsilon_spent": quote.before.epsilon}
        counted = {"account": line.account, "releases": line.releases, "charged_before": line.charged_before}
        lines.append({**counted, **costs, "epsilon_cap": quote.cap, "epsilon_left": quote.left, "allowed": quote.allowed})
    if as_json:
        say_json(lines)
    else:
        console.print(table)
    say("epsilon in nats; a release is charged once per period, even if the rows change", to=to)
    warn_of_caps(accounts_of(((unit.dataset, unit.method) for unit in units.values()), settings), settings, to)
    if not resume:
        check_caps(plan, settings)
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
        say("the model answered public prompts, as it has to before a run is charged", to=to)
    contracts = {name: settings.declared(name) for name in plan.pipeline.datasets}
    say(*left_out(plan, contracts), to=to)
    if unread := known_when_read(contracts.values()):
        say(f"{', '.join(unread)}: whether the rows are published is checked when they are read; a run refuses others", to=to)


@contextmanager
def _progress(folder: Path, units: dict[str, Unit]) -> Iterator[Any]:
    """A bar of the finished cells in the run's folder; the function that it yields changes the bar's text."""
    total = sum(_cell_count(unit) + 1 for unit in units.values())
    text, cells = TextColumn("{task.description}"), TextColumn("cells")
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), cells, TimeElapsedColumn())
    stop = threading.Event()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=total)

        def watch() -> None:
            while not stop.wait(0.5):
                running = (path for path in folder.glob(f"{WRITING}/*.json") if not (folder / "units" / path.stem / PROMPTS).exists())
                # Of a model that reads private rows; nothing where none does.
                done, most, what = min(
                    ((state["done"], state["of"], state["what"]) for state in map(read_json, running)), default=(0, 0, "")
                )
                description = f"{what} {done} of {most}" if what else None
                progress.update(bar, completed=_done(folder, units), description=description)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield lambda text: progress.update(bar, description=text, completed=_done(folder, units))
        finally:
            stop.set()
            watcher.join()


def _cell_count(unit: Unit) -> int:
    """Scored cells of a unit: zero-shot and its own; raw rows have none without noise."""
    return 1 + sum(cell.system != "raw-rows" or cell.epsilon != float("inf") for cell in unit.evaluated_cells)


def _done(folder: Path, units: dict[str, Unit]) -> int:
    count = 0
    for key, unit in units.items():
        path = folder / "units" / key
        if (path / RESULTS).exists():
            count += _cell_count(unit) + 1
        elif (path / PROMPTS).exists():
            count += sum(1 for _ in path.glob("scored/[0-9]*.npz"))
    return count
