"""Which thing of a file system a path leads to: a device and an inode.

Paths that live with one device and inode are one thing: hard links, bind mounts, other letters
where the file system ignores their case. Of what is no longer there an address is remembered, by
host, file system and inode; another file may have that inode later.

Not covered  a file in a folder that was linked elsewhere and has left the folder since: of a folder
             only its own inode is remembered.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from functools import cache
from os.path import dirname
from pathlib import Path

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
    return hashlib.sha256(f"dpicl host {name or platform.node()}".encode()).hexdigest()[:16]


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

    def overlap(self, one: str, other: str) -> bool:
        """Whether both live, and are one thing, or one lies in the other, or they share a file that
        has several names.
        """
        mine, theirs = self._nodes_above(one), self._nodes_above(other)
        if not mine or not theirs:
            return False
        return (
            mine[0] in theirs
            or theirs[0] in mine
            or bool((linked := self._files_linked(one)) and linked & self._files_linked(other))
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
            linked = (one for one in every if stat.S_ISREG(one.st_mode) and one.st_nlink > 1)
            self._linked[path] = frozenset((one.st_dev, one.st_ino) for one in linked)
        return self._linked[path]
