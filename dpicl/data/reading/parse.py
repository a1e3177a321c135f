"""From columns of text to the types of a contract, or one sentence on what is wrong.

Every source is turned into text first, so that CSV, Parquet and downloads obey one set of rules;
values that have their type already are taken a quicker way to the same. What becomes of a row with
a value that is none follows from the contract and that row (`Contract.fate_of`).

The names that a source has for its columns, against those of a contract.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.columns import Column
from dpicl.contract.columns.base import EMPTY, is_text
from dpicl.contract.columns.date import DateColumn
from dpicl.contract.columns.integer import IntegerColumn
from dpicl.contract.declared import TSV
from dpicl.contract.models import Contract
from dpicl.data.reading.typed_columns import (
    NO_DATE,
    NO_DATE_RULE,
    NO_VALUE,
    NO_VALUE_RULE,
    as_utf8,
    check_taken,
    check_types,
    is_bytes,
    without_views,
)
from dpicl.ground.errors import DataError
from dpicl.ground.printable import tell_left_out

_LONGEST_TEXT = 1 << 16
_TOO_LONG = f"has more than {_LONGEST_TEXT} bytes"
_DAY = DateColumn.model_validate({"type": "date", "bounds": ["0001-01-01", "9999-12-31"]})
"""On which a row arrived."""
_SIGN = IntegerColumn.model_validate({"type": "integer", "bounds": [-1, 1]})
"""Of a row that comes or takes another one back."""
_Read = Callable[[pa.ChunkedArray, str, str], pa.ChunkedArray]
"""Of values, the column's name, and where it is for messages."""


class _BrokenError(Exception):
    """A column's first broken rule, and which of its values break it: private, and never seen
    outside of this module.
    """

    def __init__(self, rule: str, rows: np.ndarray) -> None:
        self.rule = rule
        self.rows = rows


def _valid(
    values: pa.ChunkedArray, read: _Read, name: str, where: str, *, refuse: bool
) -> tuple[pa.ChunkedArray, np.ndarray]:
    """What is read of a column, nothing where a value breaks a rule, and which values break none.
    Raises DataError: one does, to `refuse`.
    """
    valid = np.ones(len(values), dtype=bool)
    while True:  # once more after each broken rule, of which a column has a few
        try:
            typed = read(values if valid.all() else values.filter(pa.array(valid)), name, where)
            break
        except _BrokenError as broken:
            rule, rows = broken.rule, broken.rows
        if refuse:  # out there, so that the refusal holds no rows
            raise DataError(where, rule, column=name, count=int(rows.sum()))
        valid[np.flatnonzero(valid)[rows]] = False
    if valid.all():
        return typed, valid
    return typed.take(pa.array(np.cumsum(valid) - 1, pa.int64(), mask=~valid)), valid


def typed_table(columns: pa.Table, contract: Contract, where: str) -> pa.Table:
    """Columns of the contract, in its order, as int64, float64 or dictionary<int16, string>; a
    person's id as a hash, the day on which a row arrived in days since 1970, its sign as 1 or -1.

    Rows that hold a word for a missing value in a column that is not nullable are dropped. A
    missing number is null. Values are taken as they stand, blanks included. Numbers outside their
    bounds are let through: a check counts them and the mechanisms clip them. A row with a value
    that is none is refused, left out or mended, each by itself (`Contract.fate_of`).

    `columns` is of shape (rows, columns), of any types; those outside the contract are unread.
    `where` is the file's name, for messages. There may be no rows. Raises DataError: the first
    broken rule, in the contract's order of columns.
    """
    check_types(columns.schema, contract, where)
    table = without_views(columns.select(list(contract.read_columns)))
    mended = 0
    table = _without_marked(table, contract, where)
    unmarked = table.num_rows
    for name in contract.read_columns:
        fate = contract.fate_of(name)
        column = contract.columns.get(name)
        values, valid = _valid(
            table.column(name), _reader(name, contract), name, where, refuse=fate == "refuse"
        )
        if fate == "leave-out" and not valid.all():
            table, values = table.filter(pa.array(valid)), values.filter(pa.array(valid))
        elif column is not None and not valid.all():
            values, mended = column.mended(values), mended + int((~valid).sum())
        table = table.set_column(table.column_names.index(name), name, values)
    tell_left_out(where, left_out=unmarked - table.num_rows, mended=mended)
    return table


