"""Files and names that survive a power cut.

Files that appear whole or not at all, and once.

Locks of files among processes: each dies with the process that holds it.

Which thing of a file system a path leads to: a device and an inode.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from os.path import dirname
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dpicl.ground.shutdown import passing


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable, where a system can: Windows opens no folder."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named(temporary: Path, path: Path) -> Iterator[None]:
    """Inside, an OSError names the file that was to be written, and not one that nobody knows."""
    try:
        yield
    except OSError as error:
        # a full disk names none
        if error.filename is None or str(error.filename) == str(temporary):
            error.filename = str(path)
            error.filename2 = None
        raise


def sha256_of(content: str | bytes) -> str:
    """The SHA-256 of bytes, or of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner alone, where it is not there."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


Content = bytes | Callable[[BinaryIO], object]
"""Of a file: its bytes, or what writes them."""


def write_whole(
    path: Path,
    content: Content,
    *,
    mode: int = 0o600,
    replace: bool = False,
    named_later: bool = False,
) -> bool:
    """Write a file that appears whole or not at all; False where one of that name is there already,
    which stays unless `replace`.

    `named_later` leaves it to the system when the name is durable: after a power cut the file that
    was there may be there again.

    Raises:
        OSError: naming the file, the disk is full or the folder cannot be written; nothing is left
            behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    is_left = True
    with passing(temporary), _named(temporary, path):
        try:
            with os.fdopen(
                os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(content) if isinstance(content, bytes) else content(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(mode)
            if replace:
                os.replace(temporary, path)
                is_left = False
            else:
                os.link(temporary, path)
            if not named_later:
                sync_folder(path.parent)
        except FileExistsError:
            return False
        finally:
            if is_left:
                temporary.unlink(missing_ok=True)
    return True


PUBLIC_MODE = 0o644
PRIVATE_MODE = 0o600
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def publish(
    path: Path, content: Content, *, mode: int = PUBLIC_MODE, replace: bool = False
) -> Path:
    """Write `path` through a temporary file in its folder, which is made for the owner alone if the
    file is, and so are those above; an existing file stays unless `replace`. An OSError leaves
    nothing behind.
    """
    if not path.parent.exists():
        # `parents=True` makes these for everybody
        for folder in reversed((path.parent, *path.parent.parents)):
            folder.mkdir(mode=0o700 if mode == PRIVATE_MODE else 0o777, exist_ok=True)
    write_whole(path, content, mode=mode, replace=replace)
    return path


def write_text(path: Path, text: str, *, mode: int = PUBLIC_MODE, replace: bool = False) -> Path:
    """The same of text, in UTF-8."""
    return publish(path, text.encode(), mode=mode, replace=replace)


def write_json(path: Path, content: Any, *, mode: int = PUBLIC_MODE, replace: bool = False) -> Path:
    """Readable JSON; infinity is not JSON and is refused."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return write_text(path, text, mode=mode, replace=replace)


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_bytes().decode())


def write_arrays(path: Path, arrays: dict[str, np.ndarray], *, mode: int = PUBLIC_MODE) -> Path:
    """Named arrays in one file, without pickle."""
    return publish(path, lambda file: np.savez(file, **arrays), mode=mode)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Named arrays of one file; refuses pickled content."""
    with np.load(path, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


def finite(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if np.isinf(value) else value


def harmless(cell: Any) -> Any:
    """The cell of a CSV file; text that a spreadsheet would run as a formula gets an apostrophe
    before it, numbers stay numbers.
    """
    if not isinstance(cell, str) or not {cell[:1], cell.lstrip()[:1]} & _FORMULA_STARTS:
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A table with a header line; replaces what was there, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: harmless(cell) for name, cell in row.items()}
        # on one line: the csv module leaves a carriage return unquoted, and a reader takes it for
        # the end of the row
        writer.writerow(
            {
                name: " ".join(cell.splitlines()) if isinstance(cell, str) else cell
                for name, cell in cells.items()
            }
        )
    write_text(path, text.getvalue(), replace=True)


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


INODE = "inode:"
Node = tuple[int, int]


@cache
def host() -> str:
    """This host in 16 hexadecimal digits: of the machine's id, which is not to be shown; where
    there is none, of its name.
    """
    try:
        name = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, UnicodeError):
        name = ""
    return sha256_of(f"dpicl host {name or platform.node()}")[:16]


def inode_address(path: str) -> str | None:
    """`inode:HOST:FILESYSTEM:INODE` of what a path leads to; None where there is nothing, or no
    inodes are.

    A file system goes by its own number where it has one: that of its device may change when the
    host starts, or it is mounted anew.
    """
    try:
        node = Path(path).stat()
        system = os.statvfs(path).f_fsid if hasattr(os, "statvfs") else 0
    except (OSError, ValueError):
        return None
    return f"{INODE}{host()}:{system or node.st_dev:x}:{node.st_ino}" if node.st_ino else None


class LivingPaths:
    """What paths lead to now; each is looked at once."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node | None] = {}
        self._above: dict[str, list[Node]] = {}
        self._linked: dict[str, frozenset[Node]] = {}

    def overlap(self, path: str, other: str) -> bool:
        """Whether both live, and are one thing, or one lies in the other, or they share a file that
        has several names.
        """
        mine = self._nodes_above(path)
        theirs = self._nodes_above(other)
        if not mine or not theirs:
            return False
        return (
            mine[0] in theirs
            or theirs[0] in mine
            or bool((linked := self._files_linked(path)) and linked & self._files_linked(other))
        )

    def _nodes_above(self, path: str) -> list[Node]:
        """Of a path that lives, and the folders above it but the root."""
        node, above = self._node(path), dirname(path)  # noqa: PTH120 - texts, of each path that is bound
        if node is None:
            return []
        if above not in self._above:
            self._above[above] = self._nodes_above(above) if dirname(above) != above else []  # noqa: PTH120
        return [node, *self._above[above]]

    def _node(self, path: str) -> Node | None:
        if path not in self._nodes:
            try:
                status = os.stat(path)  # noqa: PTH116
                self._nodes[path] = (status.st_dev, status.st_ino) if status.st_ino else None
            except (OSError, ValueError):
                self._nodes[path] = None
        return self._nodes[path]

    def _files_linked(self, path: str) -> frozenset[Node]:
        """Of a file, or of the files directly in a folder, those that have another name
        somewhere.
        """
        if path not in self._linked:
            try:
                status = Path(path).stat()
                every = (
                    [entry.stat() for entry in os.scandir(path)]
                    if stat.S_ISDIR(status.st_mode)
                    else [status]
                )
            except OSError:
                every = []
            linked = (
                status for status in every if stat.S_ISREG(status.st_mode) and status.st_nlink > 1
            )
            self._linked[path] = frozenset((status.st_dev, status.st_ino) for status in linked)
        return self._linked[path]
