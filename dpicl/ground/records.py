"""Opening a file of rows: below the data folder only, and what it unpacks to is bounded before it
is unpacked.

A small file may claim or become gigabytes. Small is always allowed; above that, a file may
grow by a factor that honest rows do not reach.

CSV as columns of text: a header line and, where needed, double quotes; UTF-8 and a comma, unless
another encoding or separator is stated.

Parquet files read by rows: what their footers say, and any range of rows, without holding a whole
file.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.objects import Stored, reason, version_of
from dpicl.ground.printable import tell_left_out

MAX_BYTES = 2 << 30
ALWAYS_BYTES = 16 << 20
GROWTH = 100
_ALWAYS_VALUES = 1 << 22
_VALUES_PER_BYTE = 50
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
        values = 0
        bytes_ = 0
        batches = []
        # what it holds is counted: what a file says of itself may be a lie
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            values += batch.num_rows * batch.num_columns
            bytes_ += batch.nbytes
            if values > most_values(len(data)) or bytes_ > most_bytes(len(data)):
                most = f"{most_values(len(data))} values or {most_bytes(len(data))} bytes"
                raise DataError(
                    where,
                    "holds more than a file of its size should; expected less",
                    detail=f"more than {most}",
                )
            batches.append(batch)
        return sound(
            pa.Table.from_batches(batches)
            if batches
            else file.schema_arrow.empty_table().select(names)
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise DataError(where, "is not a complete Parquet file") from None


def sound(table: pa.Table) -> pa.Table:
    """A table whose every value is valid; where a text is not UTF-8, which is its own row's fault,
    columns of texts are of bytes.

    Raises:
        ArrowInvalid: it is damaged otherwise.
    """
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        table = pa.table([_as_bytes(column) for column in table.columns], table.column_names)
        table.validate(full=True)
    return table


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.binary()))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.binary()))
    if pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary())
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


def open_parquet(source: Any) -> pa_parquet.ParquetFile:
    """A file of which the footer is read, and texts are to be read as dictionaries."""
    metadata = pa_parquet.read_metadata(source)
    texts = [
        part.path
        for part in map(metadata.schema.column, range(metadata.num_columns))
        if part.physical_type == "BYTE_ARRAY"
    ]
    return pa_parquet.ParquetFile(source, metadata=metadata, read_dictionary=texts)


BYTE_ORDER_MARK, UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_ESCAPED = "surrogateescape"
_LONGEST_ROW = 1 << 20
_END = b"\x1fend\x1f"
"""In every field of a row behind the last one."""
_LINE_END = re.compile("[\r\n]")
_NO_CSV = "is not well-formed CSV; expected closed quotes and rows under 1 MiB"


def read_csv(
    data: bytes,
    check: Callable[[list[str]], Collection[str] | None],
    where: str,
    *,
    leave_out: bool = False,
    delimiter: str = ",",
    encoding: str = "utf-8",
    or_state: str = "",
) -> pa.Table:
    """Columns as text: shape (rows, columns).

    Args:
        check: is given the header's names, and may refuse them; it gives those that are needed, or
            None for all.
        leave_out: whether rows with too many or too few fields, and those with bytes that are no
            text in a column that is needed, are left out, each by itself, in place of a refusal.
        or_state: what may help where it is not UTF-8, as a contract says it.

    Raises:
        DataError: the content is not of its encoding or not well-formed CSV, or rows are ragged.
    """
    if encoding != "utf-8":
        data = _as_utf8(data, where, encoding)
    named = encoding.replace("utf-8", "UTF-8")
    data = data.removeprefix(BYTE_ORDER_MARK)
    # alone: a file that is one long line is refused before it is copied
    beginning = data[:_LONGEST_ROW]
    if len(data) > _LONGEST_ROW:
        beginning = beginning[: max(beginning.rfind(b"\n"), beginning.rfind(b"\r")) + 1]
        if not beginning:
            raise DataError(where, _NO_CSV)
    if not leave_out:
        utf8(data, where, named, or_state)
    head = io.StringIO(beginning.decode(errors="replace"), newline="")
    try:
        names = next(csv.reader(head, delimiter=delimiter, strict=True), [])
    except csv.Error:
        mark = "" if delimiter == "," else f" with {delimiter!r} between names, as in `source`"
        rule = f"has a first line that is not CSV; expected a header{mark}"
        raise DataError(where, rule) from None
    if any("\ufffd" in name for name in names):
        utf8(beginning.partition(b"\n")[0], where, named, or_state)
    needed = check(names)
    table, ragged = _parsed(
        data,
        names,
        where,
        delimiter,
        longest_row=len(data) + _LONGEST_ROW if leave_out else _LONGEST_ROW,
    )
    if ragged and not leave_out:
        rows = f"{ragged} of {ragged + table.num_rows} rows"
        raise DataError(
            where, f"some rows are ragged; expected {len(names)} fields in each", detail=rows
        )
    texts = _decoded(table if needed is None else table.select(list(needed)))
    tell_left_out(where, left_out=ragged + table.num_rows - texts.num_rows)
    return texts


def _parsed(
    data: bytes, names: list[str], where: str, delimiter: str, *, longest_row: int
) -> tuple[pa.Table, int]:
    """All columns as bytes, and how many rows have another number of fields. Raises DataError: rows
    do not end, or a quote is never closed, or closed by one that begins another row's field, by
    which the rows between would be lost.
    """
    ragged = 0
    has_lines = False

    def note(row: pa_csv.InvalidRow) -> str:
        nonlocal ragged, has_lines
        ragged += 1
        has_lines = has_lines or _LINE_END.search(row.text or "") is not None
        return "skip"

    # A header alone needs its end of line; a blank line is skipped; a row of our own comes last,
    # unless a quote before it is open.
    ended = b"".join((data, b"\n", delimiter.encode().join([_END] * len(names)), b"\n"))
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(ended),
            read_options=pa_csv.ReadOptions(block_size=longest_row),
            parse_options=pa_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        raise DataError(where, _NO_CSV) from None
    if not table.num_rows or any(column[-1].as_py() != _END for column in table.columns):
        raise DataError(where, _NO_CSV)
    has_lines = has_lines or any(
        pc.any(pc.match_substring_regex(column, _LINE_END.pattern)).as_py()
        for column in table.columns
    )
    if has_lines and any(
        quoted[1] and _LINE_END.search(quoted[0].decode("latin-1"), 1)
        for quoted in _quoted(delimiter).finditer(data)
    ):
        raise DataError(where, _NO_CSV)
    return table.slice(0, table.num_rows - 1), ragged


def _as_utf8(data: bytes, where: str, encoding: str) -> bytes:
    """Bytes that are no text of it stay none, and are their rows' own fault. Raises DataError: it
    is another encoding.
    """
    if encoding != "utf-16":
        return data.decode(encoding, _ESCAPED).encode("utf-8", _ESCAPED)
    if not data.startswith(UTF_16):  # else any bytes would be
        told = "is not utf-16; expected text in utf-16 with a byte order mark"
        raise DataError(where, told)
    whole = data[: len(data) // 2 * 2]
    return whole.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")


def _quoted(delimiter: str) -> re.Pattern[bytes]:
    """A field in quotes, and what stands behind it that begins no other field."""
    ends = re.escape(delimiter).encode() + rb"\r\n"
    return re.compile(rb"(?:\A|[" + ends + rb'])"[^"]*+(?:""[^"]*+)*+"(?=([^' + ends + rb"])?)")


def _decoded(table: pa.Table) -> pa.Table:
    """Columns of bytes as text, without the rows that are none."""
    kept = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            kept &= np.fromiter(map(_is_utf8, column.to_pylist()), dtype=bool, count=table.num_rows)
    table = table if kept.all() else table.filter(pa.array(kept))
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def utf8(data: bytes, where: str, named: str = "UTF-8", or_state: str = "") -> str:
    """The content as text; for messages, what it was `named` before it came here, and what may help
    where it is none.

    Raises:
        DataError: it is not UTF-8; names the first line that is not.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            where,
            f"is not {named}; expected text in {named}{or_state}",
            detail=f"from line {line} on",
        ) from None


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
            table = sound(table)
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
    tables = [file.schema_arrow.empty_table().select(names)]
    at = ends[touched[0]] - footer.groups[touched[0]] if touched else 0
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
