"""Where the texts of a contract come from, and reading them: two files, or a bundled set.

Long texts are kept whole here, so that a check can count them; `split` cuts them.

Splitting texts into demonstrations (private) and queries (public), and cutting each to its longest.

What every text must satisfy before it is used: rules from the contract, and counts of what breaks
them.

Whether a text has the form that its contract states publicly of all of them: told of texts that are
released, and of no other.

SROIE's training receipts as it publishes them, a folder of two files a receipt, as records: the
words of each in the order of its annotation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.load import accepted, edition, edition_names
from dpicl.contract.text import PUBLISHED, Form, TextContract, TextFile
from dpicl.data.reading.files import delivered, file_sha256, forms_of
from dpicl.data.text_records import (
    JSON_LINES,
    PERSON,
    SUFFIXES,
    first_sentences,
    labelled_texts,
    parse_texts,
)
from dpicl.ground.cache import row_digests
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.randomness import stream
from dpicl.ground.records import below, read_bytes, utf8
from dpicl.ground.types import DataRule, PrivateTable, QueryTable, SplitTable, Violation

TRAIN, TEST = "train", "test"
"""Values of the column `part`: private texts, and those that may be asked."""


def load_texts(
    contract: TextContract,
    *,
    data_folder: Path | None,
    cache_folder: Path | None = None,
    period: str | None = None,
) -> pa.Table:
    """Private texts and those that may be asked, columns `part`, `label` and `text`: shape (texts,
    3), strings.

    Args:
        contract: of a published set, one of its parts.
        cache_folder: of downloads.
        period: of texts in deliveries, the one that is read: the others' are not.

    Raises:
        SourceError: the files are not at hand (the message says what to type); or they have neither
            the bytes of `sha256` nor the rows of the published set, in whatever order and form.
        DataError: a record breaks the contract.
    """
    paths = find_texts(contract, data_folder=data_folder, cache_folder=cache_folder)
    other = {
        part: path
        for part, path in (paths or {}).items()
        if not _has_stated_bytes(contract, part, path)
    }
    # of public queries, and before a private text is read
    if other and not contract.is_benchmark:
        raise _other_file(contract, *next(iter(other.items())))
    if contract.is_delivered:
        assert paths is not None
        public = {part: read_part(contract, part, path, path.name) for part, path in paths.items()}
        return in_one({TRAIN: _delivery(contract, data_folder, period), **public})
    if paths is None:
        sentences = first_sentences()
        where = f"{contract.name}: bundled texts"
        return in_one(
            {part: labelled_texts(sentences[part], contract, where) for part in _parts(contract)}
        )
    try:
        table = in_one(
            {part: read_part(contract, part, path, path.name) for part, path in paths.items()}
        )
    except DataError as error:
        raise (
            _other_file(contract, *next(iter(other.items())), f"; and it is refused: {error}")
            if other
            else error
        ) from None
    if other and texts_digest(table) not in row_digests().values():
        raise _other_file(contract, *next(iter(other.items())))
    return table


def _has_stated_bytes(contract: TextContract, part: str, path: Path) -> bool:
    wanted = _file(contract, part).sha256
    return wanted is None or file_sha256(path) == wanted


def _other_file(contract: TextContract, part: str, path: Path, more: str = "") -> SourceError:
    """What is said of a file that is neither the stated one nor holds the published rows."""
    edition_of = contract.edition_of
    expected = (
        accepted(edition_of.stated)
        if edition_of is not None
        else str(_file(contract, part).sha256)[:12]
    )
    same = ", or the same rows in another form" if contract.is_benchmark else ""
    return SourceError(
        f"{contract.name}: {path.name}: the file has sha256 {file_sha256(path)[:12]}, expected "
        f"{expected}{same}{more}"
    )


def _delivery(contract: TextContract, data_folder: Path | None, period: str | None) -> pa.Table:
    """The texts of one period, perhaps none. Raises SourceError: they are not delivered, or no
    period is named.
    """
    files = delivered(contract, data_folder, SUFFIXES, [] if period is None else [period])
    if period is None:
        raise SourceError(
            f"{contract.name}: its texts come in deliveries; expected the release of a period"
        )
    if (file := files.get(period)) is None:
        return parse_texts(b"", contract, f"{period}{SUFFIXES[0]}")
    path = below(data_folder or Path(), file, contract.name)
    content = read_bytes(path, part=True)
    return parse_texts(
        content, contract, path.name if content.strip() else f"{period}{SUFFIXES[0]}"
    )


def load_public_texts(
    contract: TextContract, *, data_folder: Path | None, cache_folder: Path | None = None
) -> pa.Table:
    """The texts that may be asked, columns `label` and `text`; no private one is read. Raises what
    `load_texts` does, and a SourceError where the contract has none.
    """
    if contract.evaluation != "public":
        raise SourceError(
            f"{contract.name}: it has no public texts; expected a file of them as `source.queries`"
        )
    paths = find_texts(contract, data_folder=data_folder, cache_folder=cache_folder)
    if paths is None:
        return labelled_texts(first_sentences()[TEST], contract, f"{contract.name}: bundled texts")
    if not _has_stated_bytes(contract, TEST, paths[TEST]):
        if not contract.is_benchmark:
            raise _other_file(contract, TEST, paths[TEST])
        # all of which is public
        whole = load_texts(contract, data_folder=data_folder, cache_folder=cache_folder)
        return whole.filter(pc.equal(whole.column("part"), TEST)).drop_columns("part")
    return read_part(contract, TEST, paths[TEST], paths[TEST].name)


def read_part(contract: TextContract, part: str, path: Path, name: str) -> pa.Table:
    """The texts of one file, whose name is `name`: columns `label` and `text`. Raises DataError: a
    record breaks the contract.
    """
    terms = contract
    # declared public: about no protected person
    if part == TEST and contract.source.queries is not None:
        privacy = contract.privacy.model_copy(update={"unit": "row", "person": None})
        terms = contract.model_copy(
            update={
                "privacy": privacy,
                "source": contract.source.model_copy(update={"invalid": "refuse"}),
            }
        )
    return parse_texts(read_bytes(path, part=name.endswith(JSON_LINES)), terms, name)


def in_one(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The texts of all parts, with a column `part`."""
    named = [
        table.add_column(0, "part", pa.array([part] * table.num_rows, pa.string()))
        for part, table in tables.items()
    ]
    return pa.concat_tables(named, promote_options="default")


