"""Locks of files among processes: each dies with the process that holds it. The only module that
knows how a system locks.

POSIX    flock, of the whole file
Windows  msvcrt.locking, of one byte far behind any content, since what is locked there cannot be
         read either
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]
    import msvcrt as _msvcrt

    msvcrt: Any = _msvcrt

_BYTE = 2**40
_LOOK_EVERY_SECONDS = 0.05


def hold(handle: int, *, shared: bool = False) -> None:
    """Lock an open file until it is closed; others wait, of those that share it none: on Windows,
    all.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return
    while not _hold_if_free(handle):
        time.sleep(_LOOK_EVERY_SECONDS)


def _hold_if_free(handle: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    place = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, _BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except PermissionError:  # EACCES: another holds it
        return False
    finally:
        os.lseek(handle, place, os.SEEK_SET)
    return True


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is not there; others wait, of those that
    share it none: on Windows, all.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        hold(handle, shared=shared)
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is made where it is not there, unless another does; whether it
    is held.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _hold_if_free(handle)
    finally:
        os.close(handle)


def is_free(path: Path) -> bool:
    """Whether no process holds the lock of a file; none does where there is no file."""
    try:
        with path.open("r+b") as file:
            return _hold_if_free(file.fileno())
    except FileNotFoundError:
        return True
