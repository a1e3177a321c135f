"""The parts of a cluster as the recipes start them: plain `dask` commands, with the variables of a
sourced file.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, redirect_stdout
from io import StringIO
from pathlib import Path

from infra.certificates import main
from tests.harness import (
    DPICL,
    REPOSITORY,
    Place,
    _bare_environment,
    process_group,
    ran,
    until,
    well,
)

DASK = str(DPICL.with_name("dask"))
WORKER = [
    "--nthreads",
    "1",
    "--memory-limit",
    "0",
    "--no-dashboard",
    "--dashboard-address",
    "127.0.0.1:0",
    "--preload",
    "tasks.preload",
]
HEALTH_ONLY = {
    f"DASK_DISTRIBUTED__{part}__HTTP__ROUTES": "['distributed.http.health']"
    for part in ("SCHEDULER", "WORKER")
}


def certificates(folder: Path, *hosts: str) -> dict[str, str]:
    """Made by the command; what a shell has that has sourced the file."""
    with redirect_stdout(StringIO()):
        assert main([str(folder), "--host", *hosts]) == 0
    sourced = well(ran(["bash", "-c", f". '{folder}/tls.env' && env -0"], env={}))
    found = dict(line.split("=", 1) for line in sourced.stdout.split("\0") if line)
    return {name: value for name, value in found.items() if name.startswith(("DASK_", "PREFECT_"))}


def started(
    place: Place, log: Path, command: Sequence[str], **extra: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A process of the recipes, its words in a file; ended with all that it started."""
    environment = {
        **_bare_environment(),
        **place.environment,
        **HEALTH_ONLY,
        "PYTHONPATH": str(REPOSITORY),
        **extra,
    }
    return process_group(command, log, environment, place.root)


def wait_for(log: Path, words: str, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Until a process has said something."""
    until(
        lambda: words in log.read_text() or process.poll() is not None,
        seconds,
        f"{log.name}: {words}",
    )
    assert words in log.read_text(), log.read_text()
