"""Intermediate results without noise that must survive a retry: encrypted, with a lifetime, the
first written stands.

A lost worker then repeats only what is missing. What is stored here is private and was not
released: `read` it only for a mechanism whose release was reserved in the ledger.

    SnapshotPlace(folder, load_key(keys / "snapshots.key"))

A file holds its magic and the time of its end, in plain, then a nonce and AES-256-GCM of the
content; name and end are authenticated with it. File names are keyed hashes. A file appears
whole or not at all; only a holder of the folder's lock removes one, after its end.

Not covered a clock that is set back; recovering deleted files with the key (destroy the key);
            hiding how many snapshots there are, their sizes and ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpicl.accounting.ledger.keys import KEY_BYTES, keyed_hash
from dpicl.errors import ParameterError, PrivacyError
from dpicl.files.durable import write_new
from dpicl.files.locks import locked

_MAGIC = b"dpiclsn1"
_HEAD = struct.Struct(">8sQ")
_NONCE_BYTES = 12
_SUFFIX, _LOCK = ".snapshot", ".lock"
_ABANDONED_SECONDS = 3600
"""A temporary file this old belongs to no running writer."""


@dataclass(frozen=True)
class SnapshotPlace:
    """A folder of snapshots under one key of 32 bytes; `clock` gives seconds since 1970.

    Raises:
        ParameterError: the key has another length.
    """

    folder: Path
    key: bytes = field(repr=False)
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ParameterError("key bytes", len(self.key), f"{KEY_BYTES} secret bytes")

    def write(self, name: str, content: bytes, lifetime_seconds: float) -> bool:
        """Store `content` under a name for a time; False where an earlier one that is not over
        stands.

        Raises:
            ParameterError: the lifetime is not positive.
            OSError: the disk is full or the folder cannot be written; nothing is left behind.
        """
        if not 0 < lifetime_seconds < 2**60:
            raise ParameterError("lifetime_seconds", lifetime_seconds, "a number > 0, below 2^60")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(name)
        self._remove_if_over(path, self.clock())
        head = _HEAD.pack(_MAGIC, math.ceil(self.clock() + lifetime_seconds))
        nonce = os.urandom(_NONCE_BYTES)
        return write_new(
            path, head + nonce + AESGCM(self.key).encrypt(nonce, content, head + name.encode())
        )

    def read(self, name: str) -> bytes | None:
        """The content under a name; None where there is none, or its lifetime is over: then it is
        deleted.

        Raises:
            PrivacyError: the file was changed, renamed, or written with another key.
        """
        path = self._path(name)
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            return None
        head, nonce, sealed = (
            stored[: _HEAD.size],
            stored[_HEAD.size : _HEAD.size + _NONCE_BYTES],
            stored[_HEAD.size + _NONCE_BYTES :],
        )
        try:
            content = AESGCM(self.key).decrypt(nonce, sealed, head + name.encode())
        except (InvalidTag, ValueError):
            raise PrivacyError(
                f"{path}: this snapshot was changed, renamed or written with another key; delete it"
            ) from None
        if _end(head) <= self.clock():
            self._remove_if_over(path, self.clock())
            return None
        return content

    def sweep(self, now: float) -> int:
        """Delete snapshots whose lifetime is over at `now`, and what killed writers left; the
        number of files deleted.
        """
        if not self.folder.is_dir():
            return 0
        removed = sum(
            self._remove_if_over(path, now) for path in sorted(self.folder.glob(f"*{_SUFFIX}"))
        )
        for path in self.folder.glob(f".*{_SUFFIX}.*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < now - _ABANDONED_SECONDS:
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, name: str) -> Path:
        return self.folder / f"{keyed_hash(self.key, 'snapshot', name)}{_SUFFIX}"

    def _remove_if_over(self, path: Path, now: float) -> bool:
        """Looked at and removed under a lock: else one process might remove what another has just
        put in its place.
        """
        with locked(self.folder / _LOCK):
            over = is_over(path, now)
            if over:
                path.unlink()
            return over


def is_over(path: Path, now: float) -> bool:
    """Whether a snapshot's lifetime is over at `now`; of a file that is gone, or is none, false."""
    try:
        with path.open("rb") as file:
            return _end(file.read(_HEAD.size)) <= now
    except FileNotFoundError:
        return False


def _end(head: bytes) -> float:
    """Infinity for what is no snapshot: `read` refuses it, nothing removes it."""
    if len(head) != _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
        return float("inf")
    return float(_HEAD.unpack(head)[1])
