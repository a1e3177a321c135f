"""Tables in files that appear whole or not at all: Parquet, and Arrow's own for what only a run
reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, publish


def write_table(path: Path, table: pa.Table) -> Path:
    """A Parquet file."""
    return publish(path, lambda file: pq.write_table(table, file, compression="zstd"))


def keep_table(path: Path, table: pa.Table) -> Path:
    """A private table, for as long as a run needs it, as Arrow's file: written and read several
    times as fast as Parquet, at twice its size.
    """

    def write(file: BinaryIO) -> None:
        options = ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
        with ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)

    return publish(path, write, mode=PRIVATE_MODE)


def kept_table(path: Path) -> pa.Table:
    """The rows that `keep_table` wrote."""
    with path.open("rb") as file:
        return ipc.open_file(file).read_all()


def write_row_groups(path: Path, tables: Iterator[pa.Table], *, mode: int = PUBLIC_MODE) -> Path:
    """A Parquet file of one table or more that are made one after another; each is a row group at
    least.
    """

    def write(file: BinaryIO) -> None:
        first = next(tables)
        with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    return publish(path, write, mode=mode)


def read_row_groups(path: Path) -> Iterator[pa.Table]:
    """The rows of a Parquet file, so many at a time as were written together."""
    with path.open("rb") as file:
        groups = pq.ParquetFile(file)
        for number in range(groups.num_row_groups):
            yield groups.read_row_group(number)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file, or these columns of them."""
    with path.open("rb") as file:
        # `pq.read_table` would import data sets of files
        table = pq.ParquetFile(file).read(columns=columns)
    return table if columns is None else table.select(columns)
