"""What the command line shows of a run: how far it is, and what stopped it."""

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

from dpicl.engine.artefacts import PROMPTS, RESULTS, WRITING
from dpicl.engine.files import read_json
from dpicl.engine.run_folder import read_plan
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, RunError
from dpicl.pipeline import Unit
from flows.environment import prepare_environment


def run_with_progress(
    pipeline: str,
    changes: dict[str, Any],
    run_id: str | None,
    *,
    resume: bool,
    workers: int | None,
    console: Console,
    period: str | None = None,
) -> Path:
    """Plan, start what is needed, run, and show how far it is; returns the run's folder.

    Raises:
        DpiclError: something was refused or failed, told in one sentence.
    """
    prepare_environment(console_level="CRITICAL")
    from dpicl.cli.budget import warn_of_caps  # after the environment: all of these import the orchestrator
    from dpicl.engine.plan import make_plan
    from dpicl.engine.quote import accounts_of
    from flows.runtime import runtime

    folder = make_plan(pipeline, changes, run_id, resume=resume, period=period)
    console.print(f"run {folder.name}", highlight=False)
    units, settings = read_plan(folder).units, Settings.from_environment()
    if not units:
        _report_only(folder)
        return folder
    warn_of_caps(accounts_of(((unit.dataset, unit.method) for unit in units.values()), settings), settings)
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
    from dpicl.engine.collect import collect
    from dpicl.report import build_report

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
                progress.update(bar, completed=_done(folder, units), **_writing(folder))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield lambda text: progress.update(bar, description=text, completed=_done(folder, units))
        finally:
            stop.set()
            watcher.join()


def _writing(folder: Path) -> dict[str, Any]:
    """How far a model is that reads private rows, as the bar's text; nothing where none does."""
    told = [read_json(path) for path in folder.glob(f"{WRITING}/*.json") if not (folder / "units" / path.stem / PROMPTS).exists()]
    if not told:
        return {}
    done, most, what = min((one["done"], one["of"], one["what"]) for one in told)
    return {"description": f"{what} {done} of {most}"}


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
