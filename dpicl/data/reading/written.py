"""From a file's bytes to columns by the contract's names: CSV, TSV, JSON lines, a workbook, or
Parquet, in whichever way `source` says that it writes names, numbers and dates.

A cell is put into the one form that `parse.typed_table` reads by itself, whatever other cells hold;
so no library guesses a column's type from all rows. Cells that have a type are what they are;
`decimal` and `dates` are about those that hold text.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from dpicl.contract.columns.base import is_text
from dpicl.contract.declared import CSV, TSV, Source
from dpicl.contract.draft_columns import most_words
from dpicl.contract.models import Contract
from dpicl.data.reading.parse import check_commas, check_distinct
from dpicl.data.reading.typed_columns import NO_DATE, as_utf8, is_bytes, texts
from dpicl.ground.errors import DataError, DpiclError, SourceError
from dpicl.ground.installed import extra_of
from dpicl.ground.printable import tell_left_out
from dpicl.ground.records import (
    BYTE_ORDER_MARK,
    GROWTH,
    UTF_16,
    most_bytes,
    most_values,
    read_csv,
    read_parquet,
)

JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
WORKBOOK = ".xlsx"
SUFFIXES = (*CSV, ".parquet", *TSV, *JSON_LINES, WORKBOOK)
_BLOCK = 1 << 16
"""Rows that are held as objects of Python at a time."""
_WITH_MARKS = re.compile(r"[-+]?[.,]*\d[\d.,]*([eE][-+]?\d+)?", re.ASCII)
_EXCHANGED = str.maketrans(".,", ",.")
_IN_OUR_FORM = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z|\d{4}-\d\d-\d\dT", re.ASCII)
Rewrite = Callable[[str], str]


def read_columns(
    data: bytes,
    where: str,
    contract: Contract,
    check: Callable[[list[str]], Sequence[str]],
    *,
    wanted: Sequence[str],
    known: Collection[str] | None,
    leave_out: bool = False,
) -> pa.Table:
    """Columns by our names, of text or of the types that the file has: shape (rows, columns).

    Args:
        where: the file's name, whose ending says what it is; CSV where that is none of ours.
        check: is given all names of the header, and may refuse them; gives those that are needed.
        wanted: of JSON lines, which have no header: columns to read; `known`, if not None, is all
            keys that a row may have.
        leave_out: whether rows that are none by themselves are left out, in place of a refusal.

    Raises:
        DataError: the content is damaged, or not what the name or `source` says.
        SourceError: a package of an extra is needed to read it.
    """
    source = contract.source
    rewrites = rewrites_of(contract)
    if where.endswith(JSON_LINES):
        return _of_json_lines(
            data, where, source.rename, rewrites, wanted, known, leave_out=leave_out
        )
    if where.endswith(WORKBOOK):
        return read_workbook(data, where, check, source.rename, rewrites)

    def theirs(names: list[str]) -> list[str]:
        ours = [source.rename.get(name, name) for name in names]
        return [names[ours.index(name)] for name in check(ours)]

    if where.endswith(".parquet"):
        return as_ours(read_parquet(data, theirs, where), contract)
    return as_ours(read_text(data, where, theirs, source, leave_out=leave_out), contract)


def read_text(
    data: bytes,
    where: str,
    check: Callable[[list[str]], Collection[str] | None],
    source: Source,
    *,
    leave_out: bool = False,
) -> pa.Table:
    """CSV or TSV as `read_csv` reads it, with the separators and in the encoding of `source`."""
    said = "utf-16" if data.startswith(UTF_16) else "latin-1"
    windows = "" if said == "utf-16" else " or windows-1252"
    return read_csv(
        data,
        check,
        where,
        leave_out=leave_out,
        delimiter="\t" if where.endswith(TSV) else source.delimiter,
        encoding=source.encoding,
        or_state=f", or `source: {{encoding: {said}}}`{windows}" * (source.encoding == "utf-8"),
    )


def written_as(data: bytes, where: str) -> dict[str, Any]:
    """{key of `source`: value} of what the beginning of a CSV or TSV file shows: its encoding, and
    the separator by which the first line has most names; what is as usual is left out.
    """
    if not where.endswith((*CSV, *TSV)):
        return {}
    if data.startswith(UTF_16):
        encoding = "utf-16"
    else:
        try:
            data.decode()
            encoding = "utf-8"
        except UnicodeDecodeError:
            encoding = "windows-1252"  # which has the letters of latin-1
    head = io.StringIO(data.partition(b"\n")[0].decode(encoding, "ignore"))
    line = head.readline()
    counts = {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in ",;\t|"}
    mark = max(counts, key=lambda mark: counts[mark])
    said = {"delimiter": mark} if mark != "," and where.endswith(CSV) else {}
    return said | ({} if encoding == "utf-8" else {"encoding": encoding})


def all_columns(data: bytes, where: str, source: Source) -> pa.Table:
    """All columns of a file that is not Parquet as text, by the file's names; numbers and dates as
    it has them. Raises DataError, SourceError: as `read_columns`.
    """

    def check(names: list[str]) -> list[str]:
        check_commas(names, where)
        check_distinct(names, where)
        return names

    if where.endswith(JSON_LINES):
        keys = dict.fromkeys(key for row in json_lines(data) for key in row or ())
        return _of_json_lines(data, where, {}, {}, [*keys], None, leave_out=False)
    if where.endswith(WORKBOOK):
        return read_workbook(data, where, check, {}, {})
    return read_text(data, where, check, source)


def looks_rewritten(column: pa.ChunkedArray, source: Source) -> pa.ChunkedArray:
    """A column of texts in our form where all its values but one, or a few among many numbers,
    which may stand for a missing one, are numbers with a decimal comma, or dates, as `source` says
    that they are written.
    """
    distinct = [text for text in column.unique().to_pylist() if text]
    form = source.dates if isinstance(source.dates, str) else None
    rewrites: list[Rewrite] = [with_point] if source.decimal == "," else []
    rewrites += [] if form is None else [partial(iso_date, form=form)]
    for rewrite in rewrites:
        new = {text: rewrite(text) for text in distinct}
        fit = {text for text in distinct if _IN_OUR_FORM.match(new[text])}
        others = max(1, most_words(len(fit))) if rewrite is with_point else 1
        if fit and len(fit) >= len(distinct) - others:
            new |= {text: text for text in distinct if text not in fit}
            return rewritten(column, new.__getitem__).cast(pa.string())
    return column


def as_ours(table: pa.Table, contract: Contract) -> pa.Table:
    """Columns of a file by our names, with texts of numbers and dates in our form."""
    rename = contract.source.rename
    table = table.rename_columns([rename.get(name, name) for name in table.column_names])
    for name, rewrite in rewrites_of(contract).items():
        if name in table.column_names:
            column = table.column(name)
            stored = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if is_text(stored) or is_bytes(stored):
                table = table.set_column(
                    table.column_names.index(name), name, rewritten(column, rewrite)
                )
    return table


def rewritten(column: pa.ChunkedArray, rewrite: Rewrite) -> pa.ChunkedArray:
    """A column of texts, each different one of which is rewritten once: a dictionary, in which a
    long text stands once however many rows it is of.
    """
    chunks = []
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = as_utf8(coded.dictionary) if is_bytes(coded.dictionary.type) else coded.dictionary
        new = pa.array([text and rewrite(text) for text in words.to_pylist()], pa.string())
        indices = coded.indices.cast(pa.int32())
        chunks.append(pa.DictionaryArray.from_arrays(indices, new))
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))


def rewrites_of(contract: Contract) -> dict[str, Rewrite]:
    """{column of numbers or dates: what puts a text of it into our form}; none where the source
    has our form. A word for a missing value stays what it is.
    """
    source = contract.source
    found: dict[str, Rewrite] = {}
    for name in contract.read_columns:
        column = contract.columns.get(name)
        takes = "dates" if name == source.arrived else column.takes if column else ""
        form = source.dates.get(name) if isinstance(source.dates, dict) else source.dates
        is_real = takes == "numbers" or getattr(column, "value_type", None) == "real"
        if is_real and source.decimal == ",":
            rewrite: Rewrite = with_point
        elif takes == "dates" and form is not None:
            rewrite = partial(iso_date, form=form)
        else:
            continue
        found[name] = partial(_unless_missing, rewrite=rewrite, words=contract.missing_words(name))
    return found


def _unless_missing(text: str, *, rewrite: Rewrite, words: tuple[str, ...]) -> str:
    return text if text in words else rewrite(text)


def with_point(text: str) -> str:
    """A number with a decimal comma as one with a point, and one with a point as what is none; any
    other text as it is.
    """
    return text.translate(_EXCHANGED) if _WITH_MARKS.fullmatch(text) else text


def iso_date(text: str, form: str) -> str:
    """A date of this form in that of ISO 8601; what is none breaks the column's rule."""
    try:
        return datetime.strptime(text, form).isoformat()  # in UTC if nothing says otherwise
    except ValueError:
        return NO_DATE


