"""Files and names that survive a power cut."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(path: Path, content: bytes) -> bool:
    """Write a file that appears whole or not at all, for its owner only; False where one of that name is there already.

    Raises:
        OSError: the disk is full or the folder cannot be written; nothing is left behind.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
        sync_folder(path.parent)
    except FileExistsError:
        return False
    finally:
        Path(temporary).unlink()
    return True
