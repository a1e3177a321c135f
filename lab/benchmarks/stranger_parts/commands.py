"""The command line: which commands print JSON, whether every command says in a whole sentence what
it does, and how long a completion takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from dpicl.cli.app import app
from lab.benchmarks.figures import Figures, best_of, children, sized

JSON = (
    "budget",
    "list",
    "forecast",
    "plan",
    "contract check",
    "run",
    "protect",
    "synth",
    "state check",
    "state clean",
    "state backup",
    "state restore",
)
"""Commands whose output a program may want: quotes are `run`, `protect` and `synth` with
--dry-run.
"""
SECONDS, ROUNDS, LISTED = 1.0, sized(5, 1), 62
"""Most processor time until a name is completed; how often one is; and letters of a line in the
list of commands.
"""


def commands(group: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its words, those of groups included."""
    for word, command in group.commands.items():
        yield f"{words}{word}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{words}{word} ")


def measure(figures: Figures) -> None:
    """Count commands, and time the installed program as a shell asks it."""
    known = {
        name: command
        for name, command in commands(typer.main.get_command(app))
        if not command.hidden
    }
    taken = {
        name
        for name, command in known.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    figures.exactly("commands of the list without --json", len({*JSON} - taken), 0)
    figures.exactly(
        "commands without --quiet",
        sum(
            all("--quiet" not in param.opts for param in command.params)
            for command in known.values()
        ),
        0,
    )
    figures.exactly(
        "commands cut short in the list",
        sum(command.get_short_help_str(LISTED).endswith("...") for command in known.values()),
        0,
    )
    program = str(Path(sys.executable).with_name("dpicl"))
    asked = {
        **os.environ,
        "_DPICL_COMPLETE": "complete_bash",
        "COMP_WORDS": "dpicl protect b",
        "COMP_CWORD": "2",
    }
    (spent,) = best_of(
        [lambda: subprocess.run([program], env=asked, check=True, stdout=subprocess.DEVNULL)],
        ROUNDS,
        children,
    )
    figures.at_most("processor time until a name is completed", spent, SECONDS, " s")


if __name__ == "__main__":
    figures = Figures()
    measure(figures)
    figures.finish()
