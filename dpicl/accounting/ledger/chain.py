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

from dpicl.accounting.ledger import seals
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.keys import canonical, keyed_hash
from dpicl.accounting.ledger.models import accounts, assets, drawings, entries, head, records, totals
from dpicl.accounting.ledger.state import digest_of, is_empty, read_state
from dpicl.errors import LedgerRefusedError

Kind = Literal["opened", "cap", "bound", "settled", "adopted", "reserved", "drawing", "taken_up", "published"]
Rows = dict[str, dict[str, Any]]
_BATCH = 1000
_ENTRY = frozenset(entries.c.keys())
_TERMS = ("unit", "neighbours", "epsilon_cap", "delta_cap")


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
    written = canonical({**content, "state": digest_of(read_state(connection))})
    after = link(key, before, kind, written)
    connection.execute(insert(records).values(sequence=after.sequence, kind=kind, content=written, hash=after.hash))
    connection.execute(update(head).values(sequence=after.sequence, hash=after.hash))
    return after


def check_end(connection: Connection, key: bytes, end: Head) -> dict[str, Any]:
    """Recompute the last hash only: finds a wrong key, and edits of the last record; gives its content.

    Raises:
        LedgerRefusedError: it does not fit.
    """
    if end == Head():
        return {}
    return check_record(connection, key, end.sequence, f"record {end.sequence}, the ledger's last, does not fit", end.hash)


def check_record(connection: Connection, key: bytes, sequence: int, complaint: str = "", expected: str = "") -> dict[str, Any]:
    """Recompute one hash from the one before it; gives the record's content.

    Raises:
        LedgerRefusedError: it does not fit.
    """
    row = connection.execute(select(records).where(records.c.sequence == sequence)).one_or_none()
    before = Head(sequence - 1, hash_at(connection, sequence - 1) or "")
    if row is None or link(key, before, row.kind, row.content).hash != row.hash or (expected and row.hash != expected):
        raise LedgerRefusedError(f"{complaint or f'record {sequence} does not fit'}: it was edited, or the key is another one")
    content: dict[str, Any] = json.loads(row.content)
    return content


def check_state(connection: Connection, end: Head, last: Mapping[str, Any]) -> None:
    """Compare accounts, assets and totals with what the last record says of them.

    Raises:
        LedgerRefusedError: they were edited.
    """
    state = read_state(connection)
    if is_empty(state) if end == Head() else digest_of(state) == last.get("state"):
        return
    raise LedgerRefusedError(f"the ledger was edited: its accounts, assets or totals are not what its last record, {end.sequence}, says")


def verify(connection: Connection, key: bytes, end: Head) -> None:
    """Recompute every hash, and compare every row with what the chain says.

    Raises:
        LedgerRefusedError: naming the first record or row that does not fit.
    """
    said = Said()
    reached = Head()
    for row in _all_records(connection):
        if row.kind == "adopted" and reached == Head():
            reached = Head(row.sequence - 1)  # what was before it is lost, and its number says how much
        reached = link(key, reached, row.kind, row.content)
        if (row.sequence, row.hash) != (reached.sequence, reached.hash):
            raise LedgerRefusedError(f"the ledger was edited: record {row.sequence} does not follow record {reached.sequence - 1}")
        said.replay(row.kind, json.loads(row.content))
    if reached != end:
        raise LedgerRefusedError(f"the ledger was edited: its chain ends at record {reached.sequence}, its head says {end.sequence}")
    for what, rows, table in (
        ("account", said.accounts, accounts),
        ("entry", said.entries, entries),
        ("asset", said.assets, assets),
        ("total", said.totals, totals),
        ("begun release", said.drawings, drawings),
    ):
        first = next(iter(table.primary_key)).name
        _compare(what, rows, {row._mapping[first]: dict(row._mapping) for row in connection.execute(select(table))})
    if seals.stored(connection) != (seals.expected(connection) if said.is_sealed else {}):
        raise LedgerRefusedError("the ledger was edited: its seals are not those of its entries")


def _all_records(connection: Connection) -> Iterator[Row[Any]]:
    asked = select(records).order_by(records.c.sequence).execution_options(yield_per=_BATCH)
    return iter(connection.execute(asked))