def _without_marked(table: pa.Table, contract: Contract, where: str) -> pa.Table:
    """Columns with words for missing values as text: nothing in their place in nullable ones, and
    no rows that have one elsewhere.
    """
    for name in contract.read_columns:
        if not (words := contract.missing_words(name)):
            continue
        fate = contract.fate_of(name)
        column = contract.columns.get(name)
        text, valid = _valid(table.column(name), _as_text, name, where, refuse=fate == "refuse")
        is_marked = _marked(text, words, column, name, where)
        is_nullable = column is not None and column.nullable
        table = table.set_column(
            table.column_names.index(name),
            name,
            pc.if_else(is_marked, "", text) if is_nullable else text,
        )
        kept = pa.array(valid) if fate == "leave-out" else None
        if not is_nullable:
            kept = pc.invert(is_marked) if kept is None else pc.and_(kept, pc.invert(is_marked))
        table = table if kept is None else table.filter(kept)
    return table


def _marked(
    text: pa.ChunkedArray, words: tuple[str, ...], column: Column | None, name: str, where: str
) -> pa.ChunkedArray:
    """Which values are a word for a missing one, in any way of writing it that the column reads as
    the same: -9.0 for -9.
    """
    if column is None:
        return pc.is_in(text, value_set=pa.array(words))
    read = partial(_typed, column=column)
    return column.marked(text, words, lambda: _valid(text, read, name, where, refuse=False)[0])


def _reader(name: str, contract: Contract) -> _Read:
    """What reads a column of a contract, one of its values by itself."""
    person = contract.person
    if person is not None and name == person.id_column:
        return _ids
    if name == contract.source.sign:
        return _signs
    column = _DAY if name == contract.source.arrived else contract.columns[name]
    return partial(_typed, column=column)


