"""What does a planned run: worker processes alone, or Prefect on Dask where `flows` is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dpicl.cli.contributed import FLOWS
from dpicl.cli.terminal import check_state
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, ParameterError
from dpicl.installed import contributed

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
    from dpicl.engine.execute import run_units
    from dpicl.engine.pool import Pool
    from dpicl.report.stages import report_steps

    show("starting the workers")
    with Pool(workers, Settings.current()) as pool:
        show("running")
        run_units(folder, pool, report_steps(folder))
