"""Commands of other packages, by the entry-point group `dpicl.commands`: a name, and a function or
app of Typer.

`flows` contributes those that need Prefect, dpicl-lab audits and what papers print. One whose
packages are not installed is hidden, and its error says what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

import dpicl
from dpicl.errors import DpiclError
from dpicl.installed import contributed

GROUP = "dpicl.commands"
SHIPPED = ("serve", "deploy", "metrics")
"""Commands of `flows`, whether or not it can be loaded here."""
LAB = ("audit", "compare", "reproduce")
"""Commands of dpicl-lab, whether or not it is installed."""
FLOWS = Path(dpicl.__file__).parent.parent / "flows" / "commands.py"
"""In the repository and the image it stands beside this package; elsewhere `flows` may be
anybody's.
"""


def contribute(app: typer.Typer) -> None:
    """Add them; `run` is this package's own."""
    for name in (*SHIPPED, *sorted(contributed(GROUP).names.union(LAB) - {"run", *SHIPPED})):
        try:
            if name in SHIPPED and not FLOWS.exists():
                expected = "a clone and `make setup`"
                raise DpiclError(
                    f"{name}: is run from the repository or the image, and is not among what pip "
                    f"installs; expected {expected}"
                )
            point = next(iter(contributed(GROUP).select(name=name)), None)
            if point is None:
                package = "dpicl-lab" if name in LAB else "dpicl[pipeline,local]"
                expected = f'`pip install "{package}"`, in a clone `make setup`'
                raise DpiclError(
                    f"{name}: no installed package has this command; expected {expected}"
                )
            command = point.load()
        except (ModuleNotFoundError, DpiclError) as error:
            anything = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(name, hidden=True, add_help_option=False, context_settings=anything)(
                _missing(error)
            )
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _missing(error: Exception) -> Callable[[typer.Context], None]:
    def missing(_context: typer.Context) -> None:
        raise error

    return missing
