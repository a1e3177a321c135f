"""The hash chain: every change of the ledger as a record that hangs on the one before it, and the
transaction that adds one.

    hash_n = HMAC(key, n, hash_(n-1), kind_n, content_n)

Without the key no record that fits can be written, and the records alone say what the other
tables must hold; `verify` compares all of them. One lock serialises all changes: the end of the
chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, insert, select, update

from dpicl.accounting.ledger import seals
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.database import Database, lock_rows
from dpicl.accounting.ledger.keys import canonical, keyed_hash
from dpicl.accounting.ledger.models import BATCH, head, records, totals
from dpicl.accounting.ledger.replay import ReplayedRows
from dpicl.accounting.ledger.rows import LedgerState, digest_of, read_state
from dpicl.accounting.ledger.witness import Seen, Witness, WitnessedAccount
from dpicl.errors import LedgerRefusedError

RecordKind = Literal[
    "opened",
    "cap",
    "bound",
    "adopted",
    "restored",
    "reserved",
    "drawing",
    "taken_up",
    "published",
]
WAY_OUT = (
    "; if that is lost, `dpicl state restore` with its backup, or `dpicl ledger adopt`, which "
    "rebuilds what was spent from the receipts: both "
    "after ledger.db is put aside, with its -wal and -shm"
)
# A statement that stands is built and compiled once.
_HEAD, _HASH = (
    select(head.c.sequence, head.c.hash),
    select(records.c.hash).where(records.c.sequence == bindparam("sequence")),
)
_FIRST = select(records.c.sequence).order_by(records.c.sequence).limit(1)
_SPENT = select(totals.c.account).limit(1)
_SPEND_NOTHING = ("opened", "bound")
_LOCKED, _RECORD = (
    _HEAD.with_for_update(),
    select(records).where(records.c.sequence == bindparam("sequence")),
)


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """The end of the chain; `lock` keeps other writers away until the transaction ends."""
    row = connection.execute(_LOCKED if lock else _HEAD).one_or_none()
    if row is None:
        raise LedgerRefusedError("the ledger was edited: the end of its chain is missing")
    return Head(row.sequence, row.hash)


def hash_at(connection: Connection, sequence: int) -> str | None:
    """The stored hash of a record."""
    return connection.execute(_HASH, {"sequence": sequence}).scalar()


def check_seen(
    connection: Connection, seen: Head, end: Head, expected: str = "the newer database"
) -> None:
    """Compare what an anchor has seen with the end of the chain, read no earlier than the anchor.
    Raises LedgerRefusedError: the chain ends before the anchor, or holds another record there.
    """
    if seen.sequence > end.sequence:
        raise LedgerRefusedError(
            f"the ledger was rolled back: it ends at record {end.sequence}, but this host has "
            f"seen record {seen.sequence}; expected {expected}"
        )
    stored = end.hash if seen.sequence == end.sequence else hash_at(connection, seen.sequence)
    if seen.sequence and stored != seen.hash:
        raise LedgerRefusedError(
            f"the ledger was rolled back or edited: its record {seen.sequence} is not the one "
            f"that this host has seen; expected {expected}"
        )


def check_witness(connection: Connection, seen: Seen | None, end: Head) -> None:
    """The same of what the user's witness has seen, in the state home that was used last. A ledger
    that was made anew since begins later.
    """
    if seen is None:
        return
    begins = connection.execute(_FIRST).scalar()
    if begins is None or begins <= seen.head.sequence:
        check_seen(
            connection, seen.head, end, f"{seen.home} as it was when it was used last{WAY_OUT}"
        )


def link(key: bytes, before: Head, kind: str, content: str) -> Head:
    """The head after one more record."""
    sequence = before.sequence + 1
    return Head(sequence, keyed_hash(key, "record", sequence, before.hash, kind, content))


def append(
    connection: Connection,
    key: bytes,
    before: Head,
    kind: RecordKind,
    content: Mapping[str, Any],
    state: LedgerState | None = None,
) -> Head:
    """Add a record after `before`, which the caller has read under lock; `state` is what the tables
    hold now, where that was read.
    """
    written = canonical(
        {**content, "state": digest_of(read_state(connection) if state is None else state)}
    )
    after = link(key, before, kind, written)
    connection.execute(
        insert(records).values(sequence=after.sequence, kind=kind, content=written, hash=after.hash)
    )
    connection.execute(update(head).values(sequence=after.sequence, hash=after.hash))
    return after


def check_end(connection: Connection, key: bytes, end: Head) -> dict[str, Any]:
    """Recompute the last hash only: finds a wrong key, and edits of the last record; gives its
    content. Raises LedgerRefusedError: it does not fit.
    """
    if end == Head():
        return {}
    return check_record(
        connection,
        key,
        end.sequence,
        f"record {end.sequence}, the ledger's last, does not fit",
        end.hash,
    )


def check_record(
    connection: Connection, key: bytes, sequence: int, complaint: str = "", expected: str = ""
) -> dict[str, Any]:
    """Recompute one hash from the one before it; gives the record's content. Raises
    LedgerRefusedError: it does not fit.
    """
    row = connection.execute(_RECORD, {"sequence": sequence}).one_or_none()
    before = Head(sequence - 1, hash_at(connection, sequence - 1) or "")
    if (
        row is None
        or link(key, before, row.kind, row.content).hash != row.hash
        or (expected and row.hash != expected)
    ):
        raise LedgerRefusedError(
            f"{complaint or f'record {sequence} does not fit'}: it was edited, or the key is "
            f"another one"
        )
    content: dict[str, Any] = json.loads(row.content)
    return content


def check_state(connection: Connection, end: Head, last: Mapping[str, Any]) -> None:
    """Raises LedgerRefusedError: the small tables, or the root of the seals, are not what the
    chain's last record says.
    """
    state = read_state(connection)
    if any(state.values()) if end == Head() else digest_of(state) != last.get("state"):
        raise LedgerRefusedError(
            f"the ledger was edited: its accounts, assets, totals or seals are not what its last "
            f"record, {end.sequence}, says"
        )


class Change:
    """A transaction that may add to the chain."""

    def __init__(
        self,
        connection: Connection,
        key: bytes,
        anchor: Anchor,
        witness: Witness | None,
        until_told: ExitStack,
    ) -> None:
        self.connection, self.key, self._anchor, self._witness = connection, key, anchor, witness
        self.end, self.appended = Head(), False
        self._until_told, self._is_held, self._was_spent, self._tells = (
            until_told,
            False,
            False,
            False,
        )
        self._state: LedgerState = {}

    def lock(self, *release_ids: str) -> None:
        """Lock the end of the chain until the transaction ends; it is checked against the anchor,
        the key, the accounts and these releases.

        Call it before anything is read that a change hangs on.
        Raises LedgerRefusedError: the ledger was rolled back or edited.
        """
        last = self.lock_chain()
        check_state(self.connection, self.end, last)
        seals.check(self.connection, *release_ids)

    def lock_chain(self) -> dict[str, Any]:
        """The same, without the accounts; gives the content of the last record."""
        self.end = read_head(self.connection, lock=True)
        lock_rows(self.connection)
        check_seen(self.connection, self._anchor.read(), self.end)
        if self._witness is not None and self._witness.is_there:
            self._hold(self._witness)
            check_witness(self.connection, self._witness.read(), self.end)
        else:
            self._was_spent = self.connection.execute(_SPENT).first() is not None
        return check_end(self.connection, self.key, self.end)

    def others(self) -> list[WitnessedAccount]:
        """Accounts of this user's other ledgers: no other process adds to them until this change is
        told.
        """
        if self._witness is None:
            return []
        self._hold(self._witness)
        return list(self._witness.others())

    def _hold(self, witness: Witness) -> None:
        if not self._is_held:
            self._until_told.enter_context(witness.held())
            self._is_held = True

    def append(self, kind: RecordKind, content: Mapping[str, Any], *release_ids: str) -> None:
        """Add a record, and seal the changed rows of these releases; the chain is locked."""
        seals.seal(self.connection, *release_ids)
        self._state = read_state(self.connection)
        self.end = append(self.connection, self.key, self.end, kind, content, self._state)
        self.appended, self._tells = True, self._tells or kind not in _SPEND_NOTHING

    def tell(self) -> None:
        """Let the anchor, and the witness of a ledger in which something is spent, see what is
        durable now.
        """
        self._anchor.advance(self.end)
        if self._witness is not None and self._tells and self._state["totals"]:
            self._hold(self._witness)
            self._witness.advance(self.end, self._state, was_spent=self._was_spent)


@contextmanager
def changing(
    database: Database, key: bytes, anchor: Anchor, witness: Witness | None = None
) -> Iterator[Change]:
    """A durable transaction, all or nothing; anchor and witness move only after what they remember
    is durable.
    """
    with ExitStack() as until_told:
        with database.writing() as connection:
            change = Change(connection, key, anchor, witness, until_told)
            yield change
        if change.appended:
            change.tell()


def true_content(key: bytes, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a record of a receipt says; None where the key tells that it is no true one."""
    try:
        before = Head(int(record["sequence"]) - 1, record["before"])
        is_true = link(key, before, record["kind"], record["content"]).hash == record["hash"]
        content = json.loads(record["content"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return content if is_true and isinstance(content, dict) else None


def verify(connection: Connection, key: bytes, end: Head) -> None:
    """Recompute every hash, and compare every row with what the chain says.
    Raises LedgerRefusedError: naming the first record or row that does not fit.
    """
    replay, reached, last = ReplayedRows(), Head(), dict[str, Any]()
    told = select(records.c.sequence, records.c.kind, records.c.content, records.c.hash).order_by(
        records.c.sequence
    )
    for sequence, kind, content, its_hash in connection.execute(
        told.execution_options(yield_per=BATCH)
    ):
        if kind == "adopted" and reached == Head():
            reached = Head(sequence - 1)  # what was before it is lost, and its number says how much
        reached = link(key, reached, kind, content)
        if (sequence, its_hash) != (reached.sequence, reached.hash):
            raise LedgerRefusedError(
                f"the ledger was edited: record {sequence} does not follow record "
                f"{reached.sequence - 1}"
            )
        last = json.loads(content)
        replay.record(kind, last)
    if reached != end:
        raise LedgerRefusedError(
            f"the ledger was edited: its chain ends at record {reached.sequence}, its head says "
            f"{end.sequence}"
        )
    replay.compare(connection)
    # the root among it: the shape of the tree is the stored one's
    check_state(connection, end, last)
    stored = seals.stored(connection)
    if stored != seals.expected(connection, stored):
        raise LedgerRefusedError("the ledger was edited: its seals are not those of its entries")