def _blocks(
    rows: Iterable[Sequence[Any]], names: Sequence[str], rewrites: Mapping[str, Rewrite]
) -> Iterator[pa.Table]:
    """Cells of any types as texts, each by its own."""
    rows = iter(rows)
    while block := list(islice(rows, _BLOCK)):
        columns = []
        for name, cells in zip(names, zip(*block, strict=True), strict=True):
            rewrite = rewrites.get(name)
            columns.append(
                texts(
                    rewrite(cell) if rewrite and isinstance(cell, str) and cell else cell
                    for cell in cells
                )
            )
        yield pa.Table.from_arrays(columns, list(names))


def _no_rows(names: Sequence[str]) -> pa.Table:
    return pa.schema([(name, pa.string()) for name in names]).empty_table()


def json_lines(data: bytes) -> Iterator[dict[str, Any] | None]:
    """The object of each line that is not blank; None where it is none, in UTF-8."""
    for line in io.BytesIO(data.removeprefix(BYTE_ORDER_MARK)):
        if line.strip():
            try:
                row = json.loads(line.decode())
            except (ValueError, RecursionError):
                row = None
            yield row if isinstance(row, dict) else None


def _of_json_lines(
    data: bytes,
    where: str,
    rename: Mapping[str, str],
    rewrites: Mapping[str, Rewrite],
    wanted: Sequence[str],
    known: Collection[str] | None,
    *,
    leave_out: bool,
) -> pa.Table:
    """A key that a row lacks is a missing value. A line that is no object, or has a key that is not
    known, is that row's own fault.
    """
    broken, unknown = 0, set[str]()

    def rows() -> Iterator[list[Any]]:
        nonlocal broken
        for line in json_lines(data):
            row = line and {rename.get(key, key): value for key, value in line.items()}
            strange = set() if row is None or known is None else row.keys() - known
            if row is None or strange or len(row) < len(line or ()):
                broken += 1
                unknown.update(strange)
                continue
            yield [row.get(name) for name in wanted]

    table = pa.concat_tables([_no_rows(wanted), *_blocks(rows(), wanted, rewrites)])
    if unknown and not leave_out:
        listed = json.dumps(sorted(unknown), ensure_ascii=False)
        raise DataError(
            where,
            "some rows have keys that are not in the contract; expected its columns, or "
            "`source: {ignore: [...]}`",
            detail=f"{broken} rows, {listed}",
        )
    if broken and not leave_out:
        raise DataError(
            where,
            "some lines are no JSON object in UTF-8; expected one object in each line",
            detail=f"{broken} lines",
        )
    tell_left_out(where, left_out=broken)
    return table


