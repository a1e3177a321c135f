"""What the command line shows of a run: how far it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dpicl.engine.artefacts import PROMPTS, RESULTS, WRITING
from dpicl.engine.files import read_json
from dpicl.engine.run_folder import read_plan
from dpicl.pipeline import Unit


@contextmanager
def progress(folder: Path, console: Console) -> Iterator[Any]:
    """A bar that counts finished cells by looking at the run's folder; what is yielded changes its text."""
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