def edition_at_hand(contract: TextContract, *, data_folder: Path | None, cache_folder: Path) -> str:
    """Which part of a published set has its files here: the first in the contract's order; the
    whole where none has.
    """
    for name in edition_names(contract):
        with suppress(SourceError):
            find_texts(edition(contract, name), data_folder=data_folder, cache_folder=cache_folder)
            return name
    return PUBLISHED


def find_texts(
    contract: TextContract, *, data_folder: Path | None, cache_folder: Path | None = None
) -> dict[str, Path] | None:
    """The file of each part, unread, but of deliveries; None where the texts come with a package.
    Downloads are looked up behind the data folder.

    Raises:
        SourceError: a file is not at hand; the message says what to type.
    """
    if contract.source.bundled is not None:
        return None
    if contract.is_delivered:
        delivered(contract, data_folder, SUFFIXES)
    paths: dict[str, Path] = {}
    for part in _parts(contract):
        folders = [data_folder] if contract.edition_of is None else [data_folder, cache_folder]
        places = (
            below(folder, file, contract.name)
            for folder in folders
            if folder is not None
            for file in _forms(contract, part)
        )
        path = next((place for place in places if place.exists()), None)
        if path is None:
            raise SourceError(f"{contract.name}: no texts at hand; {_how_to_get(contract, part)}")
        paths[part] = path
    return paths


def _forms(contract: TextContract, part: str) -> list[str]:
    """The paths that a file may have: of a public set, whose rows are compared, with any ending
    that can be read.
    """
    file = _file(contract, part).file
    return forms_of(file, SUFFIXES) if contract.is_benchmark else [file]


def _how_to_get(contract: TextContract, part: str) -> str:
    """What to type, or where a public set is."""
    if contract.edition_of is not None:
        return f"expected {accepted(contract.edition_of.stated)}"
    obtain = f" (where to get it: {contract.source.obtain})" if contract.source.obtain else ""
    return f"set DPICL_DATA to the folder that holds {_file(contract, part).file}{obtain}"


