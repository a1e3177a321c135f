"""What a visit to a public repository is, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

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