def read_workbook(
    data: bytes,
    where: str,
    check: Callable[[list[str]], Sequence[str]],
    rename: Mapping[str, str],
    rewrites: Mapping[str, Rewrite],
) -> pa.Table:
    """The first sheet of a workbook: a header, and rows of cells by their own types, as texts; what
    stands beyond the header is not read.
    """
    try:
        from openpyxl import load_workbook  # of an extra
    except ModuleNotFoundError as error:
        raise SourceError(f"{where}: {extra_of(error) or error}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which name cells and their values
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                unpacked = sum(part.file_size for part in packed.infolist())
            if unpacked > most_bytes(len(data)):
                told = f"unpacks to too much; expected at most {GROWTH} times its size"
                raise DataError(where, told)
            sheet = load_workbook(io.BytesIO(data), read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # what it says of its size may be a lie
            rows = (row for row in sheet.iter_rows(values_only=True) if any(_filled(row)))
            header = ["" if name is None else str(name) for name in next(rows, ())]
            while header and not header[-1]:
                header.pop()
            header = [rename.get(name, name) for name in header]
            chosen = check(header)
            places = [header.index(name) for name in chosen]
            most = most_values(len(data))

            def cells() -> Iterator[list[Any]]:
                for number, row in enumerate(rows, 1):
                    if number * len(header) > most:
                        raise DataError(
                            where, "holds more than a file of its size should; expected less"
                        )
                    yield [row[place] if place < len(row) else None for place in places]

            return pa.concat_tables([_no_rows(chosen), *_blocks(cells(), chosen, rewrites)])
        except DpiclError:
            raise
        except Exception:  # noqa: BLE001  # of XML, of archives, of what the package looks up in them
            raise DataError(where, "is not a complete workbook; expected .xlsx of Excel") from None


def _filled(row: Sequence[Any]) -> Iterator[bool]:
    return (cell is not None and cell != "" for cell in row)