def texts_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal: the same for any order of rows and
    columns.

    Args:
        table: columns of strings, shape (rows, columns).
    """
    names = sorted(table.column_names)
    digest = hashlib.sha256(json.dumps([1, table.num_rows, names]).encode())
    for row in sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True)):
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def _parts(contract: TextContract) -> tuple[str, ...]:
    """The parts that are read: held-out private texts are not, since they must not be asked."""
    private = () if contract.is_delivered else (TRAIN,)
    return (*private, TEST) if contract.evaluation == "public" else private


def _file(contract: TextContract, part: str) -> TextFile:
    file = (
        contract.source.train if part == TRAIN else contract.source.queries or contract.source.test
    )
    assert file is not None
    return file


_SPLIT_SEED = 0


def split_texts(table: pa.Table, contract: TextContract, *, most: int | None = None) -> SplitTable:
    """Private texts, those that may be asked, and the `query_count` of these that are; columns
    `label` and `text`.

    Protected texts answer public queries, or none.

    Args:
        table: as `load_texts` returns it.
        most: no more queries than these, the first of the contract's.

    Raises:
        DataError: there are too few texts to ask; or, in a benchmark, none to protect.
    """
    train = _part(table, TRAIN, contract)
    test = _part(table, TEST, contract)
    # a file that is merely shuffled has the same content version: its rows must then have the same
    # places
    train = train.sort_by([(name, "ascending") for name in train.column_names])
    if contract.is_benchmark and PERSON in train.column_names:
        both = len(set(train.column(PERSON).to_pylist()) & set(test.column(PERSON).to_pylist()))
        if both:  # held-out texts are not protected
            raise DataError(
                contract.name, "persons have texts in both files; expected each in one", count=both
            )
    stated = contract.query_count if contract.evaluation == "public" else 0
    query_count = stated if most is None else min(stated, most)
    if test.num_rows < query_count or (contract.is_benchmark and not train.num_rows):
        raise DataError(
            contract.name,
            f"has {test.num_rows} texts to ask; expected {query_count}, and at least one to "
            f"protect",
        )
    generator = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    queries = np.sort(generator.permutation(test.num_rows)[:query_count])
    return SplitTable(PrivateTable(train), QueryTable(test.select(["label", "text"])), queries)


def _part(table: pa.Table, part: str, contract: TextContract) -> pa.Table:
    rows = table.filter(pc.equal(table.column("part"), part))
    texts = [text[: contract.max_characters].rstrip() for text in rows.column("text").to_pylist()]
    persons = {PERSON: rows.column(PERSON)} if PERSON in rows.column_names else {}
    return pa.table(
        {"label": rows.column("label"), "text": pa.array(texts, pa.string()), **persons}
    )


def text_rules(contract: TextContract) -> tuple[DataRule, ...]:
    """The rules of every set of texts, in a fixed order; `known_labels` only where labels are a
    public list.
    """
    known = DataRule(
        "known_labels", "label", "fail", None, "label holds only labels of the contract"
    )
    return (
        DataRule("no_empty", "label", "fail", None, "label is never empty"),
        DataRule("no_empty", "text", "fail", None, "text is never empty"),
        *([known] if contract.is_classification else []),
        DataRule(
            "text_length",
            "text",
            "warn",
            None,
            f"text has at most {contract.max_characters} characters; longer ones are cut",
        ),
    )


def text_violations(table: pa.Table, contract: TextContract) -> tuple[Violation, ...]:
    """The broken rules of a table, in the order of `text_rules`.

    Args:
        table: as `load_texts` returns it, shape (texts, 3).
    """
    violations = []
    for rule in text_rules(contract):
        values = pc.fill_null(table.column(rule.column), "")
        if rule.rule == "no_empty":
            broken = pc.equal(values, "")
        elif rule.rule == "known_labels":
            broken = pc.invert(pc.is_in(values, pa.array(contract.demonstrated, pa.string())))
        else:
            assert rule.rule == "text_length", rule.rule
            broken = pc.greater(pc.utf8_length(values), contract.max_characters)
        if count := int(pc.sum(broken).as_py() or 0):
            violations.append(Violation(rule, count))
    return tuple(violations)


_CLOSED = r"""[\s"'`”’)\]]*$"""
_ENDS: dict[Form, re.Pattern[str]] = {
    "question": re.compile(r"\?" + _CLOSED),
    "sentence": re.compile(r"[.!?…]" + _CLOSED),
}
"""What a text of each form ends with, before quotes and brackets that are closed."""


def has_form(text: str, form: Form) -> bool:
    """Whether it ends so, and holds a letter."""
    return _ENDS[form].search(text) is not None and any(character.isalpha() for character in text)


@dataclass(frozen=True)
class Formed:
    """How many of some released texts have the form."""

    form: Form
    having: int
    texts: int

    @staticmethod
    def of(texts: Iterable[str], form: Form) -> Formed:
        """Of these texts."""
        having = [has_form(text, form) for text in texts]
        return Formed(form, sum(having), len(having))

    def __str__(self) -> str:
        return (
            f"{self.having} of {self.texts} texts {'is' if self.having == 1 else 'are'} "
            f"{FORM_WORDS[self.form]}"
        )


FORM_WORDS: dict[Form, str] = {"question": "a question", "sentence": "a whole sentence"}
"""As people read it, of one text."""
_KEYS = ("company", "date", "address", "total")
_COORDINATES, _HELD_OUT = 8, 5


def receipts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Records by part. Raises SourceError: a folder or file is missing or is of another form;
    DataError: a file is none of UTF-8.
    """
    boxes = sorted((folder / "box").glob("*.csv"))
    if not boxes:
        raise SourceError(
            f"{folder.name}: has no receipts; expected a folder with box/*.csv and key/*.json"
        )
    records: dict[str, list[dict[str, Any]]] = {TRAIN: [], TEST: []}
    seen: set[str] = set()
    for box in boxes:
        key = folder / "key" / f"{box.stem}.json"
        try:
            lines = [line for line in utf8(read_bytes(box), box.name).splitlines() if line.strip()]
            document = "\n".join(line.split(",", _COORDINATES)[_COORDINATES] for line in lines)
            stated = json.loads(utf8(read_bytes(key), key.name))
            answers = {name: stated.get(name) or None for name in _KEYS}
            part = TEST if int(box.stem) % _HELD_OUT == _HELD_OUT - 1 else TRAIN
        except (OSError, ValueError, IndexError, AttributeError):
            raise SourceError(
                f"{folder.name}: {box.stem}: is of another form; expected box/NUMBER.csv and "
                f"key/NUMBER.json"
            ) from None
        if (words := "".join(document.split())) not in seen:
            seen.add(words)
            records[part].append({"id": box.stem, "document": document, **answers})
    return records
