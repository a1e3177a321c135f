"""A sealed file: an archive of names and contents that only the holder of a key can read, and
nobody can change.

    magic, 8 bytes | salt, 32 | chunks of AES-256-GCM

Each file has a key of its own, HMAC of the salt under the key file's. The nonce of a chunk is its
number and whether it is the last, so that no chunk can be changed, moved, repeated or left out, and
none can be cut off.

Not covered whoever has the key file; how large the archive is.

Intermediate results without noise that must survive a retry: encrypted, with a lifetime, the first
written stands.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import stat
import struct
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.files import locked, make_private_folder, write_whole
from dpicl.ledger.keys import KEY_BYTES, keyed_hash

_MAGIC = b"dpiclbk1"
_TAG_BYTES = 16
_CHUNK_BYTES = 1 << 20


def read_key(file: Path) -> bytes:
    """The secret key in a file. Raises ParameterError: it is none, or others than its owner may use
    it.
    """
    if not file.is_file():
        raise ParameterError(
            "key", file.name, "the file with the key that the backup was sealed with"
        )
    mode = stat.S_IMODE(file.stat().st_mode)
    if os.name != "nt" and mode & 0o077:
        raise ParameterError("key", file.name, f"mode 0600: {mode:04o} lets others read the backup")
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise ParameterError(
            "key",
            file.name,
            f"{KEY_BYTES} secret bytes, as the first `dpicl state backup` writes them",
        )
    return key


def made_key(file: Path) -> bool:
    """Make a key file unless one is there; whether it was made. Raises OSError: its folder is not
    there, or cannot be written.
    """
    return not file.exists() and write_whole(file, os.urandom(KEY_BYTES))


class _Sealing:
    """A file that a tar is written to: sealed chunk by chunk; `seal` with `is_last` ends it."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        self._head = _MAGIC + os.urandom(KEY_BYTES)
        self._file, self._cipher = file, _cipher(key, self._head)
        self._open = bytearray()
        self._number = 0
        file.write(self._head)

    def write(self, content: bytes) -> None:
        """Seal whole chunks, and keep the rest; the last one, which may be whole too, waits."""
        self._open += content
        while len(self._open) > _CHUNK_BYTES:
            self.seal(is_last=False)

    def seal(self, *, is_last: bool) -> None:
        """Seal the next chunk."""
        chunk = bytes(self._open[:_CHUNK_BYTES])
        del self._open[:_CHUNK_BYTES]
        nonce = _nonce(self._number, is_last=is_last)
        self._file.write(self._cipher.encrypt(nonce, chunk, self._head))
        self._number += 1


class _Unsealing:
    """A file that a tar is read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = bytearray()

    def read(self, size: int) -> bytes:
        """So many bytes, or all that are left."""
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        content = bytes(self._rest[:size])
        del self._rest[:size]
        return content


def _unsealed(file: BinaryIO, key: bytes) -> Iterator[bytes]:
    """Chunks that are all authenticated, and known to be followed by others or to be the last.
    Raises InvalidTag: another key, or another byte.
    """
    head = file.read(len(_MAGIC) + KEY_BYTES)
    if len(head) != len(_MAGIC) + KEY_BYTES or not head.startswith(_MAGIC):
        raise InvalidTag
    cipher = _cipher(key, head)
    number = 0
    sealed = file.read(_CHUNK_BYTES + _TAG_BYTES)
    while sealed or not number:
        following = file.read(_CHUNK_BYTES + _TAG_BYTES)
        yield cipher.decrypt(_nonce(number, is_last=not following), sealed, head)
        sealed = following
        number += 1


def _cipher(key: bytes, head: bytes) -> AESGCM:
    return AESGCM(bytes.fromhex(keyed_hash(key, "backup", head.removeprefix(_MAGIC))))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def write_archive(file: BinaryIO, key: bytes, contents: Iterator[tuple[str, bytes]]) -> None:
    """Seal names with their contents, in this order."""
    sealing = _Sealing(file, key)
    with tarfile.open(
        fileobj=cast(BinaryIO, sealing), mode="w|", format=tarfile.PAX_FORMAT
    ) as archive:
        for name, content in contents:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            about.mode = 0o600
            archive.addfile(about, io.BytesIO(content))
    sealing.seal(is_last=True)


def read_archive(file: Path, key: bytes) -> Iterator[tuple[str, bytes]]:
    """Names with their contents, as `write_archive` had them; the whole file is authenticated when
    the last one was given. Raises ParameterError: it was not sealed with this key, or is not whole.
    """
    try:
        with file.open("rb") as sealed:
            opened = _Unsealing(_unsealed(sealed, key))
            with tarfile.open(fileobj=cast(BinaryIO, opened), mode="r|") as archive:
                for about in archive:
                    part = archive.extractfile(about)
                    if part is not None:
                        yield about.name, part.read()
            while opened.read(_CHUNK_BYTES):
                pass
    except (InvalidTag, ValueError, tarfile.TarError, EOFError):
        raise ParameterError(
            "backup",
            file.name,
            "a whole file sealed with this key: a byte was changed or is missing, or the key is "
            "another",
        ) from None
    except IsADirectoryError:
        raise ParameterError(
            "backup", file.name, "a file that `dpicl state backup` wrote"
        ) from None


_SNAPSHOTS_MAGIC = b"dpiclsn1"
_HEAD = struct.Struct(">8sQ")
_NONCE_BYTES = 12
_SUFFIX = ".snapshot"
_LOCK = ".lock"
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
        make_private_folder(self.folder)
        path = self._path(name)
        self._remove_if_over(path, self.clock())
        head = _HEAD.pack(_SNAPSHOTS_MAGIC, math.ceil(self.clock() + lifetime_seconds))
        nonce = os.urandom(_NONCE_BYTES)
        return write_whole(
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
        head = stored[: _HEAD.size]
        nonce = stored[_HEAD.size : _HEAD.size + _NONCE_BYTES]
        sealed = stored[_HEAD.size + _NONCE_BYTES :]
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
    if len(head) != _HEAD.size or head[: len(_SNAPSHOTS_MAGIC)] != _SNAPSHOTS_MAGIC:
        return float("inf")
    return float(_HEAD.unpack(head)[1])
