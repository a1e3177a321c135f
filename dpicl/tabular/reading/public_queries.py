"""Queries of a table with something at stake: a file that its contract declares public, with the contract's columns and the right answers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.contract.sources import QueryFile
from dpicl.errors import SourceError
from dpicl.files.bounded import below
from dpicl.tabular.reading.read import read_table


def load_queries(contract: Contract, *, data_folder: Path | None) -> pa.Table | None:
    """The rows of the contract's `queries`, typed as the source's are, without anybody's id; None where it has none.

    Raises:
        SourceError: the file is not at hand (the message says what to type), or not that of `sha256`.
        DataError: the file breaks the contract.
    """
    path = find_queries(contract, data_folder=data_folder)
    if path is None or contract.queries is None:
        return None
    _verify(path, contract.queries, contract.name)
    return read_table(path, _of_nobody(contract))


def find_queries(contract: Contract, *, data_folder: Path | None) -> Path | None:
    """The file, unread; None where the contract has none.

    Raises:
        SourceError: it is not at hand; the message says what to type.
    """
    if contract.queries is None:
        return None
    path = None if data_folder is None else below(data_folder, contract.queries.file, contract.name)
    if path is None or not path.exists():
        raise SourceError(f"{contract.name}: no queries at hand; set DPICL_DATA to the folder that holds {contract.queries.file}")
    return path


def _verify(path: Path, declared: QueryFile, name: str) -> None:
    if declared.sha256 is None:
        return
    with path.open("rb") as opened:
        actual = hashlib.file_digest(opened, "sha256").hexdigest()
    if actual != declared.sha256:
        raise SourceError(f"{name}: {path.name}: the file has sha256 {actual[:12]}, expected {declared.sha256[:12]}")


def _of_nobody(contract: Contract) -> Contract:
    """The contract for rows that protect nobody: a person's id need not be there, and is dropped where it is."""
    person = contract.privacy.person
    if person is None:
        return contract
    privacy = contract.privacy.model_copy(update={"unit": "row", "person": None})
    source = contract.source.model_copy(update={"ignore": (*contract.source.ignore, person.id_column)})
    return contract.model_copy(update={"privacy": privacy, "source": source})
