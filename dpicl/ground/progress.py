"""How far a call is that takes a while: a bar on standard error, where a person looks at it.

A terminal or a notebook has one, a log or a file none. It appears after two seconds, and goes at
the end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dpicl.ground.printable import printable, unfiltered

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Update = Callable[[int, int], None]
"""So many are done, of so many."""
QUIET = threading.Event()
"""Set by --quiet: notes and progress are left out."""
PATIENCE = 2.0
"""Seconds before a bar appears."""
_LOOK = 0.2
_shown = threading.Lock()
"""Of the one bar that there may be at a time: a call within a call has none."""


def bar(console: Console, of: str, *, transient: bool = False) -> Progress:
    """A bar of rich's: what is being done, how many `of` what are done, and the time."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    # what libraries write meanwhile passes the filter, not the bar's own reading of escapes
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(of),
        TimeElapsedColumn(),
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
        transient=transient,
    )


@contextmanager
def progress(doing: str, of: str = "") -> Iterator[Update]:
    """Show on standard error how far the block is, by what it gives to the function it gets."""
    done: list[tuple[int, int]] = []

    def update(count: int, total: int) -> None:
        done[:] = [(count, total)]

    stream: Any = unfiltered(sys.stderr)
    in_notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    is_looked_at = stream is not None and (in_notebook or stream.isatty())
    if QUIET.is_set() or not is_looked_at or not _shown.acquire(blocking=False):
        yield update
        return
    stop = threading.Event()

    def watch() -> None:
        if stop.wait(PATIENCE):
            return
        from rich.console import Console

        console = Console(
            file=stream, force_terminal=True, force_jupyter=False, force_interactive=True
        )
        with bar(console, of, transient=True) as shown:
            task = shown.add_task(printable(doing, lines=False), total=None)
            while not stop.wait(_LOOK):
                if done:
                    shown.update(task, completed=done[0][0], total=done[0][1])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield update
    finally:
        stop.set()
        watcher.join()
        _shown.release()


def counter(update: Update, total: int) -> Callable[[], None]:
    """To be called once for each of so many that is done."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        update(done, total)

    return step
