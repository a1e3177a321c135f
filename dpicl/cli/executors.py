"""What does a planned run: worker processes alone, or Prefect on Dask where `flows` is.

Commands of other packages, by the entry-point group `dpicl.commands`: a name, and a function or app
of Typer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import typer

import dpicl
from dpicl.cli.terminal import check_state
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.ground.installed import FROM_CLONE, contributed, to_install
from dpicl.home.settings import Settings

Execute = Callable[[Path, str, dict[str, Any], int, Callable[[str], object]], None]
"""Does a planned run: its folder, the pipeline and the changes to it, how many workers, and what
shows a line.
"""


class Orchestrator(Protocol):
    """What `flows` contributes by the entry-point group `dpicl.executors`."""

    def prepared(self) -> Execute:
        """Set what it goes by, and give what does a run."""

    def clean(self, settings: Settings, keep_days: int, *, dry_run: bool) -> tuple[int, int] | None:
        """Delete what it keeps of runs that ended earlier: how many, and the bytes that are free
        now; None where it keeps nothing.
        """


def prefect() -> Orchestrator:
    """Prefect, of the repository or the image; elsewhere a package `flows` may be anybody's.

    Raises:
        DpiclError: this is neither.
        ModuleNotFoundError: Prefect is not installed.
    """
    point = next(iter(contributed("dpicl.executors").select(name="prefect")), None)
    if point is None or not FLOWS.exists():
        raise DpiclError(
            "--executor prefect: runs on Prefect are started from the repository or the image; "
            "expected a clone and `make setup`, or --executor pool"
        )
    found: Orchestrator = point.load()
    return found


def executor_named(chosen: str | None) -> Execute:
    """What does the run; what it needs is checked.

    Raises:
        DpiclError: there is no such executor, or Prefect was chosen and this is no clone.
        ModuleNotFoundError: Prefect was chosen, and is not installed.
    """
    if chosen not in (None, "pool", "prefect"):
        raise ParameterError("executor", chosen, "pool or prefect")
    if chosen != "pool":
        try:
            orchestrator = prefect()
        except (DpiclError, ModuleNotFoundError):
            if chosen is not None:
                raise
        else:
            return orchestrator.prepared()
    check_state()
    return _on_pool


def _on_pool(
    folder: Path,
    _pipeline: str,
    _changes: dict[str, Any],
    workers: int,
    show: Callable[[str], object],
) -> None:
    from dpicl.report import report_steps
    from dpicl.runs.execute import WorkerPool, run_units

    show("starting the workers")
    with WorkerPool(workers, Settings.current()) as pool:
        show("running")
        run_units(folder, pool, report_steps(folder))


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
                raise DpiclError(
                    f"{name}: is run from the repository or the image, and is not among what pip "
                    "installs; expected a clone and `make setup`"
                )
            point = next(iter(contributed(GROUP).select(name=name)), None)
            if point is None:
                needed = (
                    f"{FROM_CLONE} `pip install ./dpicl ./dpicl/lab`"
                    if name in LAB
                    else to_install("pipeline,local")
                )
                raise DpiclError(
                    f"{name}: no installed package has this command; {needed}, or in the clone "
                    "`make setup`"
                )
            command = point.load()
        except (ModuleNotFoundError, DpiclError) as error:
            anything = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(
                name,
                hidden=True,
                add_help_option=False,
                context_settings=anything,
                help="(not installed here; called, it says what is missing)",
            )(_missing(error))
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _missing(error: Exception) -> Callable[[typer.Context], None]:
    def missing(_context: typer.Context) -> None:
        raise error

    return missing
