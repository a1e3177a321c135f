"""From a file's records to labels and texts, or one sentence on what is wrong.

A record is made a label and a text on its own: nothing of it depends on another record. Texts are
made one line, so that no record can break the layout of a prompt.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.base import as_written
from dpicl.contract.text import Classification, FreeText, TextContract, template_pieces
from dpicl.errors import DataError
from dpicl.holder import tell_holder, tell_left_out
from dpicl.text.fields import Fields, parse_records

_LABEL = ":label"
"""In the place of a field, which none is called: what a record is answered with."""
PERSON = "person"
"""Column of hashed ids, where persons are protected."""
_BLANKS = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates and separators."""


def plain_text(text: str) -> str:
    """The text with every run of blanks, line breaks, control and format characters as one blank,
    none at its ends.
    """
    if not text.isprintable():
        text = "".join(
            " " if unicodedata.category(letter) in _BLANKS else letter for letter in text
        )
    return " ".join(text.split())


def parse_texts(data: bytes, contract: TextContract, where: str) -> pa.Table:
    """Columns `label` and `text` of one file's unpacked content, strings; and `person`, a hash,
    where the contract protects persons.

    A label is the contract's, or the phrases of an answer joined by blanks; records without an
    answer are left out, and those without a text where answers are texts of their own. A text is
    one line, however long. There may be none.

    Raises:
        DataError: names file, field, rule and count, never a value; where the contract leaves
            records out that break it by themselves, of what is no record by itself.
    """
    person = contract.privacy.person
    fields = (contract.task.field, *contract.text_fields, *([person.id_column] if person else []))
    return labelled_texts(
        parse_records(data, tuple(dict.fromkeys(fields)), where, leave_out=contract.leaves_out),
        contract,
        where,
    )


def labelled_texts(fields: Fields, contract: TextContract, where: str) -> pa.Table:
    """The same from the fields of records.

    Raises:
        DataError: as for `parse_texts`.
    """
    records = _Records({**fields}, where, contract.leaves_out)
    if isinstance(contract.task, Classification):
        field, known, renamed = contract.task.field, contract.task.labels, contract.source.labels
        records.values[_LABEL] = [
            renamed.get(label, label) if isinstance(label, str) else label
            for label in map(as_written, fields[field])
        ]
        records.check(_LABEL, lambda label: label is None, f"field {field!r} is missing")
        unknown = f"field {field!r} is not one of the {len(known)} labels"
        records.check(
            _LABEL, lambda label: not isinstance(label, str) or label not in known, unknown
        )
    else:
        _answer(records, contract.task.field)
    for field in contract.text_fields:
        records.check(field, lambda value: value is None, f"field {field!r} is missing")
        records.check(
            field, lambda value: not isinstance(value, str), f"field {field!r} is not text"
        )
    person = contract.privacy.person
    if person is not None:
        records.check(
            person.id_column,
            lambda value: value is None or value == "",
            f"field {person.id_column!r} is missing",
        )
    pieces, labels = template_pieces(contract.text), records.values[_LABEL]
    texts = [
        plain_text(
            "".join(
                literal + (records.values[field][place] if field else "")
                for literal, field in pieces
            )
        )
        for place in range(len(labels))
    ]
    columns = {"label": labels, "text": texts}
    if person is not None:
        ids = [
            str(value).encode(errors="surrogatepass") for value in records.values[person.id_column]
        ]
        columns[PERSON] = [hashlib.blake2b(value, digest_size=16).hexdigest() for value in ids]
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    filled = table.filter(pc.not_equal(table.column("text"), ""))
    empty = table.num_rows - filled.num_rows
    if empty and not (isinstance(contract.task, FreeText) or contract.leaves_out):
        raise DataError(
            where,
            "some texts are empty; expected something in every one",
            detail=f"{empty} of {table.num_rows} texts",
        )
    tell_left_out(
        where, left_out=records.left_out + (0 if isinstance(contract.task, FreeText) else empty)
    )
    return filled


@dataclass
class _Records:
    """Fields of records, of which those go that break a rule by themselves, or all are refused."""

    values: Fields
    where: str
    leave_out: bool
    left_out: int = 0

    def check(self, field: str, broken: Callable[[Any], bool], rule: str) -> None:
        """Records keep a rule of this field. Raises DataError: some do not, and are not to be left
        out.
        """
        is_broken = list(map(broken, self.values[field]))
        if (count := sum(is_broken)) and not self.leave_out:
            raise DataError(self.where, rule, count=count)
        self.left_out += count
        self.keep([not one for one in is_broken])

    def keep(self, kept: Sequence[bool]) -> None:
        """These records alone."""
        if not all(kept):
            self.values = {
                name: list(compress(values, kept)) for name, values in self.values.items()
            }


def _answer(records: _Records, field: str) -> None:
    """The answers of records that have one; the others are no records of this task."""
    records.values[_LABEL] = [
        [] if value is None else value if isinstance(value, list) else [value]
        for value in records.values[field]
    ]
    broken = f"field {field!r} is neither text nor a list of texts"
    records.check(_LABEL, lambda words: not all(isinstance(word, str) for word in words), broken)
    records.values[_LABEL] = [plain_text(" ".join(words)) for words in records.values[_LABEL]]
    has_any = bool(records.values[_LABEL])
    records.keep([bool(answer) for answer in records.values[_LABEL]])
    if has_any and not records.values[_LABEL]:
        tell_holder(f"{records.where}: no record has an answer in field {field!r}")
