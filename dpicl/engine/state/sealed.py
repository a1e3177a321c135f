"""A sealed file: an archive of names and contents that only the holder of a key can read, and
nobody can change.

    magic, 8 bytes | salt, 32 | chunks of AES-256-GCM

Each file has a key of its own, HMAC of the salt under the key file's. The nonce of a chunk is its
number and whether it is the last, so that no chunk can be changed, moved, repeated or left out, and
none can be cut off.

Not covered whoever has the key file; how large the archive is.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpicl.accounting.ledger.keys import KEY_BYTES, keyed_hash
from dpicl.errors import ParameterError
from dpicl.files.durable import write_new

_MAGIC = b"dpiclbk1"
_TAG_BYTES, _CHUNK_BYTES = 16, 1 << 20


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
    return not file.exists() and write_new(file, os.urandom(KEY_BYTES))


class Sealing(io.RawIOBase):
    """Writes what is sealed to a file; `finish` ends it."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        salt = os.urandom(KEY_BYTES)
        self._file, self._cipher, self._head = file, _cipher(key, salt), _MAGIC + salt
        self._open, self._number = bytearray(), 0
        file.write(self._head)

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, content: object) -> int:
        """Seal whole chunks, and keep the rest."""
        added = bytes(content)  # type: ignore[call-overload]
        self._open += added
        # the last one, which may be whole too, waits for `finish`
        while len(self._open) > _CHUNK_BYTES:
            self._seal(is_last=False)
        return len(added)

    def finish(self) -> None:
        """Write the last chunk."""
        self._seal(is_last=True)

    def _seal(self, *, is_last: bool) -> None:
        chunk = bytes(self._open[:_CHUNK_BYTES])
        del self._open[:_CHUNK_BYTES]
        self._file.write(
            self._cipher.encrypt(_nonce(self._number, is_last=is_last), chunk, self._head)
        )
        self._number += 1


class _Unsealing(io.RawIOBase):
    """Reads what was sealed. Raises InvalidTag: another key, or another byte."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        self._file, self._head = file, file.read(len(_MAGIC) + KEY_BYTES)
        if len(self._head) != len(_MAGIC) + KEY_BYTES or not self._head.startswith(_MAGIC):
            raise InvalidTag
        self._cipher, self._number, self._rest = _cipher(key, self._head[len(_MAGIC) :]), 0, b""
        self._next: bytes | None = self._sealed()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """Content of chunks that are all authenticated, and known to be followed by others or to be
        the last.
        """
        view = memoryview(buffer)  # type: ignore[arg-type]
        while not self._rest and self._next is not None:
            sealed, following = self._next, self._sealed()
            self._rest = self._cipher.decrypt(
                _nonce(self._number, is_last=not following), sealed, self._head
            )
            self._number, self._next = self._number + 1, following or None
        count = min(len(view), len(self._rest))
        view[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _sealed(self) -> bytes:
        return self._file.read(_CHUNK_BYTES + _TAG_BYTES)


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    return AESGCM(bytes.fromhex(keyed_hash(key, "backup", salt)))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def write_archive(file: BinaryIO, key: bytes, contents: Iterator[tuple[str, bytes]]) -> None:
    """Seal names with their contents, in this order."""
    sealing = Sealing(file, key)
    with tarfile.open(fileobj=sealing, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, content in contents:
            about = tarfile.TarInfo(name)
            about.size, about.mode = len(content), 0o600
            archive.addfile(about, io.BytesIO(content))
    sealing.finish()


def read_archive(file: Path, key: bytes) -> Iterator[tuple[str, bytes]]:
    """Names with their contents, as `write_archive` had them; the whole file is authenticated when
    the last one was given. Raises ParameterError: it was not sealed with this key, or is not whole.
    """
    try:
        with file.open("rb") as sealed:
            opened = io.BufferedReader(_Unsealing(sealed, key), _CHUNK_BYTES)
            with tarfile.open(fileobj=opened, mode="r|") as archive:
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
