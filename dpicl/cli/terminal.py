"""What all commands share: where they print, the exit code of an interrupted one, and options that several take."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from dpicl.engine.settings import Settings
from dpicl.engine.state_home import check_one_home

WIDTH = None if sys.stdout.isatty() else shutil.get_terminal_size((1_000, 0)).columns
"""Of what is no terminal: names in tables stay whole for the program that reads them."""
console = Console(markup=False, emoji=False, highlight=False, width=WIDTH)
errors = Console(markup=False, emoji=False, highlight=False, stderr=True)
MANY = "comma-separated"
METHOD = "A method on tables. Default: the one whose released rows are best, for --trust."
TRUST = "Who sees true rows: central (a curator) or local (the client alone)."
EPSILON = "Privacy parameter of the release."
OPTION = "An option of the method, NAME=VALUE; may be repeated."
ANYWAY = "Release also what would be little but noise at the contract's population."
JSON = "Print JSON in place of a table."
PERIOD = "Make a new release for this period, such as 2026-12 or once. Default: the contract's current period."


def say(*sentences: str, to: Console = console) -> None:
    """Print sentences, each on one line however narrow the terminal is."""
    for sentence in sentences:
        to.print(sentence, soft_wrap=True)


def new_table(*heads: str) -> Table:
    """An empty table, without rules."""
    return Table(*heads, box=None, header_style="bold")


def say_json(content: Any) -> None:
    """Print content for programs, on standard output; what has no bound is null."""
    print(json.dumps(_without_infinity(content), ensure_ascii=False, indent=2))  # noqa: T201 - the output of a command


def _without_infinity(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _without_infinity(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_infinity(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@contextmanager
def counted(what: str, to: Console = console, *, transient: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar; the function that it yields says how many are done, and of how many."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=to, transient=transient) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def split_values(text: str) -> list[str]:
    """The values of an option that takes several."""
    return [part.strip() for part in text.split(",") if part.strip()]


def check_state() -> None:
    """Refuse a wrong log format, or budgets in two places, before anything is charged."""
    settings = Settings.from_environment()
    _ = settings.log_format
    check_one_home(settings.home)
