"""Files of reports, one after another: JSON lines, packed or not, and Parquet; a folder's at any
depth, or a store's below an address.

A file that is damaged, or was cut off when its writer was killed, gives the reports before the
damage and is counted. Files of other kinds, such as what an upload has not finished, are counted
and left alone, and so are names that begin with a dot.

Guarantee   none spent: clients' reports are randomised before they are sent.

Lines of JSON to columns.

Whether each report answers a question of this collection: columns in, valid answers and counts of
all others out.

One report as it is sent: its keys, their types and the version.
"""

from __future__ import annotations

import gzip
import json
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, log, sqrt
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.periods import ONCE, read_period
from dpicl.data.local.questions import Question, Questionnaire
from dpicl.ground.errors import DataError, ParameterError
from dpicl.ground.objects import SCHEME, Stored, names_below, reason
from dpicl.ground.records import BYTE_ORDER_MARK, GROWTH, most_values, open_parquet
from dpicl.mechanisms.unary_encoding import Unary

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

        def is_hidden(below: Path) -> bool:
            return any(part.startswith(".") for part in below.relative_to(path).parts)

        try:
            if stat.S_ISDIR(path.stat().st_mode):
                found = [
                    *sorted(
                        below
                        for below in path.rglob("*")
                        if below.is_file() and not is_hidden(below)
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
                size = file.seek(0, 2)
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield from read_lines(cast(BinaryIO, _Bounded(unpacked, size, place.name)))
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


VERSION = 1
SCHEMA = pa.schema(
    {
        "version": pa.int64(),
        "collection": pa.string(),
        "who": pa.string(),
        "period": pa.string(),
        "question": pa.int64(),
        "answer": pa.int64(),
        "bits": pa.list_(pa.int64()),
    }
)
"""Of a report; what is left out is null. Reports in Parquet have these columns, and perhaps
others.
"""
Answer = Mapping[str, Any]
"""What a client answers: `question`, and `answer` or `bits`."""


@dataclass(frozen=True)
class Sender:
    """What stands beside an answer: the collection, who sends, and the period."""

    collection: str
    who: str
    period: str = ONCE

    def report(self, answer: Answer) -> dict[str, Any]:
        """The report as it is sent."""
        period = {} if self.period == ONCE else {"period": self.period}
        return {
            "version": VERSION,
            "collection": self.collection,
            "who": self.who,
            **period,
            **answer,
        }


LONGEST_LINE = 1 << 20
"""In bytes: some forty times a report on the most cells that a question has, half of whose bits are
set.
"""
_SHORTEST_LINE = len('{"version":2}')
"""In bytes; what is shorter is no report, and not worth a parser's error."""
_BLOCK = 1 << 22
Read = tuple[pa.Table, int]
"""Reports in the columns of `SCHEMA`, and how many further lines are none."""
_decode = json.JSONDecoder().decode


def read_lines(file: BinaryIO) -> Iterator[Read]:
    """The reports of a file, some at a time, in bounded memory. Empty lines count for nothing; the
    last may lack its end.
    """
    left, too_long, first = b"", False, True
    while block := file.read(_BLOCK):
        left += block
        if first and len(left) >= len(BYTE_ORDER_MARK):
            left, first = left.removeprefix(BYTE_ORDER_MARK), False
        whole, end, left = left.rpartition(b"\n")
        if end and too_long:  # the line began in an earlier block, and was counted there
            whole, too_long = whole.partition(b"\n")[2], False
        if whole:
            yield columns(whole)
        if len(left) >= LONGEST_LINE:
            # also where nothing is counted: who reads sees how far it is
            yield (
                SCHEMA.empty_table(),
                int(not too_long),
            )
            left, too_long = b"", True
    if left and not too_long:
        yield columns(left)


def columns(lines: bytes) -> Read:
    """Of whole lines, the last without its end."""
    reports, wrong = [], 0
    # a packed file may be of empty lines alone, which the parser would stumble over
    for line in filter(None, lines.split(b"\n")):
        report = _report(line)
        if report is not None:
            reports.append(report)
        elif line.strip():
            wrong += 1
    if not reports:
        return SCHEMA.empty_table(), wrong
    values = zip(*reports, strict=True)
    return pa.Table.from_arrays(
        [pa.array(some, field.type) for some, field in zip(values, SCHEMA, strict=True)],
        schema=SCHEMA,
    ), wrong


def _report(line: bytes) -> Sequence[Any] | None:
    """The values of a report's keys, each of its type; None where the line is no JSON object of
    such. Of another version, that alone.
    """
    if not _SHORTEST_LINE <= len(line) < LONGEST_LINE:
        return None
    try:
        read = _decode(line.decode())
    # no text, no JSON, too deep, or a number of thousands of digits
    except (
        ValueError,
        RecursionError,
    ):
        return None
    if not isinstance(read, dict):
        return None
    values = [*map(read.get, SCHEMA.names)]
    if values[0] != VERSION and _is_whole(values[0]):
        return [values[0], *(None,) * (len(values) - 1)]
    for value, is_of_type in zip(values, _CHECKS, strict=True):
        if value is not None and not is_of_type(value):
            return None
    return values


def _is_whole(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_text(value: object) -> bool:
    # half a character is no text
    return isinstance(value, str) and (
        value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    )


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(item is None or _is_whole(item) for item in value)


_BY_TYPE: dict[pa.DataType, Callable[[object], bool]] = {
    pa.int64(): _is_whole,
    pa.string(): _is_text,
    pa.list_(pa.int64()): _is_list,
}
_CHECKS = [_BY_TYPE[field.type] for field in SCHEMA]
_UNLIKELY = 40 * log(2)
_WHO = "^[0-9a-f]{32}$"
_HEX = np.zeros(256, dtype=np.uint64)
_HEX[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16, dtype=np.uint64)


@dataclass(frozen=True)
class Answers:
    """Valid answers: who gave each, shape (answers, 2), uint64; to which question; and the cells
    that they name, one after another.
    """

    who: np.ndarray
    questions: np.ndarray
    lengths: np.ndarray
    cells: np.ndarray

    def take(self, places: np.ndarray) -> Answers:
        """Some of them, by their places."""
        lengths = self.lengths[places]
        starts = (np.cumsum(self.lengths) - self.lengths)[places]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Answers(
            self.who[places],
            self.questions[places],
            lengths,
            self.cells[np.repeat(starts, lengths) + within],
        )


@dataclass(frozen=True)
class Checker:
    """What a report to a collection must be: its name, its questions, and the period that is
    collected.
    """

    collection: str
    questions: Questionnaire
    period: str = ONCE

    def check(self, reports: pa.Table) -> tuple[Answers, Counter[str]]:
        """Valid answers among reports in the columns of `SCHEMA`, and how many others there are of
        each kind.
        """
        counts = Counter[str]()
        left = reports.combine_chunks()
        left = _without(left, pc.is_null(left["version"]), "malformed", counts)
        left = _without(left, pc.not_equal(left["version"], VERSION), "version", counts)
        left = _without(left, pc.is_null(left["collection"]), "malformed", counts)
        left = _without(left, pc.not_equal(left["collection"], self.collection), "foreign", counts)
        left = _without(
            left,
            pc.invert(pc.fill_null(pc.match_substring_regex(left["who"], _WHO), False)),
            "malformed",
            counts,
        )
        left = self._of_period(left, counts)
        answers, valid = self._answers(left)
        counts["forged"] += int(np.count_nonzero(~valid))
        return (answers if valid.all() else answers.take(np.flatnonzero(valid))), +counts

    def _of_period(self, left: pa.Table, counts: Counter[str]) -> pa.Table:
        periods = pc.fill_null(left["period"], ONCE)
        if pc.all(pc.equal(periods, self.period), min_count=0).as_py():
            return left
        encoded = periods.combine_chunks().dictionary_encode()
        kinds = np.array([self._kind(period) for period in encoded.dictionary.to_pylist()])[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        counts.update(
            {
                kind: int(np.count_nonzero(kinds == kind))
                for kind in ("malformed", "late", "elsewhen")
            }
        )
        return left.filter(pa.array(kinds == "collected"))

    def _kind(self, period: str) -> str:
        if period == self.period:
            return "collected"
        try:
            read_period(period)
        except ParameterError:
            return "malformed"
        if _shape(period) == _shape(self.period) and period < self.period:
            return "late"
        return "elsewhen"

    def _answers(self, left: pa.Table) -> tuple[Answers, np.ndarray]:
        """All that is left as answers, and which of them are valid."""
        number, answer = (
            pc.fill_null(left[name], -1).to_numpy() for name in ("question", "answer")
        )
        bits = (
            left["bits"].combine_chunks()
            if left.num_rows
            else pa.array([], left.schema.field("bits").type)
        )
        has_answer, has_bits = (
            np.asarray(pc.is_valid(column)) for column in (left["answer"], bits)
        )
        questions = self.questions.questions
        known = (number >= 0) & (number < len(questions))
        number = np.where(known, number, 0)
        unary = np.array([isinstance(question.law, Unary) for question in questions])[number]
        sizes = np.array([question.cells for question in questions])[number]
        bit_counts = np.asarray(pc.fill_null(pc.list_value_length(bits), 0))
        lengths = np.where(unary, bit_counts, 1)
        named = pc.fill_null(bits.flatten(), -1).to_numpy(zero_copy_only=False)
        # what else is listed belongs to no valid answer
        of_bits = np.repeat(unary, bit_counts)
        cells = np.empty(lengths.sum(), dtype=np.int64)
        is_bit = np.repeat(unary, lengths)
        cells[is_bit], cells[~is_bit] = named[of_bits], answer[~unary]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        wrong = (cells < 0) | (cells >= sizes[rows])
        wrong[1:] |= (rows[1:] == rows[:-1]) & (cells[1:] <= cells[:-1])  # bits rise
        valid = known & np.where(unary, has_bits & ~has_answer, has_answer & ~has_bits)
        valid[rows[wrong]] = False
        valid &= lengths <= np.array([_most_bits(question) for question in questions])[number]
        return Answers(_lanes(left["who"]), number, lengths, cells), valid


def _most_bits(question: Question) -> int:
    """More cells than an honest answer names once in 2^40, by Hoeffding's inequality: with all bits
    set, one report would weigh a hundred.
    """
    if not isinstance(question.law, Unary):
        return 1
    return 1 + ceil(
        question.cells * question.law.lie_probability + sqrt(question.cells * _UNLIKELY / 2)
    )


def _without(left: pa.Table, wrong: pa.ChunkedArray, kind: str, counts: Counter[str]) -> pa.Table:
    """The reports that are not wrong in this way; the others are counted."""
    many = pc.sum(wrong).as_py() or 0
    counts[kind] += many
    return left.filter(pc.invert(wrong)) if many else left


def _lanes(who: pa.ChunkedArray) -> np.ndarray:
    """Pseudonyms of 32 hexadecimal digits as two numbers each: shape (reports, 2), uint64."""
    fixed = who.combine_chunks().cast(pa.binary()).cast(pa.binary(32))
    text = np.frombuffer(fixed.buffers()[1], dtype=np.uint8)[32 * fixed.offset :][: 32 * len(fixed)]
    digits = _HEX[text].reshape(-1, 2, 16)
    return np.asarray(
        (digits << np.arange(60, -4, -4, dtype=np.uint64)).sum(axis=2, dtype=np.uint64)
    )


def _shape(period: str) -> str:
    return re.sub(r"\d", "9", period)
