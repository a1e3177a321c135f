"""Weights and data files that come with the program: each is used only after its digest was
compared.

The digests stand in shipped.json, which `python -m tools.digests` writes: of files below this
package. Public tables but that of the demo are not shipped: the digests of their rows stand in the
contracts.

The user's cache: what can be made again, outside the state home, so that no backup carries it.

What a visit to a public repository is, and what it may cost.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from dpicl.ground.errors import RunError, SourceError
from dpicl.ground.files import make_private_folder, read_json, sha256_of, write_whole

DIGESTS = Path(__file__).with_name("shipped.json")
PUBLISHED_ROWS = Path(__file__).parent.parent / "methods" / "published" / "digests.json"


@cache
def checked(name: str, path: Path) -> Path:
    """This file or folder, whose files are those that come with the program under a name; looked at
    once in a process. Raises SourceError: a file has other bytes, is missing, or is one too many.
    """
    stated: dict[str, str] = read_json(DIGESTS)
    expected = {
        file: digest
        for file, digest in stated.items()
        if file == name or file.startswith(f"{name}/")
    }
    actual = digests(name, path)
    wrong = sorted(
        file for file in expected.keys() | actual.keys() if expected.get(file) != actual.get(file)
    )
    if wrong or not expected:
        raise SourceError(
            f"{(wrong or [name])[0]}: is not the file that comes with dpicl; expected its digest, "
            f"so install the package again"
        )
    return path


def row_digests() -> dict[str, str]:
    """Digests of the rows of public sets that dpicl has contracts of, in any order and form: by
    contract, of a slice `NAME:SLICE`.
    """
    stated: dict[str, str] = json.loads(
        (checked("methods/published", PUBLISHED_ROWS.parent) / PUBLISHED_ROWS.name).read_text(
            "utf-8"
        )
    )
    return stated


def digests(name: str, path: Path) -> dict[str, str]:
    """sha256 of a file, or of all files of a folder but Python's, by their names, which begin with
    this one.
    """
    files = (
        [path]
        if path.is_file()
        else sorted(
            file
            for file in path.rglob("*")
            if file.is_file() and file.suffix not in (".py", ".pyc")
        )
    )
    return {
        "/".join((name, *file.relative_to(path).parts)): sha256_of(file.read_bytes())
        for file in files
    }


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
        make_private_folder(top)
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
    state = _state(path)
    place = None
    with suppress(RunError, OSError, ValueError, KeyError, TypeError):  # it is read then
        place = cache_folder("digests") / f"{sha256_of(os.fsencode(path.resolve()))}.json"
        kept = read_json(place)
        if kept["state"] == state:
            return str(kept["sha256"])
    began = time.time_ns()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if place is not None and _state(path) == state and max(state[-2:]) < began - _SETTLED_NS:
        content = json.dumps({"state": state, "sha256": digest}).encode()
        with suppress(OSError):
            write_whole(place, content, replace=True, named_later=True)
    return digest


def _state(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]


Progress = Callable[[int, int | None], None]
"""Called with bytes received so far, and bytes in all where the server says so."""


@dataclass(frozen=True)
class FetchLimits:
    """Bounds of one download, all attempts included."""

    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    deadline_seconds: float = 600.0
    max_bytes: int = 64 << 20
    attempts: int = 5
    backoff_seconds: float = 1.0
    backoff_cap_seconds: float = 30.0
    """Longest wait between two attempts, also when the server asks for more."""
    redirects: int = 5


@dataclass(frozen=True)
class BaseUrls:
    """Addresses of the repositories."""

    openml: str = "https://www.openml.org"
    uci: str = "https://archive.ics.uci.edu"


@dataclass(frozen=True)
class Visit:
    """One visit: the repository's address, a folder for temporary files, the bounds."""

    base: str
    scratch: Path
    limits: FetchLimits
    progress: Progress | None = None

    @property
    def host(self) -> str:
        """Host of the repository, for messages."""
        return host_of(self.base)


def host_of(url: str) -> str:
    """Host of an address, for messages."""
    try:
        return urlsplit(url).hostname or "no host"
    except ValueError:
        return "invalid address"
