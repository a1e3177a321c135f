"""The progress bar of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dpicl.cli.terminal import console
from dpicl.engine.artefacts import PROMPTS, RESULTS, WRITING
from dpicl.engine.files import read_json
from dpicl.engine.run_folder import read_plan
from dpicl.pipeline import Unit


@contextmanager
def progress(folder: Path) -> Iterator[Any]:
    """A bar of the finished cells in the run's folder; the function that it yields changes the bar's text."""
    units = read_plan(folder).units
    total = sum(_cell_count(unit) + 1 for unit in units.values())
    text, cells = TextColumn("{task.description}"), TextColumn("cells")
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), cells, TimeElapsedColumn())
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
    """Progress of a model that reads private rows, as the bar's text; nothing where none does."""
    states = [read_json(path) for path in folder.glob(f"{WRITING}/*.json") if not (folder / "units" / path.stem / PROMPTS).exists()]
    if not states:
        return {}
    done, most, what = min((state["done"], state["of"], state["what"]) for state in states)
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
