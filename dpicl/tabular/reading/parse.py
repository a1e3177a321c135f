"""From columns of text to the types of a contract, or one sentence on what is wrong.

Every source is turned into text first, so that CSV, Parquet and downloads obey one set of rules;
values that have their type already are taken a quicker way to the same. What becomes of a row with
a value that is none follows from the contract and that row (`Contract.fate_of`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.categories import ValueType, category_of
from dpicl.contract.columns import (
    MISSING,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    moment,
    number_meant,
)
from dpicl.contract.models import Contract
from dpicl.errors import DataError
from dpicl.holder import tell_left_out
from dpicl.tabular.reading.arrow_types import check_type, check_types, is_bytes, is_text
from dpicl.tabular.reading.cells import NO_VALUE, NO_VALUE_RULE, as_utf8
from dpicl.tabular.reading.quick import quick_column
from dpicl.types import NO_NUMBER

_WHOLE = r"^-?\d+(\.0+)?$"
_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LEADING_ZERO = r"^-?0\d"
_ZEROS = (
    "has leading zeros, which a number would lose; expected `type: category` for codes such as "
    "00501, or numbers without them"
)
_LONGEST_TEXT = 1 << 16
_EMPTY = "is empty; expected a value in every row, or `nullable: true`"
_TOO_LONG = f"has more than {_LONGEST_TEXT} bytes"
_DAY = DateColumn.model_validate({"type": "date", "bounds": ["0001-01-01", "9999-12-31"]})
"""On which a row arrived."""
_SIGN = IntegerColumn.model_validate({"type": "integer", "bounds": [-1, 1]})
"""Of a row that comes or takes another one back."""


class _BrokenError(Exception):
    """A column's first broken rule, and which of its values break it: private, and never seen
    outside of this module.
    """

    def __init__(self, rule: str, name: str, where: str, rows: np.ndarray) -> None:
        self.rule, self.name, self.where, self.rows = rule, name, where, rows

    @property
    def refusal(self) -> DataError:
        """What a refusal says, without the rows."""
        return DataError(self.where, self.rule, column=self.name, count=int(self.rows.sum()))


def _valid(
    values: pa.ChunkedArray, read: Callable[[pa.ChunkedArray], pa.ChunkedArray], *, refuse: bool
) -> tuple[pa.ChunkedArray, np.ndarray]:
    """What is read of a column, nothing where a value breaks a rule, and which values break none.
    Raises DataError: one does, to `refuse`.
    """
    valid = np.ones(len(values), dtype=bool)
    while True:  # once more after each broken rule, of which a column has a few
        try:
            typed = read(values if valid.all() else values.filter(pa.array(valid)))
            break
        except _BrokenError as broken:
            refusal = broken.refusal
            valid[np.flatnonzero(valid)[broken.rows]] = False
        if refuse:
            raise refusal
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
    table, mended = columns.select(list(contract.read_columns)), 0
    table = _without_marked(table, contract, where)
    unmarked = table.num_rows
    for name in contract.read_columns:
        fate, column = contract.fate_of(name), contract.columns.get(name)
        values, valid = _valid(
            table.column(name), _reader(name, contract, where), refuse=fate == "refuse"
        )
        if fate == "leave-out" and not valid.all():
            table, values = table.filter(pa.array(valid)), values.filter(pa.array(valid))
        elif column is not None and not valid.all():
            values, mended = _mended(values, column), mended + int((~valid).sum())
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
        fate, column = contract.fate_of(name), contract.columns.get(name)
        text, valid = _valid(
            table.column(name), partial(_as_text, name=name, where=where), refuse=fate == "refuse"
        )
        is_marked, is_nullable = (
            _marked(text, words, column, name, where),
            column is not None and column.nullable,
        )
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
    if isinstance(column, CategoryColumn):
        return is_word(text, words, column.value_type)
    is_marked = pc.is_in(text, value_set=pa.array(words))
    meant = (
        []
        if column is None
        else [number for word in words if (number := number_meant(word, column.type)) is not None]
    )
    if column is None or not meant:
        return is_marked
    numbers = _valid(text, partial(_typed, column=column, name=name, where=where), refuse=False)[
        0
    ].cast(pa.float64(), safe=False)
    return pc.or_(is_marked, pc.is_in(numbers, value_set=pa.array(meant)))


def _reader(
    name: str, contract: Contract, where: str
) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    """What reads a column of a contract, one of its values by itself."""
    person = contract.privacy.person
    if person is not None and name == person.id_column:
        return partial(_ids, name=name, where=where)
    if name == contract.source.sign:
        return partial(_signs, name=name, where=where)
    column = _DAY if name == contract.source.arrived else contract.columns[name]
    return partial(_typed, column=column, name=name, where=where)


def _ids(values: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """Ids as 64-bit hashes: the same person has the same number in every source and order of
    rows.
    """
    text = _as_text(values, name, where)
    _refuse(pc.equal(text, ""), "is empty; expected an id in every row", name, where)
    coded = text.combine_chunks().dictionary_encode()
    hashes = [
        hashlib.blake2b(value.encode(), digest_size=8).digest()
        for value in coded.dictionary.to_pylist()
    ]
    return pa.chunked_array(
        [np.frombuffer(b"".join(hashes), dtype="<i8")[coded.indices.to_numpy()]]
    )


def _signs(values: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    signs = _typed(values, _SIGN, name, where)
    _refuse(
        pc.invert(pc.is_in(signs, pa.array([-1, 1]))),
        "is no sign: expected plus or minus one",
        name,
        where,
    )
    return signs


def _mended(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Missing where a column can miss values, else its first category or lower bound, in the place
    of what is nothing.
    """
    if isinstance(column, CategoryColumn):
        code = pa.scalar(len(column.categories) - 1 if column.nullable else 0, pa.int16())
        return pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(pc.fill_null(one.indices, code), one.dictionary)
                for one in values.chunks
            ]
        )
    return values if column.nullable else pc.fill_null(values, column.bounds[0])


