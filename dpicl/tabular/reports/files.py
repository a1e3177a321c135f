"""Files of reports, one after another: JSON lines, packed or not, and Parquet; a folder's at any
depth, or a store's below an address.

A file that is damaged, or was cut off when its writer was killed, gives the reports before the
damage and is counted. Files of other kinds, such as what an upload has not finished, are counted
and left alone, and so are names that begin with a dot.

Guarantee   none spent: clients' reports are randomised before they are sent.
"""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.errors import DataError
from dpicl.files.bounded import GROWTH, most_values, open_parquet
from dpicl.files.objects import SCHEME, Stored, names_below, reason
from dpicl.tabular.reports.lines import Read, read_lines
from dpicl.tabular.reports.schema import SCHEMA

SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".parquet")
_BATCH_ROWS = 1 << 13
"""Each of which may list thousands of bits."""
_ROW_BYTES = 8
"""Counted for a row of columns that take no room."""
_LONGEST_TEXT = 256
Place = Path | Stored


def report_files(place: str) -> tuple[list[Place], int]:
    """The files of reports at a place, in the order of their names, and how many others are there.

    Args:
        place: a file, a folder, or an address `s3://BUCKET/PREFIX` of a store.

    Raises:
        DataError: there is no such place, or it is a file of another kind; SourceError: the store
            does not say what it holds.
    """
    if place.startswith(SCHEME):
        if place.endswith(SUFFIXES):
            return [Stored(place)], 0
        found: list[Place] = [
            Stored(f"{place.rstrip('/')}/{name}") for name in sorted(names_below(place))
        ]
    else:
        path = Path(place)
        try:
            if stat.S_ISDIR(path.stat().st_mode):
                found = [
                    *sorted(
                        below
                        for below in path.rglob("*")
                        if below.is_file() and not _is_hidden(below.relative_to(path))
                    )
                ]
            elif path.name.endswith(SUFFIXES):
                return [path], 0
            else:
                raise DataError(
                    path.name,
                    f"is of an unknown kind; expected a folder, or a name that ends in "
                    f"{', '.join(SUFFIXES)}",
                )
        except OSError as error:
            raise DataError(
                path.name,
                f"cannot be read ({error.strerror}); expected a file or folder of reports",
            ) from None
    files = [file for file in found if file.name.endswith(SUFFIXES)]
    return files, len(found) - len(files)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_reports(place: Place) -> Iterator[Read]:
    """The reports of a file, some at a time, in bounded memory.

    Raises:
        DataError: it cannot be read, or is damaged; what came before the damage was given;
            SourceError: the store does not give it.
    """
    with _opened(place) as file:
        try:
            if place.name.endswith(".parquet"):
                yield from _parquet(file, file.seek(0, 2), place.name)
            elif place.name.endswith(".gz"):
                yield from _gzip(file, file.seek(0, 2), place.name)
            else:
                yield from read_lines(file)
        except (
            pa.ArrowException,
            EOFError,
            zlib.error,
            OSError,
            ValueError,
            KeyError,
            MemoryError,
        ) as error:
            # the store's, which may answer again: what has not come is not to be taken for damaged
            if reason(error):
                raise
            raise DataError(
                place.name, "is damaged or cannot be read; expected a complete file of reports"
            ) from None


@contextmanager
def _opened(place: Place) -> Iterator[Any]:
    """What is read. Raises DataError: it is no file, or cannot be opened; SourceError: the store
    does not give it.
    """
    if isinstance(place, Stored):
        with place.open() as stored:
            yield stored
        return
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise DataError(place.name, "is a device or pipe; expected a file")
        file = place.open("rb")
    except OSError as error:
        raise DataError(place.name, f"cannot be read ({error.strerror})") from None
    with file:
        yield file


def _gzip(file: Any, size: int, name: str) -> Iterator[Read]:
    """Lines of a packed file, as far as it may unpack. Raises DataError: it unpacks to more."""
    file.seek(0)
    with gzip.GzipFile(fileobj=file) as unpacked:
        yield from read_lines(cast(BinaryIO, _Bounded(unpacked, size, name)))


@dataclass
class _Bounded:
    """What a packed file holds, read no further than it may unpack: what is beyond is never worked
    on.
    """

    unpacked: gzip.GzipFile
    size: int
    name: str

    def read(self, most: int) -> bytes:
        left = GROWTH * self.size - self.unpacked.tell()
        data = self.unpacked.read(min(most, max(left, 1)))
        _check_growth(self.unpacked.tell(), self.size, self.name)
        return data


def _check_growth(unpacked: int, size: int, name: str) -> None:
    """So much for every byte that was sent, and nothing beside: the work of all files together is
    bounded by their bytes.
    """
    if unpacked > GROWTH * size:
        raise DataError(name, f"unpacks to more than {GROWTH} times its size; expected less")


def _parquet(file: Any, size: int, name: str) -> Iterator[Read]:
    """Batches of the columns of a report; a batch whose columns have other types holds none. Raises
    DataError: it unpacks to too much, or has a column twice.
    """
    opened = open_parquet(file)
    names = [column for column in opened.schema_arrow.names if column in SCHEMA.names]
    if len(set(names)) < len(names):
        raise DataError(name, "has a column twice; expected each once")
    groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
    if sum(
        group.column(number).num_values for group in groups for number in range(group.num_columns)
    ) > most_values(size):
        raise DataError(
            name, f"holds more than {most_values(size)} values; expected less in a file of its size"
        )
    unpacked = 0
    for batch in opened.iter_batches(_BATCH_ROWS, columns=names or opened.schema_arrow.names[:1]):
        unpacked += batch.nbytes + _ROW_BYTES * batch.num_rows
        _check_growth(unpacked, size, name)
        try:
            batch.validate(full=True)
            columns = [
                _short(batch.column(field.name)).cast(field.type)
                if field.name in names
                else pa.nulls(batch.num_rows, field.type)
                for field in SCHEMA
            ]
            yield pa.Table.from_arrays(columns, schema=SCHEMA), 0
        except pa.ArrowException:
            yield SCHEMA.empty_table(), batch.num_rows


def _short(values: pa.Array) -> pa.Array:
    """Texts as they are, and those that are longer than any of a report as missing ones: a long one
    may stand in every row for nothing.
    """
    if not isinstance(values, pa.DictionaryArray):
        return values
    texts = values.dictionary
    return pc.if_else(
        pc.less_equal(pc.binary_length(texts), _LONGEST_TEXT), texts, pa.scalar(None, texts.type)
    ).take(values.indices)
