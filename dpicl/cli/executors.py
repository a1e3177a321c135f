"""What does a planned run: worker processes alone, or Prefect on Dask where `flows` is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpicl.cli.contributed import FLOWS
from dpicl.cli.terminal import check_state
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, ParameterError

Execute = Callable[[Path, str, dict[str, Any], int, Callable[[str], object]], None]
"""Does a planned run: its folder, the pipeline and the changes to it, how many workers, and what
shows a line.
"""


_PREFECT = ("prefect", "prefect_dask")
"""Packages of a run on Prefect, besides `flows`, which comes with the repository and the image."""


def executor_named(chosen: str | None) -> Execute:
    """What does the run; what it needs is checked.

    Raises:
        DpiclError: there is no such executor, or Prefect was chosen and this is no clone.
        ModuleNotFoundError: Prefect was chosen, and is not installed.
    """
    if chosen not in (None, "pool", "prefect"):
        raise ParameterError("executor", chosen, "pool or prefect")
    missing = [name for name in _PREFECT if not _is_installed(name)]
    if chosen == "pool" or (chosen is None and (missing or not FLOWS.exists())):
        check_state()
        return _on_pool
    if not FLOWS.exists():
        raise DpiclError(
            "--executor prefect: runs on Prefect are started from the repository or the image; "
            "expected a clone, or --executor pool"
        )
    if missing:
        raise ModuleNotFoundError(f"No module named {missing[0]!r}", name=missing[0])
    execute: Execute = importlib.import_module("flows.console").prepared()
    return execute


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a finder of somebody's may say so
        return False


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