def typed_column(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    """One column by its rule. Raises DataError: a value breaks the rule."""
    return _valid(values, partial(_typed, column=column, name=name, where=where), refuse=True)[0]


def allowed_values(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """Which values satisfy a column's rule, each by itself: bool of shape (values,)."""
    return _valid(values, partial(_typed, column=column, name="", where=""), refuse=False)[1]


def _typed(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    """Without a way by text where values have such types already."""
    check_type(values.type, column, name, where)
    # a day beyond the calendar has no text, and is not to be made one
    if not column.nullable and pa.types.is_temporal(values.type):
        _refuse(values.is_null(), _EMPTY, name, where)
    quick = quick_column(values, column, _LONGEST_TEXT)
    if quick is None:
        quick = _from_text(values, column, name, where)
    # which stands for a missing number where rows are told apart
    if isinstance(column, IntegerColumn) and column.nullable:
        _refuse(pc.equal(quick, NO_NUMBER), "is beyond 64 bits", name, where)
    return quick


def _from_text(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    text = _as_text(
        pc.if_else(pc.is_nan(values), None, values)
        if column.nullable and pa.types.is_floating(values.type)
        else values,
        name,
        where,
    )
    if column.nullable:
        text = pc.if_else(
            pc.equal(text, ""), MISSING if isinstance(column, CategoryColumn) else None, text
        )
    _refuse(pc.equal(text, ""), _EMPTY, name, where)
    if isinstance(column, DateColumn):
        return _moments(text, column, name, where)
    if isinstance(column, IntegerColumn):
        _refuse(
            pc.invert(pc.match_substring_regex(text, _WHOLE)), "is not a whole number", name, where
        )
        _refuse(pc.match_substring_regex(text, _LEADING_ZERO), _ZEROS, name, where)
        digits = pc.replace_substring_regex(text, r"\.0+$", "")
        long = pc.fill_null(pc.greater(pc.binary_length(digits), 18), False)
        if pc.any(long).as_py():
            beyond = {
                text: not -(2**63) <= Decimal(text) < 2**63
                for text in digits.filter(long).unique().to_pylist()
            }
            _refuse(
                pa.array([beyond.get(text, False) for text in digits.to_pylist()]),
                "is beyond 64 bits",
                name,
                where,
            )
        return digits.cast(pa.int64())
    if not isinstance(column, CategoryColumn):
        rule = "is not a finite number"
        _refuse(pc.invert(pc.match_substring_regex(text, _NUMBER)), rule, name, where)
        _refuse(pc.match_substring_regex(text, _LEADING_ZERO), _ZEROS, name, where)
        numbers = text.cast(pa.float64())
        _refuse(pc.invert(pc.is_finite(numbers)), rule, name, where)
        return pc.add(numbers, 0.0)  # turns -0.0 into 0.0
    codes = category_codes(text, column.categories, column.value_type)
    _refuse(codes.is_null(), f"is not one of the {len(column.categories)} categories", name, where)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(codes.cast(pa.int16()), pa.array(column.categories))]
    )


def category_codes(text: pa.ChunkedArray, categories: tuple[str, ...], kind: ValueType) -> pa.Array:
    """The place of each text's category, null where it is none: int32 of shape (rows,). Another
    text than a category's is read once.
    """
    listed = pa.array(categories, pa.string())
    codes = pc.index_in(text, value_set=listed).combine_chunks()
    if codes.null_count:
        others = pc.unique(text.filter(codes.is_null()))
        meant = pc.index_in(
            pa.array(
                [category_of(one, categories, kind) for one in others.to_pylist()], pa.string()
            ),
            value_set=listed,
        )
        codes = pc.coalesce(codes, meant.take(pc.index_in(text, value_set=others).combine_chunks()))
    return codes


def is_word(text: pa.ChunkedArray, words: tuple[str, ...], kind: ValueType) -> pa.Array:
    """Which texts of a column of categories are one of the words, in any way of writing it: bool of
    shape (rows,).
    """
    return category_codes(text, words, "integer" if kind == "boolean" else kind).is_valid()


def _moments(text: pa.ChunkedArray, column: DateColumn, name: str, where: str) -> pa.ChunkedArray:
    """Every distinct text is read once."""
    coded = text.combine_chunks().dictionary_encode()
    counted: list[int | None] = []
    for one in coded.dictionary.to_pylist():
        try:
            counted.append(moment(one, column.type))
        except (ValueError, OverflowError):  # also a time zone beyond the calendar's end
            counted.append(None)
    wrong = pc.is_null(pa.array(counted, pa.int64())).take(coded.indices)
    expected = "2026-11-25" if column.type == "date" else "2026-11-25T12:30:00"
    _refuse(wrong, f"is no {column.type} such as {expected}", name, where)
    return pa.chunked_array([pa.array(counted, pa.int64()).take(coded.indices)])


def any_value(column: Column) -> str:
    """The first category or the lower bound, as text."""
    if isinstance(column, CategoryColumn):
        return column.categories[0]
    return (
        column.text(column.bounds[0]) if isinstance(column, DateColumn) else str(column.bounds[0])
    )


def as_text(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """A column of any plain type as text, as CSV would hold it; nothing where there is no value.
    Raises DataError: it holds neither numbers nor text, or a text of more than is read.
    """
    return _valid(column, partial(_as_text, name=name, where=where), refuse=True)[0]


def _as_text(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            kind = pa.string() if is_text(column.type.value_type) else column.type.value_type
            dictionaries = [chunk.dictionary.cast(kind) for chunk in column.chunks]
            long = [
                _is_long(dictionary).take(chunk.indices)
                for dictionary, chunk in zip(dictionaries, column.chunks, strict=True)
            ]
            # one may stand for a million rows
            _refuse(pa.chunked_array(long, pa.bool_()), _TOO_LONG, name, where)
            taken = [
                dictionary.take(chunk.indices)
                for dictionary, chunk in zip(dictionaries, column.chunks, strict=True)
            ]
            column = pa.chunked_array(taken, kind)
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
    _refuse(pc.equal(text, NO_VALUE), NO_VALUE_RULE, name, where)
    _refuse(_is_long(text), _TOO_LONG, name, where)
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


def _refuse(broken: pa.ChunkedArray, rule: str, name: str, where: str) -> None:
    if pc.any(broken).as_py():
        raise _BrokenError(rule, name, where, np.asarray(pc.fill_null(broken, False)))
