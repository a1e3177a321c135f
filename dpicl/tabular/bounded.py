"""Opening a file of rows that may be a bomb: what it unpacks to is bounded before it is unpacked.

A small file may claim or become gigabytes. Small is always allowed; above that, a file may
grow by a factor that honest rows do not reach.
"""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from dpicl.errors import DataError

MAX_BYTES = 2 << 30
_ALWAYS_BYTES, _GROWTH = 16 << 20, 200
_ALWAYS_VALUES, _VALUES_PER_BYTE = 1 << 22, 50


def read_bytes(path: Path) -> bytes:
    """Content of a file, unpacked where its name ends in `.gz`; never empty.

    Raises:
        DataError: it is no file, cannot be read, is too large or unpacks to too much.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(path.name, f"is {'a folder' if stat.S_ISDIR(status.st_mode) else 'a device or pipe'}; expected a file")
        if status.st_size > MAX_BYTES:
            raise DataError(path.name, f"has {status.st_size} bytes; expected at most {MAX_BYTES}")
        data = _unpacked(path, status.st_size) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(path.name, "is not a complete gzip file") from None
    except OSError as error:
        raise DataError(path.name, f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise DataError(path.name, "is no path; expected a name without NUL") from None
    if not data:
        raise DataError(path.name, "has 0 bytes; expected a header and rows")
    return data


def _unpacked(path: Path, packed_size: int) -> bytes:
    limit = min(MAX_BYTES, max(_ALWAYS_BYTES, _GROWTH * packed_size))
    with gzip.open(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise DataError(path.name, f"unpacks to more than {limit} bytes; expected at most {_GROWTH} times its size")
    return data


def read_parquet(data: bytes, columns: Callable[[list[str]], list[str]], where: str) -> pa.Table:
    """Columns of a Parquet file, texts as dictionaries: shape (rows, columns).

    Args:
        columns: from the names of all columns to those that are read; may refuse them.

    Raises:
        DataError: the file is damaged, or holds more than a file of its size should.
    """
    try:
        metadata = pa_parquet.read_metadata(pa.BufferReader(data))
        _refuse_bomb(metadata, len(data), where)
        texts = [part.path for part in map(metadata.schema.column, range(metadata.num_columns)) if part.physical_type == "BYTE_ARRAY"]
        file = pa_parquet.ParquetFile(pa.BufferReader(data), metadata=metadata, read_dictionary=texts)
        table = file.read(columns=columns(file.schema_arrow.names))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise DataError(where, "is not a complete Parquet file") from None
    return table


def _refuse_bomb(metadata: pa_parquet.FileMetaData, size: int, where: str) -> None:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    values, bytes_ = sum(chunk.num_values for chunk in chunks), sum(chunk.total_uncompressed_size for chunk in chunks)
    most_values, most_bytes = max(_ALWAYS_VALUES, _VALUES_PER_BYTE * size), max(_ALWAYS_BYTES, _GROWTH * size)
    if max(values, metadata.num_rows) > most_values or bytes_ > min(MAX_BYTES, most_bytes):
        raise DataError(where, f"states {values} values and {bytes_} bytes; expected at most {most_values} and {most_bytes}")
