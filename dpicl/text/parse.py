"""From a file's records to labels and texts, or one sentence on what is wrong.

A record is made a label and a text on its own: nothing of it depends on another record. Texts are
made one line, so that no record can break the layout of a prompt.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.base import as_written
from dpicl.contract.text import Classification, FreeText, TextContract, template_pieces
from dpicl.errors import DataError
from dpicl.text.fields import Fields, parse_records

PERSON = "person"
"""Column of hashed ids, where persons are protected."""
_BLANKS = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates and separators."""


def plain_text(text: str) -> str:
    """The text with every run of blanks, line breaks, control and format characters as one blank, none at its ends."""
    if not text.isprintable():
        text = "".join(" " if unicodedata.category(letter) in _BLANKS else letter for letter in text)
    return " ".join(text.split())


def parse_texts(data: bytes, contract: TextContract, where: str, *, part: bool = False) -> pa.Table:
    """Columns `label` and `text` of one file's unpacked content, strings; and `person`, a hash, where the contract protects persons.

    A label is the contract's, or the phrases of an answer joined by blanks; records without an
    answer are left out, and those without a text where answers are texts of their own. A text is
    one line, however long. A `part` of a source may have no texts.

    Raises:
        DataError: names file, field, rule and count, never a value.
    """
    person = contract.privacy.person
    fields = (contract.task.field, *contract.text_fields, *([person.id_column] if person else []))
    return labelled_texts(parse_records(data, tuple(dict.fromkeys(fields)), where), contract, where, part=part)


def labelled_texts(fields: Fields, contract: TextContract, where: str, *, part: bool = False) -> pa.Table:
    """The same from the fields of records.

    Raises:
        DataError: as for `parse_texts`.
    """
    if not fields[contract.task.field] and not part:
        raise DataError(where, "has no records; expected at least one")
    if isinstance(contract.task, Classification):
        field, known, values = contract.task.field, contract.task.labels, fields[contract.task.field]
        renamed = contract.source.labels
        labels = [renamed.get(label, label) if isinstance(label, str) else label for label in map(as_written, values)]
        _refuse(labels, lambda label: label is None, "is missing", field, where)
        unknown = f"is not one of the {len(known)} labels"
        _refuse(labels, lambda label: not isinstance(label, str) or label not in known, unknown, field, where)
    else:
        fields, labels = _answered(fields, contract.task.field, where, part=part)
    for field in contract.text_fields:
        _refuse(fields[field], lambda value: value is None, "is missing", field, where)
        _refuse(fields[field], lambda value: not isinstance(value, str), "is not text", field, where)
    pieces = template_pieces(contract.text)
    texts = [
        plain_text("".join(literal + (fields[field][place] if field else "") for literal, field in pieces)) for place in range(len(labels))
    ]
    columns = {"label": labels, "text": texts}
    if contract.privacy.person is not None:
        field = contract.privacy.person.id_column
        _refuse(fields[field], lambda value: value is None or value == "", "is missing", field, where)
        columns[PERSON] = [hashlib.blake2b(str(value).encode(), digest_size=16).hexdigest() for value in fields[field]]
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    filled = table.filter(pc.not_equal(table.column("text"), ""))
    empty = table.num_rows - filled.num_rows
    if empty and not (isinstance(contract.task, FreeText) and filled.num_rows):
        raise DataError(where, "some texts are empty; expected something in every one", detail=f"{empty} of {table.num_rows} texts")
    return filled


def _answered(fields: Fields, field: str, where: str, *, part: bool) -> tuple[Fields, list[str]]:
    phrases = [[] if value is None else value if isinstance(value, list) else [value] for value in fields[field]]
    _refuse(phrases, lambda words: not all(isinstance(word, str) for word in words), "is neither text nor a list of texts", field, where)
    answers = [plain_text(" ".join(words)) for words in phrases]
    places = [place for place, answer in enumerate(answers) if answer]
    if not places and not part:
        raise DataError(where, f"field {field!r} is in no record; expected records that have an answer")
    return {name: [values[place] for place in places] for name, values in fields.items()}, [answers[place] for place in places]


def _refuse(values: Sequence[Any], broken: Callable[[Any], bool], rule: str, field: str, where: str) -> None:
    count = sum(map(broken, values))
    if count:
        raise DataError(where, f"field {field!r} {rule}", count=count)