def _ids(values: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """Ids as 64-bit hashes: the same person has the same number in every source and order of
    rows.
    """
    text = _as_text(values, name, where)
    _refuse(pc.equal(text, ""), "is empty; expected an id in every row")
    coded = text.combine_chunks().dictionary_encode()
    hashes = [
        hashlib.blake2b(value.encode(), digest_size=8).digest()
        for value in coded.dictionary.to_pylist()
    ]
    return pa.chunked_array(
        [np.frombuffer(b"".join(hashes), dtype="<i8")[coded.indices.to_numpy()]]
    )


def _signs(values: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    signs = _typed(values, name, where, column=_SIGN)
    _refuse(pc.invert(pc.is_in(signs, pa.array([-1, 1]))), "is no sign: expected plus or minus one")
    return signs


def typed_column(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    """One column by its rule. Raises DataError: a value breaks the rule."""
    return _valid(values, partial(_typed, column=column), name, where, refuse=True)[0]


def allowed_values(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """Which values satisfy a column's rule, each by itself: bool of shape (values,)."""
    return _valid(values, partial(_typed, column=column), "", "", refuse=False)[1]


def _typed(values: pa.ChunkedArray, name: str, where: str, *, column: Column) -> pa.ChunkedArray:
    """Without a way by text where values have such types already."""
    check_taken(values.type, column.takes, name, where)
    # a day beyond the calendar has no text, and is not to be made one
    if not column.nullable and pa.types.is_temporal(values.type):
        _refuse(values.is_null(), EMPTY)
    if column.nullable and pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    quick = None
    if column.nullable or not values.null_count:
        quick = column.quick(values, _refuse)
    return column.read(_as_text(values, name, where), _refuse) if quick is None else quick


def as_text(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """A column of any plain type as text, as CSV would hold it; nothing where there is no value.
    Raises DataError: it holds neither numbers nor text, or a text of more than is read.
    """
    return _valid(column, _as_text, name, where, refuse=True)[0]


def _as_text(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            kind = pa.string() if is_text(column.type.value_type) else column.type.value_type
            coded = [(chunk.dictionary.cast(kind), chunk.indices) for chunk in column.chunks]
            long = [_is_long(dictionary).take(indices) for dictionary, indices in coded]
            # one may stand for a million rows
            _refuse(pa.chunked_array(long, pa.bool_()), _TOO_LONG)
            taken = [dictionary.take(indices) for dictionary, indices in coded]
            column = pa.chunked_array(taken, kind)
        if pa.types.is_decimal(column.type) and column.type.scale < 0:  # written as 1E+2 else
            digits = min(76, column.type.precision - column.type.scale)
            column = column.cast(pa.decimal256(digits, 0))
        # a whole one without an exponent, which Arrow writes from 1e+15 on
        if pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
            whole = pc.fill_null(
                pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 2.0**63)), False
            )
            without = pc.if_else(whole, column, 0.0).cast(pa.int64()).cast(pa.string())
            column = pc.if_else(whole, without, column.cast(pa.string()))
        read = (
            [as_utf8(chunk) for chunk in column.chunks]
            if is_bytes(column.type)
            else column.cast(pa.string()).chunks
        )
        text = pc.fill_null(pa.chunked_array(read, pa.string()), "")
    except pa.ArrowException:
        raise DataError(where, NO_VALUE_RULE, column=name) from None
    _refuse(pc.equal(text, NO_VALUE), NO_VALUE_RULE)
    _refuse(pc.equal(text, NO_DATE), NO_DATE_RULE)
    _refuse(_is_long(text), _TOO_LONG)
    return text


def _is_long(values: pa.Array) -> pa.Array:
    """Whether each value is a text of more than is read."""
    if (
        pa.types.is_string(values.type)
        or pa.types.is_binary(values.type)
        or pa.types.is_large_string(values.type)
    ):
        return pc.greater(pc.binary_length(values), _LONGEST_TEXT)
    return pa.repeat(False, len(values))


def _refuse(broken: pa.ChunkedArray, rule: str) -> None:
    if pc.any(broken).as_py():
        raise _BrokenError(rule, np.asarray(pc.fill_null(broken, False)))


_SEPARATORS = {";": "`;`", "\t": "tabs", "|": "`|`", ",": "commas"}


def check_columns(names: Sequence[str], contract: Contract, where: str) -> None:
    """All columns of the contract once, and no others but those it ignores; any order.
    Raises DataError: a column is missing, stands twice, or is unknown.
    """
    wanted = contract.read_columns
    ignored = contract.source.ignore
    if not set(names) & set(wanted):
        check_commas(names, where)
    missing = [name for name in wanted if name not in names]
    if missing:
        header = "" if len(missing) < len(wanted) else ", in a first line that names them"
        others = [name for name in names if name not in wanted]
        # elsewhere what stands there may be a row
        if contract.source.frame or len(others) < len(names) - len(others):
            close = get_close_matches(missing[0], others, 1)
            header += f"; is it {close[0]!r} here?" if close else ""
        rule = (
            f"is not among the columns{_more(missing)}; expected all {len(wanted)} of the "
            f"contract{header}"
        )
        raise DataError(where, rule, column=missing[0])
    check_distinct(names, where, known=(*wanted, *ignored))
    extra = [name for name in names if name not in wanted and name not in ignored]
    if not extra:
        return
    rule = f"is not in the contract{_more(extra)}; expected its columns, or"
    listed = json.dumps(extra, ensure_ascii=False)
    place = f"column {names.index(extra[0]) + 1} of {len(names)}"
    # else a line break may be lost, and the header's end a row
    if len(extra) < len(names) - len(extra):
        unnamed = "" if extra[0] else f"{place}, which has no name, "
        raise DataError(where, f"{unnamed}{rule} `source: {{ignore: {listed}}}`", column=extra[0])
    raise DataError(where, f"{place} {rule} `source: {{ignore: [...]}}`", detail=listed)


def check_commas(names: Sequence[str], where: str) -> None:
    """Raises DataError: there is one column, whose name has another mark in it that separates
    columns.
    """
    mark = (
        next((mark for mark in _SEPARATORS if mark in names[0]), None) if len(names) == 1 else None
    )
    if mark is not None:
        stated = f"state `source: {{delimiter: {json.dumps(mark)}}}`"
        if where.endswith(TSV):
            stated = "expected tabs, or a name that ends in .csv"
        raise DataError(where, f"has one column: is it separated by {_SEPARATORS[mark]}? {stated}")


def check_distinct(names: Sequence[str], where: str, known: Sequence[str] = ()) -> None:
    """No column name stands twice; one that is not `known` may be a value. Raises DataError: one
    does.
    """
    counts = Counter(names)
    twice = [name for name in names if counts.pop(name, 1) > 1]
    if twice:
        rule = f"has a name that stands twice in the header{_more(twice)}; expected distinct names"
        place = "" if twice[0] in known else f"column {names.index(twice[0]) + 1} of {len(names)} "
        raise DataError(
            where,
            place + rule,
            column="" if place else twice[0],
            detail=repr(twice[0]) if place else "",
        )


def _more(named: Sequence[object]) -> str:
    return f" (and {len(named) - 1} more)" if len(named) > 1 else ""
