r"""The user's cache: what can be made again, outside the state home, so that no backup carries it.
It may be deleted at any time.

Linux       $XDG_CACHE_HOME/dpicl, or ~/.cache/dpicl
macOS       ~/Library/Caches/dpicl
Windows     %LOCALAPPDATA%\dpicl-cache
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from dpicl.errors import RunError
from dpicl.files.durable import write_whole

_SETTLED_NS = 2_000_000_000
"""Some file systems write times in steps of two seconds: what has changed within them may change
once more unseen.
"""


def cache_folder(*parts: str) -> Path:
    """A folder of the user's cache, where models lie that were fetched or written out, and what was
    found of them; it is made, for its owner only.

    Raises:
        RunError: it cannot be made, or others may write there.
    """
    top = Path("dpicl")
    try:
        if sys.platform == "win32":
            top = Path(os.environ.get("LOCALAPPDATA", "")) / "dpicl-cache"
        elif sys.platform == "darwin":
            top = Path.home() / "Library" / "Caches" / "dpicl"
        else:
            named = Path(os.environ.get("XDG_CACHE_HOME", ""))
            # the standard: a relative one is not heeded
            top = (named if named.is_absolute() else Path.home() / ".cache") / "dpicl"
        folder = top.joinpath(*parts)
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = top.stat()
        if sys.platform != "win32" and (
            about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o022
        ):
            raise PermissionError(0, "others may write there")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the second where the user has no home
        reason = getattr(error, "strerror", None) or "no such user"
        raise RunError(
            f"cache {top}: {reason}; expected XDG_CACHE_HOME to name a folder of yours that can "
            f"be written"
        ) from None
    return folder


def kept_sha256(path: Path) -> str:
    """sha256 of a file's content, as hexadecimal text: read again only where the file is another or
    was touched.

    Raises:
        OSError: it cannot be read.
    """
    state, place = _state(path), None
    with suppress(RunError, OSError, ValueError, KeyError, TypeError):  # it is read then
        place = (
            cache_folder("digests")
            / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()}.json"
        )
        kept = json.loads(place.read_text("utf-8"))
        if kept["state"] == state:
            return str(kept["sha256"])
    began = time.time_ns()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if place is not None and _state(path) == state and max(state[-2:]) < began - _SETTLED_NS:
        content = json.dumps({"state": state, "sha256": digest}).encode()
        with suppress(OSError):
            write_whole(place, lambda file: file.write(content), replace=True, named_later=True)
    return digest


def _state(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]
