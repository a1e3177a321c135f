"""The command line in a fork of a process that has imported it: what it does is the same, and its
second of imports is spent once.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_OUT, _ERR = 1, 2


def run_forked(
    typed: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """`dpicl` with these words, this environment and nothing else of the caller's, in a process
    group of its own that is ended with it.

    Raises:
        TimeoutExpired: it took longer.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        context = multiprocessing.get_context("forkserver")
        files = tuple(f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err))
        process = context.Process(
            target=_command, args=(list(typed), dict(environment), str(folder), *files)
        )
        process.start()
        process.join(seconds)
        hangs = process.exitcode is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        if hangs:
            raise subprocess.TimeoutExpired(list(typed), seconds)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(
            list(typed), process.exitcode or 0, out.read().decode(), err.read().decode()
        )


def _command(
    typed: list[str], environment: Mapping[str, str], folder: str, out: str, err: str
) -> None:
    """What the script `dpicl` does, in a process that was forked for it."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # the fork server has read the settings of its own environment: no server, or another one
    if "prefect" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()
    for place, path in ((_OUT, out), (_ERR, err)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, place)
        os.close(file)
    sys.stdout, sys.stderr = (
        open(place, "w", encoding="utf-8", closefd=False)  # noqa: PTH123, SIM115 - numbers
        for place in (_OUT, _ERR)  # noqa: SIM115
    )  # noqa: PTH123, SIM115 - numbers
    sys.argv = ["dpicl", *typed]
    code: object = 0
    try:
        from dpicl.cli import main

        main()
    except SystemExit as end:
        code = end.code
    finally:
        atexit._run_exitfuncs()  # a forked process ends without them
        for file_of in (sys.stdout, sys.stderr):
            file_of.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
