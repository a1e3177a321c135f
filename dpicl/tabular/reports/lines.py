"""Lines of JSON to columns. A line that is no report is counted, and stops nothing: neither deep
nesting nor long numbers nor bytes that are no text.

By Python's own parser, line by line: Arrow's is faster, but ends the process at some lines that are
no objects, and anybody may send those.

Guarantee   none spent: clients' reports are randomised before they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from dpicl.tabular.reports.schema import SCHEMA, VERSION

LONGEST_LINE = 1 << 20
"""In bytes: some forty times a report on the most cells that a question has, half of whose bits are
set.
"""
_SHORTEST_LINE = len('{"version":2}')
"""In bytes; what is shorter is no report, and not worth a parser's error."""
_BLOCK = 1 << 22
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
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
        if first and len(left) >= len(_BYTE_ORDER_MARK):
            left, first = left.removeprefix(_BYTE_ORDER_MARK), False
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
    return isinstance(value, list) and all(one is None or _is_whole(one) for one in value)


_BY_TYPE: dict[pa.DataType, Callable[[object], bool]] = {
    pa.int64(): _is_whole,
    pa.string(): _is_text,
    pa.list_(pa.int64()): _is_list,
}
_CHECKS = [_BY_TYPE[field.type] for field in SCHEMA]
