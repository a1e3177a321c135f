"""Opening a file of rows: below the data folder only, and what it unpacks to is bounded before it
is unpacked.

A small file may claim or become gigabytes. Small is always allowed; above that, a file may
grow by a factor that honest rows do not reach.
"""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from dpicl.errors import DataError, SourceError
from dpicl.files.objects import Stored, reason

MAX_BYTES = 2 << 30
ALWAYS_BYTES, GROWTH = 16 << 20, 100
_ALWAYS_VALUES, _VALUES_PER_BYTE = 1 << 22, 50
_BATCH_ROWS = 1 << 16


def below(folder: Path, file: str, dataset: str) -> Path:
    """The whole path of `file`, whether it exists or not.

    Raises:
        SourceError: it leads out of the folder, by itself or by a link.
    """
    try:
        path = (folder / file).resolve()
        inside = path.is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        inside = False
    if not inside:
        raise SourceError(
            f"{dataset}: file {file} leads out of the data folder; expected a path below it"
        )
    return path


def read_bytes(path: Path | Stored, *, part: bool = False) -> bytes:
    """Content of a file or object, unpacked where its name ends in `.gz`; empty at most where it is
    a `part` of a source.

    Raises:
        DataError: it is no file, cannot be read, is too large or unpacks to too much.
        SourceError: the store does not give the object.
    """
    try:
        if isinstance(path, Stored):
            with path.open() as file:
                data = _content(file, file.size(), path)
        else:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise DataError(
                    path.name,
                    f"is {'a folder' if stat.S_ISDIR(status.st_mode) else 'a device or pipe'}; "
                    f"expected a file",
                )
            with path.open("rb") as file:
                data = _content(file, status.st_size, path)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(path.name, "is not a complete gzip file") from None
    except OSError as error:
        raise DataError(path.name, reason(error) or f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise DataError(path.name, "is no path; expected a name without NUL") from None
    if not data and not part:
        raise DataError(path.name, "is an empty file; expected rows")
    return data


def _content(file: IO[bytes], size: int, path: Path | Stored) -> bytes:
    if size > MAX_BYTES:
        raise DataError(
            path.name, f"has too many bytes; expected at most {MAX_BYTES}", detail=f"{size} bytes"
        )
    if path.suffix != ".gz":
        return file.read()
    limit = most_bytes(size)
    with gzip.GzipFile(fileobj=file) as unpacked:
        data = unpacked.read(limit + 1)
    if len(data) > limit:
        raise DataError(
            path.name,
            f"unpacks to too much; expected at most {GROWTH} times its size",
            detail=f"more than {limit} bytes",
        )
    return data


def most_bytes(size: int) -> int:
    """What a file of `size` bytes may become."""
    return min(MAX_BYTES, max(ALWAYS_BYTES, GROWTH * size))


def most_values(size: int) -> int:
    """How many values a file of `size` bytes may hold."""
    return max(_ALWAYS_VALUES, _VALUES_PER_BYTE * size)


def read_parquet(data: bytes, columns: Callable[[list[str]], list[str]], where: str) -> pa.Table:
    """Columns of a Parquet file, texts as dictionaries: shape (rows, columns).

    Args:
        columns: from the names of all columns to those that are read; may refuse them.

    Raises:
        DataError: the file is damaged, or holds more than a file of its size should.
    """
    # Only what Arrow reads by itself is requested: its view of a column chunk ends the process
    # where the chunk is damaged.
    try:
        file = open_parquet(pa.BufferReader(data))
        names = columns(file.schema_arrow.names)
        values, bytes_, batches = 0, 0, []
        # what it holds is counted: what a file says of itself may be a lie
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            values, bytes_ = values + batch.num_rows * batch.num_columns, bytes_ + batch.nbytes
            if values > most_values(len(data)) or bytes_ > most_bytes(len(data)):
                most = f"{most_values(len(data))} values or {most_bytes(len(data))} bytes"
                raise DataError(
                    where,
                    "holds more than a file of its size should; expected less",
                    detail=f"more than {most}",
                )
            batch.validate(full=True)
            batches.append(batch)
        return (
            pa.Table.from_batches(batches)
            if batches
            else file.schema_arrow.empty_table().select(names)
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise DataError(where, "is not a complete Parquet file") from None


def open_parquet(source: Any) -> pa_parquet.ParquetFile:
    """A file of which the footer is read, and texts are to be read as dictionaries."""
    metadata = pa_parquet.read_metadata(source)
    texts = [
        part.path
        for part in map(metadata.schema.column, range(metadata.num_columns))
        if part.physical_type == "BYTE_ARRAY"
    ]
    return pa_parquet.ParquetFile(source, metadata=metadata, read_dictionary=texts)
