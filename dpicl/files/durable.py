"""Files and names that survive a power cut."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dpicl.leaving import passing


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
            error.filename, error.filename2 = str(path), None
        raise


def write_new(path: Path, content: bytes) -> bool:
    """As `write_whole`, for its owner only."""
    return write_whole(path, lambda file: file.write(content))


def write_whole(
    path: Path,
    write: Callable[[BinaryIO], object],
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
    with passing(temporary), _named(temporary, path):
        try:
            with os.fdopen(
                os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(mode)
            if replace:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
            if not named_later:
                sync_folder(path.parent)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
    return True
