"""Parquet files read by rows: what their footers say, and any range of rows, without holding a
whole file.

What a footer says is a claim: it is bounded by the file's size when it is read, and held
against what comes when the rows are.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from dpicl.errors import DataError
from dpicl.files.bounded import ALWAYS_BYTES, GROWTH, most_values, open_parquet
from dpicl.files.objects import Stored, reason, version_of

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Footer:
    """A file as it was first opened: its size and time, and the rows of each of its row groups; of
    an object its version, in place of a time.
    """

    size: int
    modified_ns: int
    groups: tuple[int, ...]
    version: str = ""

    @property
    def rows(self) -> int:
        """Of all row groups."""
        return sum(self.groups)


def read_footer(path: Path | Stored, check: Callable[[list[str]], object], where: str) -> Footer:
    """What a Parquet file says of itself.

    Args:
        check: is given the names of all columns, and may refuse them.

    Raises:
        DataError: it is no Parquet file, cannot be read, or claims more rows than a file of its
            size should hold.
        SourceError: the store does not give the object.
    """
    try:
        with _opened(path, where) as (source, (size, modified_ns, version)):
            file = pa_parquet.ParquetFile(source)
            check(file.schema_arrow.names)
            metadata = file.metadata
            groups = tuple(
                metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
            )
            columns = metadata.num_columns
    except OSError as error:
        raise DataError(
            where,
            reason(error) or f"cannot be read ({error.strerror or 'not a complete Parquet file'})",
        ) from None
    except (pa.ArrowException, ValueError, MemoryError):
        raise DataError(where, "is not a complete Parquet file") from None
    if min(groups, default=0) < 0 or sum(groups) * columns > most_values(size):
        raise DataError(
            where,
            "claims more values than a file of its size holds; expected fewer",
            detail=f"more than {most_values(size)} values",
        )
    return Footer(size, modified_ns, groups, version)


@contextmanager
def _opened(path: Path | Stored, where: str) -> Iterator[tuple[Any, tuple[int, int, str]]]:
    """What Arrow reads, and what tells its content from another: size, time, version."""
    if isinstance(path, Stored):
        with path.open() as file:
            yield file, (file.size(), 0, version_of(file))
        return
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError(where, "is a folder, device or pipe; expected a Parquet file")
    yield path, (status.st_size, status.st_mtime_ns, "")


def read_rows(
    path: Path | Stored, footer: Footer, names: list[str], start: int, stop: int, where: str
) -> pa.Table:
    """Rows start to stop of a file, texts as dictionaries: shape (stop - start, columns).

    Raises:
        DataError: the file is damaged, or is not the one that the footer was read from.
        SourceError: the store does not give the object.
    """
    try:
        with _opened(path, where) as (source, state):
            _same(state, footer, where)
            table = _rows(open_parquet(source), footer, names, start, stop, where)
            table.validate(full=True)
        if isinstance(path, Stored):  # its ranges were requested one by one, by name
            with _opened(path, where) as (_, state):
                _same(state, footer, where)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise DataError(where, reason(error) or "is not a complete Parquet file") from None
    if table.num_rows != stop - start:
        raise DataError(
            where,
            "holds another number of rows than its footer says; expected a complete Parquet file",
        )
    return table


def _same(state: tuple[int, int, str], footer: Footer, where: str) -> None:
    if state != (footer.size, footer.modified_ns, footer.version):
        raise DataError(
            where, "was changed while it was being read; expected files that stay as they are"
        )


def _rows(
    file: pa_parquet.ParquetFile,
    footer: Footer,
    names: list[str],
    start: int,
    stop: int,
    where: str,
) -> pa.Table:
    """Of the row groups that the range touches, batch by batch; no batch before the range stays in
    memory.
    """
    ends = list(accumulate(footer.groups))
    touched = [
        number
        for number, end in enumerate(ends)
        if end > start and end - footer.groups[number] < stop
    ]
    tables, at = (
        [file.schema_arrow.empty_table().select(names)],
        ends[touched[0]] - footer.groups[touched[0]] if touched else 0,
    )
    allowed = max(ALWAYS_BYTES, GROWTH * footer.size)
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=touched, columns=names):
        inside = batch.slice(
            max(start - at, 0), max(min(stop - at, batch.num_rows) - max(start - at, 0), 0)
        )
        at += batch.num_rows
        allowed -= batch.nbytes
        if allowed < 0:
            raise DataError(where, f"unpacks to more than {GROWTH} times its size; expected less")
        if inside.num_rows:
            tables.append(pa.Table.from_batches([inside]).select(names))
        if at >= stop:
            break
    return pa.concat_tables(tables[1:] or tables)
