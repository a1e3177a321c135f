"""What the command line shows: progress of a run, contracts and data sets as tables."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dpicl.contract import Contract
from dpicl.contract.models import CategoryColumn
from dpicl.errors import DpiclError, RunError
from dpicl.pipeline import Unit
from flows.environment import prepare_environment
from tasks.artefacts import PROMPTS, RESULTS
from tasks.run_folder import read_plan
from tasks.settings import Settings


def run_with_progress(
    pipeline: str, changes: dict[str, Any], run_id: str | None, *, resume: bool, workers: int | None, console: Console
) -> Path:
    """Plan, start what is needed, run, and show how far it is; returns the run's folder.

    Raises:
        DpiclError: something was refused or failed, told in one sentence.
    """
    prepare_environment(console_level="CRITICAL")
    from flows.runtime import runtime  # after the environment: it imports the orchestrator
    from tasks.plan import make_plan

    folder = make_plan(pipeline, changes, run_id, resume=resume)
    console.print(f"run {folder.name}", highlight=False)
    if not read_plan(folder).units:
        _report_only(folder)
        return folder
    with _progress(folder, console) as say:
        say("starting the orchestrator and the workers")
        with _one_sentence(folder.name), runtime(workers):
            from flows.sweep import sweep

            say("running")
            sweep(pipeline, changes, folder.name, True)
            say("done")
    return folder


def _report_only(folder: Path) -> None:
    """A table of costs needs neither orchestrator nor cluster."""
    from flows.report import build_report
    from tasks.collect import collect

    collect(str(folder))
    build_report(folder)


@contextmanager
def _one_sentence(run_id: str) -> Iterator[None]:
    """What the orchestrator or the cluster could not do, without their tracebacks.

    An interrupt reaches server and workers too, so that their failures may be told first: it stays an interrupt.
    """
    with _interrupts() as interrupted:
        try:
            yield
        except Exception as error:
            if interrupted.is_set():
                raise KeyboardInterrupt from None
            if isinstance(error, DpiclError):
                raise
            raise RunError(f"run {run_id}: stopped by {type(error).__name__}; `dpicl run --resume {run_id}` does what is missing") from None


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set once the user has interrupted, whoever else swallows the exception."""
    seen, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.default_int_handler(number, frame)

    if before is signal.default_int_handler:  # a job in the background ignores it
        signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(folder: Path, console: Console) -> Iterator[Any]:
    """A bar that counts finished cells by looking at the run's folder."""
    units = read_plan(folder).units
    total = sum(_cell_count(unit) + 1 for unit in units.values())
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeElapsedColumn(),
    )
    stop = threading.Event()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=total)

        def watch() -> None:
            while not stop.wait(0.5):
                progress.update(bar, completed=_done(folder, units))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield lambda text: progress.update(bar, description=text, completed=_done(folder, units))
        finally:
            stop.set()
            watcher.join()


def _cell_count(unit: Unit) -> int:
    """Scored cells of a unit: zero-shot and its own; raw rows have none without noise."""
    return 1 + sum(cell.system != "raw-rows" or cell.epsilon != float("inf") for cell in unit.asked_cells())


def _done(folder: Path, units: dict[str, Unit]) -> int:
    count = 0
    for key, unit in units.items():
        path = folder / "units" / key
        if (path / RESULTS).exists():
            count += _cell_count(unit) + 1
        elif (path / PROMPTS).exists():
            count += sum(1 for _ in path.glob("scored/[0-9]*.npz"))
    return count


def contract_table(contract: Contract, console: Console) -> None:
    """Columns, privacy and groups of one contract."""
    privacy = contract.privacy
    budget = (
        "benchmark (public data, nothing at stake)"
        if privacy.budget.benchmark
        else f"epsilon {privacy.budget.epsilon}, delta {privacy.budget.delta}"
    )
    console.print(f"{contract.name}: {contract.description}", style="bold", highlight=False)
    console.print(f"source     {contract.source.title}, {contract.source.licence}", highlight=False)
    most = f" (column {privacy.person.id_column}, at most {privacy.person.max_rows} rows each)" if privacy.person else ""
    console.print(
        f"unit       one {privacy.unit}{most}, neighbours {privacy.neighbours}; subsample rate {privacy.sampling_rate}", highlight=False
    )
    console.print(f"budget     {budget}", highlight=False)
    console.print(f"question   {contract.label.question}", highlight=False)
    table = Table("column", "type", "public bounds or categories", box=None, header_style="bold")
    for name, column in contract.columns.items():
        values = ", ".join(column.categories) if isinstance(column, CategoryColumn) else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
        table.add_row(name, column.type, values)
    console.print(table)
    local = ", ".join(f"{attribute.name} ({attribute.part_count})" for attribute in contract.local)
    console.print(f"local      {local}, label (2)", highlight=False)
    for shots, keys in sorted(contract.groups.items()):
        console.print(f"{shots} shots    " + " x ".join(key if key == "label" else key.column for key in keys), highlight=False)


def data_table(settings: Settings, console: Console) -> None:
    """All data sets and where their rows would come from."""
    table = Table("data set", "rows from", "at hand", "licence", box=None, header_style="bold")
    for name in settings.contract_names():
        source = settings.contract(name).source
        ways = [
            way
            for way, value in (("bundled", source.bundled), ("file", source.file), ("OpenML", source.openml), ("UCI", source.uci))
            if value
        ]
        found = bool(source.bundled) or bool(settings.data and source.file and (settings.data / source.file).exists())
        found = found or any(settings.cache.glob(f"{name}*"))
        table.add_row(name, ", ".join(ways), "yes" if found else "no", source.licence)
    console.print(table)
    console.print("files are looked up below DPICL_DATA; `dpicl data fetch NAME` downloads", highlight=False)
