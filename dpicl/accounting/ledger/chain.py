"""The hash chain: every change of the ledger as a record that hangs on the one before it.

    hash_n = HMAC(key, n, hash_(n-1), kind_n, content_n)

Without the key nobody can write a record that fits, and the records alone say what the other
tables must hold. `verify` compares all three: hashes, tables, and (by its caller) the anchor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select, update

from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.keys import canonical, keyed_hash
from dpicl.accounting.ledger.models import accounts, entries, head, records
from dpicl.errors import LedgerRefusedError

Kind = Literal["opened", "cap", "reserved", "published"]
Rows = dict[str, dict[str, Any]]
_BATCH = 1000


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """The end of the chain; `lock` keeps other writers away until the transaction ends."""
    asked = select(head.c.sequence, head.c.hash)
    row = connection.execute(asked.with_for_update() if lock else asked).one_or_none()
    if row is None:
        raise LedgerRefusedError("the ledger was edited: the end of its chain is missing")
    return Head(row.sequence, row.hash)


def hash_at(connection: Connection, sequence: int) -> str | None:
    """The stored hash of a record."""
    return connection.execute(select(records.c.hash).where(records.c.sequence == sequence)).scalar()


def link(key: bytes, before: Head, kind: str, content: str) -> Head:
    """The head after one more record."""
    sequence = before.sequence + 1
    return Head(sequence, keyed_hash(key, "record", sequence, before.hash, kind, content))


def append(connection: Connection, key: bytes, before: Head, kind: Kind, content: Mapping[str, Any]) -> Head:
    """Add a record after `before`, which the caller has read under lock."""
    written = canonical(content)
    after = link(key, before, kind, written)
    connection.execute(insert(records).values(sequence=after.sequence, kind=kind, content=written, hash=after.hash))
    connection.execute(update(head).values(sequence=after.sequence, hash=after.hash))
    return after


def check_end(connection: Connection, key: bytes, end: Head) -> None:
    """Recompute the last hash only: finds a wrong key, and edits of the last record.

    Raises:
        LedgerRefusedError: it does not fit.
    """
    if end == Head():
        return
    last = connection.execute(select(records).where(records.c.sequence == end.sequence)).one_or_none()
    before = Head(end.sequence - 1, (hash_at(connection, end.sequence - 1) or "") if end.sequence > 1 else "")
    if last is None or link(key, before, last.kind, last.content) != end or last.hash != end.hash:
        raise LedgerRefusedError(f"record {end.sequence}, the ledger's last, does not fit: it was edited, or the key is another one")


def verify(connection: Connection, key: bytes, end: Head) -> None:
    """Recompute every hash, and compare every row with what the chain says.

    Raises:
        LedgerRefusedError: naming the first record or row that does not fit.
    """
    opened: Rows = {}
    released: Rows = {}
    reached = Head()
    for row in _all_records(connection):
        reached = link(key, reached, row.kind, row.content)
        if (row.sequence, row.hash) != (reached.sequence, reached.hash):
            raise LedgerRefusedError(f"the ledger was edited: record {row.sequence} does not follow record {reached.sequence - 1}")
        _replay(row.kind, json.loads(row.content), opened, released)
    if reached != end:
        raise LedgerRefusedError(f"the ledger was edited: its chain ends at record {reached.sequence}, its head says {end.sequence}")
    _compare("account", opened, {row.name: dict(row._mapping) for row in connection.execute(select(accounts))})
    _compare("entry", released, {row.release_id: dict(row._mapping) for row in connection.execute(select(entries))})


def _all_records(connection: Connection) -> Iterator[Row[Any]]:
    asked = select(records).order_by(records.c.sequence).execution_options(yield_per=_BATCH)
    return iter(connection.execute(asked))


def _replay(kind: str, content: dict[str, Any], opened: Rows, released: Rows) -> None:
    """Do to the rows what the record says was done."""
    if kind == "opened":
        opened[content["name"]] = content
    elif kind == "cap":
        opened[content["account"]] |= {"epsilon_cap": content["epsilon_cap"], "delta_cap": content["delta_cap"]}
    elif kind == "reserved":
        released[content["release_id"]] = {**content, "artefact_sha256": None, "published_utc": None}
    else:
        released[content["release_id"]] |= {"artefact_sha256": content["artefact_sha256"], "published_utc": content["published_utc"]}


def _compare(what: str, said: Rows, found: Rows) -> None:
    if said.keys() != found.keys():
        missing, extra = len(said.keys() - found.keys()), len(found.keys() - said.keys())
        raise LedgerRefusedError(f"the ledger was edited: of its rows of kind {what!r} {missing} are missing and {extra} were added")
    for name, row in said.items():
        if canonical(row) != canonical(found[name]):
            raise LedgerRefusedError(f"the ledger was edited: {what} {name} is not what the chain says")
