"""From columns of text to the types of a contract, or one sentence on what is wrong.

Every source is turned into text first, so that CSV, Parquet and downloads obey one set of rules; values that have their type already are
taken a quicker way to the same. Messages name columns of the contract and counts. A name that only the file has is named by its position:
where a line break is lost, the header ends in a row of values.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.categories import ValueType, category_of
from dpicl.contract.columns import MISSING, CategoryColumn, Column, DateColumn, IntegerColumn, moment
from dpicl.contract.models import Contract
from dpicl.errors import DataError
from dpicl.tabular.reading.arrow_types import check_type, check_types, is_text
from dpicl.tabular.reading.quick import quick_column
from dpicl.types import NO_NUMBER

_WHOLE = r"^-?\d+(\.0+)?$"
_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LONGEST_TEXT = 1 << 16
_DAY = DateColumn.model_validate({"type": "date", "bounds": ["0001-01-01", "9999-12-31"]})
"""On which a row arrived."""
_SIGN = IntegerColumn.model_validate({"type": "integer", "bounds": [-1, 1]})
"""Of a row that comes or takes another one back."""


def check_columns(names: Sequence[str], contract: Contract, where: str) -> None:
    """All columns of the contract once, and no others but those it ignores; any order.
    Raises DataError: a column is missing, stands twice, or is unknown.
    """
    missing = [name for name in contract.read_columns if name not in names]
    if missing:
        rule = f"is not among the columns{_more(missing)}; expected all {len(contract.read_columns)} of the contract"
        raise DataError(where, rule, column=missing[0])
    check_distinct(names, where)
    extra = [place for place, name in enumerate(names, 1) if name not in contract.read_columns and name not in contract.source.ignore]
    if extra:
        rule = f"is not in the contract{_more(extra)}; expected its columns and those under `ignore`"
        raise DataError(where, f"column {extra[0]} of {len(names)} {rule}")


def check_distinct(names: Sequence[str], where: str) -> None:
    """No column name stands twice. Raises DataError: one does."""
    counts = Counter(names)
    twice = [place for place, name in enumerate(names, 1) if counts.pop(name, 1) > 1]
    if twice:
        rule = f"has a name that stands twice in the header{_more(twice)}; expected distinct names"
        raise DataError(where, f"column {twice[0]} of {len(names)} {rule}")


def _more(named: Sequence[object]) -> str:
    return f" (and {len(named) - 1} more)" if len(named) > 1 else ""


def typed_table(columns: pa.Table, contract: Contract, where: str, *, part: bool = False) -> pa.Table:
    """Columns of the contract, in its order, as int64, float64 or dictionary<int16, string>; a person's id as a hash,
    the day on which a row arrived in days since 1970, its sign as 1 or -1.

    Rows that hold the contract's `missing` marker in a column that is not nullable are dropped first. A missing number is null. Values are
    taken as they stand, blanks included. Numbers outside their bounds are let through: a check counts them and the mechanisms clip them.

    `columns` is of shape (rows, columns), of any types; those outside the contract are unread. `where` is the file's name, for messages.
    A `part` of a source may have no rows. Raises DataError: the first broken rule, in the contract's order of columns.
    """
    check_types(columns.schema, contract, where)
    if (missing := contract.source.missing) is not None:
        columns = pa.table({name: as_text(columns.column(name), name, where) for name in contract.read_columns})
        gaps = {name for name, column in contract.columns.items() if column.nullable}
        marked = [pc.equal(columns.column(name), missing) for name in columns.column_names if name not in gaps]
        filled = {name: pc.if_else(pc.equal(columns.column(name), missing), "", columns.column(name)) for name in gaps}
        columns = pa.table({name: filled.get(name, columns.column(name)) for name in columns.column_names})
        if marked:
            columns = columns.filter(pc.invert(reduce(pc.or_, marked)))
    typed = {name: typed_column(columns.column(name), column, name, where) for name, column in contract.columns.items()}
    if contract.privacy.person:
        name = contract.privacy.person.id_column
        text = as_text(columns.column(name), name, where)
        _refuse(pc.equal(text, ""), "is empty", name, where)
        # Ids as 64-bit hashes: the same person has the same number in every source and order of rows.
        coded = text.combine_chunks().dictionary_encode()
        hashes = [hashlib.blake2b(value.encode(), digest_size=8).digest() for value in coded.dictionary.to_pylist()]
        typed[name] = pa.chunked_array([np.frombuffer(b"".join(hashes), dtype="<i8")[coded.indices.to_numpy()]])
    if (arrived := contract.source.arrived) is not None:
        typed[arrived] = typed_column(columns.column(arrived), _DAY, arrived, where)
    if (sign := contract.source.sign) is not None:
        typed[sign] = typed_column(columns.column(sign), _SIGN, sign, where)
        _refuse(pc.invert(pc.is_in(typed[sign], pa.array([-1, 1]))), "is no sign: expected plus or minus one", sign, where)
    table = pa.table(typed)
    if not part:
        refuse_no_rows(table, where)
    return table


def refuse_no_rows(table: pa.Table, where: str) -> None:
    """Raises a DataError if there are none."""
    if not table.num_rows:
        raise DataError(where, "has no rows; expected at least one without a missing value")


def typed_column(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    """One column by its rule; without a way by text where values have such types already. Raises DataError: a value breaks the rule."""
    check_type(values.type, column, name, where)
    quick = quick_column(values, column, _LONGEST_TEXT)
    if quick is None:
        quick = _from_text(values, column, name, where)
    if isinstance(column, IntegerColumn) and column.nullable:  # which stands for a missing number where rows are told apart
        _refuse(pc.equal(quick, NO_NUMBER), "is beyond 64 bits", name, where)
    return quick


def _from_text(values: pa.ChunkedArray, column: Column, name: str, where: str) -> pa.ChunkedArray:
    text = as_text(
        pc.if_else(pc.is_nan(values), None, values) if column.nullable and pa.types.is_floating(values.type) else values, name, where
    )
    if column.nullable:
        text = pc.if_else(pc.equal(text, ""), MISSING if isinstance(column, CategoryColumn) else None, text)
    _refuse(pc.equal(text, ""), "is empty", name, where)
    if isinstance(column, DateColumn):
        return _moments(text, column, name, where)
    if isinstance(column, IntegerColumn):
        _refuse(pc.invert(pc.match_substring_regex(text, _WHOLE)), "is not a whole number", name, where)
        digits = pc.replace_substring_regex(text, r"\.0+$", "")
        try:
            return digits.cast(pa.int64())
        except pa.ArrowInvalid:
            long = digits.filter(pc.greater(pc.binary_length(digits), 18))
            beyond = sum(not -(2**63) <= Decimal(value) < 2**63 for value in long.to_pylist())
            raise DataError(where, "is beyond 64 bits", column=name, count=beyond) from None
    if not isinstance(column, CategoryColumn):
        rule = "is not a finite number"
        _refuse(pc.invert(pc.match_substring_regex(text, _NUMBER)), rule, name, where)
        numbers = text.cast(pa.float64())
        _refuse(pc.invert(pc.is_finite(numbers)), rule, name, where)
        return pc.add(numbers, 0.0)  # turns -0.0 into 0.0
    codes = category_codes(text, column.categories, column.value_type)
    _refuse(codes.is_null(), f"is not one of the {len(column.categories)} categories", name, where)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes.cast(pa.int16()), pa.array(column.categories))])


def category_codes(text: pa.ChunkedArray, categories: tuple[str, ...], kind: ValueType) -> pa.Array:
    """The place of each text's category, null where it is none: int32 of shape (rows,). Another text than a category's is read once."""
    listed = pa.array(categories)
    codes = pc.index_in(text, value_set=listed).combine_chunks()
    if codes.null_count:
        others = pc.unique(text.filter(codes.is_null()))
        meant = pc.index_in(pa.array([category_of(one, categories, kind) for one in others.to_pylist()], pa.string()), value_set=listed)
        codes = pc.coalesce(codes, meant.take(pc.index_in(text, value_set=others).combine_chunks()))
    return codes


def _moments(text: pa.ChunkedArray, column: DateColumn, name: str, where: str) -> pa.ChunkedArray:
    """Every distinct text is read once."""
    coded = text.combine_chunks().dictionary_encode()
    counted: list[int | None] = []
    for one in coded.dictionary.to_pylist():
        try:
            counted.append(moment(one, column.type))
        except ValueError:
            counted.append(None)
    wrong = pc.is_null(pa.array(counted, pa.int64())).take(coded.indices)
    expected = "2026-11-25" if column.type == "date" else "2026-11-25T12:30:00"
    _refuse(wrong, f"is no {column.type} such as {expected}", name, where)
    return pa.chunked_array([pa.array(counted, pa.int64()).take(coded.indices)])


def any_value(column: Column) -> str:
    """The first category or the lower bound, as text."""
    if isinstance(column, CategoryColumn):
        return column.categories[0]
    return column.text(column.bounds[0]) if isinstance(column, DateColumn) else str(column.bounds[0])


def as_text(column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """A column of any plain type as text, as CSV would hold it; nothing where there is no value.
    Raises DataError: it holds neither numbers nor text, or a text of more than is read.
    """
    try:
        if pa.types.is_dictionary(column.type):
            kind = pa.string() if is_text(column.type.value_type) else column.type.value_type
            dictionaries = [chunk.dictionary.cast(kind) for chunk in column.chunks]
            for dictionary in dictionaries:
                _refuse_long(dictionary, name, where)
            taken = [dictionary.take(chunk.indices) for dictionary, chunk in zip(dictionaries, column.chunks, strict=True)]
            column = pa.chunked_array(taken, kind)
        if pa.types.is_floating(column.type):  # a whole one without an exponent, which Arrow writes from 1e+15 on
            column = column.cast(pa.float64())
            whole = pc.fill_null(pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 2.0**63)), False)
            without = pc.if_else(whole, column, 0.0).cast(pa.int64()).cast(pa.string())
            column = pc.if_else(whole, without, column.cast(pa.string()))
        text = pc.fill_null(column.cast(pa.string()), "")
    except pa.ArrowException:
        raise DataError(where, "holds neither numbers nor text", column=name) from None
    _refuse_long(text, name, where)
    return text


def _refuse_long(values: pa.Array, name: str, where: str) -> None:
    """In a dictionary one long text may stand for a million rows."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_string(values.type):
        _refuse(pc.greater(pc.binary_length(values), _LONGEST_TEXT), f"has more than {_LONGEST_TEXT} bytes", name, where)


def _refuse(broken: pa.ChunkedArray, rule: str, name: str, where: str) -> None:
    count = pc.sum(broken).as_py()
    if count:
        raise DataError(where, rule, column=name, count=count)
