"""Names that only the key's owner can compute: releases and versions of private data.

A plain hash of private rows can be checked against a guess; a keyed one cannot. Parts are tagged
and length-prefixed, so no two lists of parts give the same message, and parameters are written
canonically, so `1` and `1.0` name the same release.

The anchor: a small file outside the database that remembers the end of the chain.
"""

from __future__ import annotations

import errno
import hmac
import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import LedgerRefusedError, ParameterError
from dpicl.ground.files import locked, make_private_folder, write_whole
from dpicl.ground.randomness import system_stream

KEY_BYTES = 32
_LARGEST_EXACT = 2.0**53
_AS_THEY_ARE = (str, int, bool, type(None))
_WRITE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def load_key(path: Path) -> bytes:
    """The secret key in this file, made there on first use; of several makers the first wins.
    Raises LedgerRefusedError: the file is not a key, or others than its owner may use it.
    """
    if not path.exists():
        make_private_folder(path.parent)
        write_whole(path, system_stream().bytes(KEY_BYTES))
    key = path.read_bytes()
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise LedgerRefusedError(
            f"{path}: mode {mode:04o} lets others use the secret key; expected 0600"
        )
    if len(key) != KEY_BYTES:
        raise LedgerRefusedError(
            f"{path}: {len(key)} bytes are no secret key; expected {KEY_BYTES}"
        )
    return key


def canonical(content: Any) -> str:
    """The one JSON text of this content: sorted keys, whole numbers as integers, infinity as "inf".
    Raises ParameterError: a part is NaN or -infinity, or no plain JSON value.
    """
    return _WRITE(plain(content))


def plain(value: Any) -> Any:
    """The same content as `canonical` writes it, in its own order.
    Raises ParameterError: a part is NaN or -infinity, or no plain JSON value.
    """
    # most parts first, and mappings that are no dictionaries last, as they are slow to tell
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float):
        if value.is_integer():
            return int(value) if abs(value) < _LARGEST_EXACT else value
        if value == math.inf:
            return "inf"
        if math.isfinite(value):
            return value
        raise ParameterError("parameter", value, "a number or inf")
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    raise ParameterError("parameter", type(value).__name__, "text, numbers, lists and mappings")


def keyed_hash(key: bytes, *parts: str | bytes | int) -> str:
    """HMAC-SHA256 of a list of parts, 64 hexadecimal digits."""
    message = []
    for part in parts:
        if isinstance(part, bytes):
            kind = b"b"
            content = part
        else:
            kind, content = (
                (b"s", part.encode()) if isinstance(part, str) else (b"i", str(part).encode())
            )
        message.append(kind + len(content).to_bytes(8, "big") + content)
    return hmac.digest(key, b"".join(message), "sha256").hex()


def content_version(key: bytes, digest: bytes) -> str:
    """The name of one state of a private table, from the digest of its content."""
    return keyed_hash(key, "content", digest)


@dataclass(frozen=True)
class Described:
    """What makes a release this one, besides its account and its period; public."""

    mechanism: str
    mechanism_version: int | str
    parameters: Mapping[str, Any]
    contract_digest: str


def release_id(
    key: bytes, described: Described, *, account: str, neighbours: Neighbours, period: str
) -> str:
    """The name of a release: always the same, whatever the rows; a new `period` is a new
    release.
    """
    named = (
        described.mechanism,
        str(described.mechanism_version),
        canonical(described.parameters),
        described.contract_digest,
        neighbours.value,
    )
    return keyed_hash(key, "release by period", account, *named, period)


@dataclass(frozen=True)
class Head:
    """A place in the chain: the number of a record and its hash; 0 and "" before the first."""

    sequence: int = 0
    hash: str = ""


_PLACE = 4096
"""Bytes of each of the two places of an anchor's file, a block of a disk."""
_sync = getattr(os, "fdatasync", os.fsync)


class Anchor:
    """The highest head that this host has seen, in a file.

    Two heads stand in it, and the older one is written over: whatever a power cut spoils, the other
    is whole. So a charge waits for one block, and not for a new file and its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Head:
        """The highest head in the file; the empty one without a file. Raises LedgerRefusedError:
        the file is damaged.
        """
        return max(self._heads(), key=lambda head: head.sequence)

    def _heads(self) -> list[Head]:
        """Of both places; of one that holds none the empty head."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return [Head()]
        # of earlier versions: one head, in a file that was written anew each time
        is_checked = len(content) > _PLACE
        heads = [_head(part, is_checked) for part in (content[:_PLACE], content[_PLACE:])]
        if not any(heads):
            raise LedgerRefusedError(
                f"{self.path}: not an anchor; expected JSON with sequence and hash"
            )
        return [head or Head() for head in heads]

    def advance(self, head: Head, seen: Head | None = None) -> None:
        """Write a committed head, durably, unless the file is there already or further. `seen`:
        what was in it a moment ago.

        A process that may only read the file leaves that to those that write.
        """
        if (self.read() if seen is None else seen).sequence >= head.sequence:
            return
        try:
            make_private_folder(self.path.parent)
            with locked(self.path.with_name(f".{self.path.name}.lock")):
                heads = [one.sequence for one in self._heads()]
                if max(heads) >= head.sequence:
                    return
                self._write(head, heads.index(min(heads)))
        except OSError as error:
            if error.errno != errno.EROFS:
                raise

    def _write(self, head: Head, place: int) -> None:
        content = {"sequence": head.sequence, "hash": head.hash, "check": _check(head)}
        line = json.dumps(content).encode().ljust(_PLACE - 1) + b"\n"
        if not self.path.exists() or self.path.stat().st_size != 2 * _PLACE:
            write_whole(self.path, line + b" " * _PLACE, replace=True)
            return
        handle = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(handle, line, place * _PLACE)
            _sync(handle)
        finally:
            os.close(handle)


def _head(written: bytes, is_checked: bool) -> Head | None:
    """None of a place that holds no head, or half of one."""
    try:
        content = json.loads(written)
        head = Head(int(content["sequence"]), str(content["hash"]))
        return head if not is_checked or content["check"] == _check(head) else None
    except (ValueError, KeyError, TypeError):
        return None


def _check(head: Head) -> int:
    return zlib.crc32(f"{head.sequence} {head.hash}".encode())
