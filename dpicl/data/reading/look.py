"""A look at rows for a first contract: every column as text, which a draft takes.

Guarantee   none: what is read here is private. It goes to the holder of the rows alone, into a
            draft that releases nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.draft import Draft
from dpicl.contract.draft_columns import columns_of_rows, missing_marker, person_of_rows
from dpicl.data.reading.parse import as_text
from dpicl.data.reading.typed_columns import check_taken
from dpicl.ground.errors import DataError


def texts_of(table: pa.Table, where: str) -> tuple[pa.Table, dict[str, str]]:
    """All columns as text, and {column that holds something else: why it is left out}."""
    texts = {}
    unread = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        floating = pa.types.is_floating(column.type)
        try:
            check_taken(column.type, "categories", name, where)
            texts[name] = as_text(
                pc.if_else(pc.is_nan(column), None, column) if floating else column, name, where
            )
        except DataError as error:
            unread[name] = error.rule.removeprefix("holds ")  # which is said of it there
    return pa.table(texts), unread


def looked_at(rows: pa.Table, stated: Draft, where: str, ways: Mapping[str, str]) -> Draft:
    """A draft with the columns that rows have, the word for missing values, and the column that
    names persons.

    Args:
        rows: every column as text: shape (rows, columns).
        stated: with a label, if there is one, and why columns are left out that are not in rows.
        where: what the rows are called in messages.
        ways: {why a column is left out: what to do about it}, as `columns_of_rows` takes it.

    Raises:
        ParameterError: there is no such label, or a contract cannot describe it.
    """
    if (marker := missing_marker(rows)) is not None:
        filled = [pc.if_else(pc.equal(column, marker), "", column) for column in rows.columns]
        rows = pa.table(filled, names=rows.column_names)
    person = person_of_rows(rows, stated.label)
    if person is not None:
        rows = rows.drop_columns([person[0]])
    columns, ignored = columns_of_rows(
        rows, stated.label, bool(stated.positive), where, ways, has_person=person is not None
    )
    return replace(
        stated,
        columns=tuple(columns),
        ignored=dict(stated.ignored) | ignored,
        missing=marker,
        person=person,
    )
