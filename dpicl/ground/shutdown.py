"""How a process leaves that is stopped at any moment: what is there only while it works goes with
it.

Nothing is unwound, as nothing has to be: a stopped process leaves what a killed one does, files
that are whole or absent and charges that are durable. The process is replaced, under its own
number, by this file as a program: so none of its threads can write again what is removed, and no
library has a last word. Imports the standard library alone, and little of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

# not every system has the last
SIGNALS = tuple(sign for sign in signal.Signals if sign.name in ("SIGINT", "SIGTERM", "SIGHUP"))
INTERRUPTED = 128 + signal.SIGINT
"""Exit code, as shells give it: of a termination it is 143."""
_GONE_SECONDS = 2.0
PASSING: dict[Path, Path | None] = {}
"""What goes where this process is stopped, unless another one holds a lock that is named beside
it.
"""
GONE = ".gone-"
"""What a name begins with of what is being removed."""


@contextmanager
def passing(*paths: Path, lock: Path | None = None) -> Iterator[None]:
    """Files and folders that go where this process is stopped inside, but not while another holds
    the `lock`; they need not be there yet.
    """
    PASSING.update(dict.fromkeys(paths, lock))
    try:
        yield
    finally:
        for path in paths:
            PASSING.pop(path, None)


def sweep(folder: Path) -> None:
    """Remove what processes that were killed at it have left to remove below the folders in this
    one.
    """
    for left in folder.glob(f"*/{GONE}*"):
        shutil.rmtree(left, ignore_errors=True)


def leave(sentence: str, sign: int = signal.SIGINT) -> NoReturn:
    """End this process and its fork server's processes, remove what is passing, and print a
    sentence; the exit code says by which signal.
    """
    for ignored in SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    module = sys.modules.get("multiprocessing.forkserver")
    workers = getattr(getattr(module, "_forkserver", None), "_forkserver_pid", None) or 0
    paths = [str(part or "") for pair in tuple(PASSING.items()) for part in pair]
    program = [
        sys.executable,
        "-I",
        "-S",
        __file__,
        str(workers),
        str(128 + sign),
        sentence,
        *paths,
    ]
    # Back to back, and both without letting another thread run: nobody here sees that the workers
    # are gone.
    for kill in (os.killpg, os.kill) if workers else ():
        # of a fork server that has only just been started, and has no group yet (`process_group`)
        with suppress(ProcessLookupError):
            kill(workers, signal.SIGKILL)
    os.execv(program[0], program)  # noqa: S606 - our own file


def _remove(workers: int, code: int, sentence: str, *paths: str) -> NoReturn:
    if sys.stdout is not None and sys.stdout.isatty():
        with suppress(OSError):
            os.write(1, b"\x1b[?25h\n")  # a bar hides the cursor
    until = time.monotonic() + _GONE_SECONDS
    while workers and time.monotonic() < until:
        with suppress(ChildProcessError):
            os.waitpid(workers, os.WNOHANG)
        try:
            os.killpg(workers, 0)
        except ProcessLookupError:
            break
        time.sleep(0.005)
    for number, (path, lock) in enumerate(zip(paths[::2], paths[1::2], strict=True)):
        with suppress(OSError):  # it is not there, or another process works with it
            if not lock or _is_mine(lock):
                gone = Path(path).with_name(f"{GONE}{os.getpid()}-{number}")
                Path(path).rename(gone)  # at once, so that a resumed run finds all of it or nothing
                shutil.rmtree(gone, ignore_errors=True)  # of a file nothing
                gone.unlink()
    with suppress(OSError):  # the terminal may be gone
        os.write(2, f"{sentence}\n".encode())
    os._exit(code)


def _is_mine(lock: str) -> bool:
    import fcntl

    with Path(lock).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError is an OSError
    return True


if __name__ == "__main__":
    _remove(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
