"""What installed packages contribute: read once, since that takes as long as a release draws."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points

_read = cache(entry_points)


def contributed(group: str) -> EntryPoints:
    """The entry points of a group."""
    return _read().select(group=group)
