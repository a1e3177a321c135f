"""Where the texts of a contract come from, and reading them: two files, or a bundled set.

Long texts are kept whole here, so that a check can count them; `split` cuts them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa

from dpicl.contract.text import TextContract, TextFile
from dpicl.errors import SourceError
from dpicl.files.bounded import below, read_bytes
from dpicl.text.docstrings import first_sentences
from dpicl.text.parse import labelled_texts, parse_texts

TRAIN, TEST = "train", "test"
"""Values of the column `part`: private texts, and those that may be asked."""


def load_texts(contract: TextContract, *, data_folder: Path | None) -> pa.Table:
    """Private texts and those that may be asked, columns `part`, `label` and `text`: shape (texts, 3), strings.

    Raises:
        SourceError: the files are not at hand (the message says what to type), or not those of `sha256`.
        DataError: a record breaks the contract.
    """
    paths = find_texts(contract, data_folder=data_folder)
    if paths is None:
        sentences = first_sentences()
        where = f"{contract.name}: bundled texts"
        tables = {part: labelled_texts(sentences[part], contract, where) for part in _parts(contract)}
    else:
        tables = {}
        for part, path in paths.items():
            data, wanted, terms = read_bytes(path), _file(contract, part).sha256, contract
            if wanted is not None:
                with path.open("rb") as opened:
                    actual = hashlib.file_digest(opened, "sha256").hexdigest()
                if actual != wanted:
                    raise SourceError(f"{contract.name}: {path.name}: the file has sha256 {actual[:12]}, expected {wanted[:12]}")
            if part == TEST and contract.source.queries is not None:  # declared public: about no protected person
                privacy = contract.privacy.model_copy(update={"unit": "row", "person": None})
                terms = contract.model_copy(update={"privacy": privacy})
            tables[part] = parse_texts(data, terms, path.name)
    named = [table.add_column(0, "part", pa.array([part] * table.num_rows, pa.string())) for part, table in tables.items()]
    return pa.concat_tables(named, promote_options="default")


def find_texts(contract: TextContract, *, data_folder: Path | None) -> dict[str, Path] | None:
    """The file of each part, unread; None where the texts come with a package.

    Raises:
        SourceError: a file is not at hand; the message says what to type.
    """
    if contract.source.bundled is not None:
        return None
    paths: dict[str, Path] = {}
    for part in _parts(contract):
        file = _file(contract, part).file
        path = None if data_folder is None else below(data_folder, file, contract.name)
        if path is None or not path.exists():
            raise SourceError(f"{contract.name}: no texts at hand; set DPICL_DATA to the folder that holds {file}")
        paths[part] = path
    return paths


def texts_digest(table: pa.Table) -> str:
    """SHA-256 of the rows as a multiset, in hexadecimal: the same for any order of rows and columns.

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
    return (TRAIN, TEST) if contract.evaluation == "public" else (TRAIN,)


def _file(contract: TextContract, part: str) -> TextFile:
    file = contract.source.train if part == TRAIN else contract.source.queries or contract.source.test
    assert file is not None
    return file