class Said:
    """The rows that the chain says there are, by their keys."""

    def __init__(self) -> None:
        self.accounts: Rows = {}
        self.entries: Rows = {}
        self.assets: Rows = {}
        self.totals: Rows = {}
        self.drawings: Rows = {}
        self.is_sealed = False

    def replay(self, kind: str, content: dict[str, Any]) -> None:
        """Do to the rows what a record says was done."""
        self.is_sealed = self.is_sealed or "state" in content
        if kind in ("settled", "adopted"):
            self.accounts = {row["name"]: row for row in content["accounts"]}
            self.assets = {row["address"]: row for row in content["assets"]}
            self.totals = {row["account"]: row for row in content["totals"]}
            self.entries |= {row["release_id"]: row for row in content.get("entries", [])}
            self.drawings |= {row["release_id"]: {"release_id": row["release_id"]} for row in content.get("entries", [])}
        elif kind == "opened":
            self.accounts[content["name"]] = {name: value for name, value in content.items() if name != "state"}
        elif kind == "cap":
            self.accounts[content["account"]] |= {name: content[name] for name in _TERMS if name in content}
            self._replay_spent(content)
        elif kind == "bound":
            self.assets |= {address: {"address": address, "account": content["account"]} for address in content["addresses"]}
        elif kind == "drawing":
            self.drawings[content["release_id"]] = {"release_id": content["release_id"]}
        else:
            self._replay_entry(kind, content)

    def _replay_entry(self, kind: str, content: dict[str, Any]) -> None:
        release_id = content["release_id"]
        if kind == "published":
            self.entries[release_id] |= {"artefact_sha256": content["artefact_sha256"], "published_utc": content["published_utc"]}
            return
        if kind == "taken_up":
            del self.entries[content["in_place_of"]]
        self._replay_spent(content)
        own = {name: value for name, value in content.items() if name in _ENTRY}
        self.entries[release_id] = {**own, "artefact_sha256": None, "published_utc": None}

    def _replay_spent(self, content: dict[str, Any]) -> None:
        if content.get("spent"):
            self.totals[content["account"]] = {"account": content["account"], "spent": content["spent"]}


def _compare(what: str, said: Rows, found: Rows) -> None:
    if said.keys() != found.keys():
        missing, extra = len(said.keys() - found.keys()), len(found.keys() - said.keys())
        raise LedgerRefusedError(f"the ledger was edited: of its rows of kind {what!r} {missing} are missing and {extra} were added")
    for name, row in said.items():
        if canonical(row) != canonical(found[name]):
            raise LedgerRefusedError(f"the ledger was edited: {what} {name} is not what the chain says")


def records_of(connection: Connection, release_id: str) -> list[dict[str, Any]]:
    """The records that charged and published a release, with what their hashes hang on."""
    entry = connection.execute(select(entries.c.number, entries.c.artefact_sha256).where(entries.c.release_id == release_id)).one_or_none()
    if entry is None:
        return []
    found = [connection.execute(select(records).where(records.c.sequence == entry.number)).one_or_none()]
    if entry.artefact_sha256 is not None:  # mostly one of the last
        asked = select(records).where(records.c.kind == "published", records.c.content.contains(release_id, autoescape=True))
        found.append(connection.execute(asked.order_by(records.c.sequence.desc()).limit(1)).one_or_none())
    return [as_receipt(connection, row) for row in found if row is not None]


def cap_record_of(connection: Connection, account: str) -> dict[str, Any] | None:
    """The last record that changed an account's caps, with what its hash hangs on."""
    asked = select(records).where(records.c.kind == "cap").order_by(records.c.sequence.desc())
    found = (row for row in connection.execute(asked) if json.loads(row.content)["account"] == account)
    return next((as_receipt(connection, row) for row in found), None)


def as_receipt(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    """A record with the hash before it, so that the key tells that it is a true one."""
    before = hash_at(connection, row.sequence - 1) or ""
    return {"sequence": row.sequence, "before": before, "kind": row.kind, "content": row.content, "hash": row.hash}
