"""A process that has imported what commands import, and runs each command in a fork of its own.

One JSON line is a task, one JSON line its outcome. What a command has imported of the product and
of the packages below is imported here too, so that later ones need not.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

import dpicl

HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "sklearn")
OURS = ("dpicl", "pydantic", "sqlalchemy", "alembic", "cryptography", "dp_accounting", "typer")
SECONDS = 300


def main() -> None:
    """Answer tasks until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what imports print is no answer
    for name in HEAVY:
        import_module(name)
    for name in dpicl.__all__:
        getattr(dpicl, name)
    for line in sys.stdin:
        outcome, modules = _forked(json.loads(line))
        for name in modules:
            with suppress(ImportError):
                import_module(name)
        answers.write(json.dumps(outcome) + "\n")
        answers.flush()


def _forked(task: dict) -> tuple[dict, list[str]]:
    folder = tempfile.mkdtemp()  # no TemporaryDirectory: a fork's end would remove it
    try:
        out, err, modules = (Path(folder) / name for name in ("out", "err", "modules"))
        pid = os.fork()
        if pid == 0:
            _end_in_fork(task, out, err, modules)
        code = _waited(pid)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        said = [file.read_text("utf-8") if file.exists() else "" for file in (out, err)]
        outcome = {"code": code, "out": said[0], "err": said[1]}
        return outcome, modules.read_text().split() if modules.exists() else []
    finally:
        shutil.rmtree(folder)


def _end_in_fork(task: dict, out: Path, err: Path, modules: Path) -> NoReturn:
    code = 1
    try:
        code = _run(task, out, err, modules)
    except BaseException:
        err.write_text(traceback.format_exc(), "utf-8")
    finally:
        os._exit(code)


def _waited(pid: int) -> int:
    """Exit code of a fork; one that takes too long is ended."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL


def _run(task: dict, out: Path, err: Path, modules: Path) -> int:
    """The task's exit code, in the fork."""
    os.setsid()
    os.environ.clear()
    os.environ.update(task["environment"])
    tempfile.tempdir = None
    os.chdir(task["folder"])
    for place, path in ((0, Path(task["input"])), (1, out), (2, err)):
        file = os.open(path, os.O_RDONLY if place == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, place)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(place, mode, encoding="utf-8", closefd=False)
        for place, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    code = _code(task["words"])
    atexit._run_exitfuncs()  # type: ignore[attr-defined]  # a fork ends without them
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [name for name in sys.modules if name.partition(".")[0] in OURS] + list(HEAVY)
    modules.write_text("\n".join(name for name in kept if name in sys.modules))
    return code


def _code(words: list[str]) -> int:
    """Run `dpicl …`, or `use NAME`, a function of uses.py that prints what it was given."""
    sys.argv = words
    try:
        if words[0] == "use":
            from tests.net import uses

            getattr(uses, words[1])()
        else:
            (script,) = entry_points(group="console_scripts", name="dpicl")
            script.load()()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
