"""From a file's records to labels and texts, or one sentence on what is wrong.

A record is made a label and a text on its own: nothing of it depends on another record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.text import Classification, FreeText, TextContract, template_pieces
from dpicl.errors import DataError
from dpicl.text.fields import Fields, parse_records
from dpicl.text.plain import plain_text

PERSON = "person"
"""Column of hashed ids, where persons are protected."""


def parse_texts(data: bytes, contract: TextContract, where: str) -> pa.Table:
    """Columns `label` and `text` of one file's unpacked content, strings; and `person`, a hash, where the contract protects persons.

    A label is the contract's, or the phrases of an answer joined by blanks; records without an
    answer are left out, and those without a text where answers are texts of their own. A text is
    one line, however long.

    Raises:
        DataError: names file, field, rule and count, never a value.
    """
    fields = (contract.task.field, *contract.text_fields, *_id_field(contract))
    return labelled_texts(parse_records(data, tuple(dict.fromkeys(fields)), where), contract, where)


def labelled_texts(fields: Fields, contract: TextContract, where: str) -> pa.Table:
    """The same from the fields of records.

    Raises:
        DataError: as for `parse_texts`.
    """
    if not fields[contract.task.field]:
        raise DataError(where, "has no records; expected at least one")
    if isinstance(contract.task, Classification):
        labels = _labels(fields[contract.task.field], contract.task, where)
    else:
        fields, labels = _answered(fields, contract.task.field, where)
    columns = {"label": labels, "text": _texts(fields, contract, where)}
    for field in _id_field(contract):
        columns[PERSON] = _persons(fields[field], field, where)
    return _filled(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), contract, where)


def _id_field(contract: TextContract) -> tuple[str, ...]:
    """The field that says who a record is about, where persons are protected."""
    return () if contract.privacy.person is None else (contract.privacy.person.id_column,)


def _persons(values: Sequence[Any], field: str, where: str) -> list[str]:
    """Ids as hashes: the same person has the same one in both files."""
    _refuse(values, lambda value: value is None or value == "", "is missing", field, where)
    return [hashlib.blake2b(str(value).encode(), digest_size=16).hexdigest() for value in values]


def _labels(values: Sequence[Any], task: Classification, where: str) -> list[str]:
    """Labels of the contract; a whole number is what is written."""
    labels = [str(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in values]
    _refuse(labels, lambda label: label is None, "is missing", task.field, where)
    unknown = f"is not one of the {len(task.labels)} labels"
    _refuse(labels, lambda label: not isinstance(label, str) or label not in task.labels, unknown, task.field, where)
    return labels


def _answered(fields: Fields, field: str, where: str) -> tuple[Fields, list[str]]:
    """The records that have an answer, and the answers."""
    phrases = [[] if value is None else value if isinstance(value, list) else [value] for value in fields[field]]
    _refuse(phrases, lambda words: not all(isinstance(word, str) for word in words), "is neither text nor a list of texts", field, where)
    answers = [plain_text(" ".join(words)) for words in phrases]
    kept = [place for place, answer in enumerate(answers) if answer]
    if not kept:
        raise DataError(where, f"field {field!r} is in no record; expected records that have an answer")
    return {name: [values[place] for place in kept] for name, values in fields.items()}, [answers[place] for place in kept]


def _texts(fields: Fields, contract: TextContract, where: str) -> list[str]:
    """The contract's template, filled in for every record."""
    for field in contract.text_fields:
        _refuse(fields[field], lambda value: value is None, "is missing", field, where)
        _refuse(fields[field], lambda value: not isinstance(value, str), "is not text", field, where)
    pieces = template_pieces(contract.text)

    def text(place: int) -> str:
        return plain_text("".join(literal + (fields[field][place] if field else "") for literal, field in pieces))

    return [text(place) for place in range(len(fields[contract.task.field]))]


def _filled(table: pa.Table, contract: TextContract, where: str) -> pa.Table:
    """The records that have a text."""
    filled = table.filter(pc.not_equal(table.column("text"), ""))
    empty = table.num_rows - filled.num_rows
    if empty and not (isinstance(contract.task, FreeText) and filled.num_rows):
        raise DataError(where, f"{empty} of {table.num_rows} texts are empty; expected something in every one")
    return filled


def _refuse(values: Sequence[Any], broken: Callable[[Any], bool], rule: str, field: str, where: str) -> None:
    count = sum(map(broken, values))
    if count:
        raise DataError(where, f"field {field!r} {rule}", count=count)
