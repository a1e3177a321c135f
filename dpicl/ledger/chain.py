"""The chain of records: which of them are true, and what is checked before anything is believed.

    hash_n = HMAC(key, n, hash_(n-1), kind_n, content_n)

Without the key no record that fits can be written. Every change locks the chain, checks its end
under the key and against what anchor and witness have seen outside the database, follows the
records that others have added, decides by what all records say (`fold`), and adds a record. A
record that a process has followed is not read again: an edit of it is not believed there, and is
refused where the chain is followed from its beginning.

Every thousand records, what they say is stored in the table `folded`, under a keyed hash of it and
of the heads that it lies between: opening a long ledger takes these parts, and follows the records
after them. `verify` goes by the records alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from sqlalchemy import URL, Connection, bindparam, insert, select

from dpicl.ground.errors import LedgerRefusedError
from dpicl.ledger.database import Database, folded, lock_chain, records
from dpicl.ledger.fold import Fold
from dpicl.ledger.keys import Anchor, Head, canonical, keyed_hash
from dpicl.ledger.witness import Seen, Witness, WitnessedAccount

PART = 1000
"""Records of which it is stored at once what they say."""
_ASIDE = "after ledger.db is put aside, with its -wal and -shm"
_WAY_OUT = (
    "; if that is lost, `dpicl state restore` with its backup, or `dpicl ledger adopt`, which "
    f"rebuilds what was spent from the receipts: both {_ASIDE}"
)
_SPEND_NOTHING = {"opened", "bound"}
# A statement that stands is built and compiled once.
_LAST = select(records).order_by(records.c.sequence.desc()).limit(2)
_ADD = insert(records)
_HASH = select(records.c.hash).where(records.c.sequence == bindparam("sequence"))
_FIRST = select(records.c.sequence).order_by(records.c.sequence).limit(1)
_PARTS = select(folded).where(folded.c.sequence <= bindparam("end")).order_by(folded.c.sequence)
_LAST_PART = select(folded.c.sequence, folded.c.hash).order_by(folded.c.sequence.desc()).limit(1)
_BETWEEN = (
    select(records)
    .where(records.c.sequence > bindparam("after"), records.c.sequence <= bindparam("end"))
    .order_by(records.c.sequence)
    .execution_options(yield_per=PART)
)


def link(key: bytes, before: Head, kind: str, content: str) -> Head:
    """The head after one more record."""
    sequence = before.sequence + 1
    return Head(sequence, keyed_hash(key, "record", sequence, before.hash, kind, content))


def true_content(key: bytes, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a record of a receipt says; None where the key tells that it is no true one."""
    try:
        before = Head(int(record["sequence"]) - 1, record["before"])
        is_true = link(key, before, record["kind"], record["content"]).hash == record["hash"]
        content = json.loads(record["content"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return content if is_true and isinstance(content, dict) else None


# What is compared before anything is believed.


def read_end(connection: Connection, key: bytes | None) -> Head:
    """The end of the chain, whose hash is computed again where there is a key: this finds a wrong
    one, and edits of the last record. Raises LedgerRefusedError: it does not fit.
    """
    last = connection.execute(_LAST).all()
    if not last:
        return Head()
    row = last[0]
    before = last[1].hash if len(last) > 1 else ""
    if key and link(key, Head(row.sequence - 1, before), row.kind, row.content).hash != row.hash:
        raise LedgerRefusedError(
            f"record {row.sequence}, the ledger's last, does not fit: it was edited, or the key is "
            f"another one"
        )
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
    if not _holds(connection, seen, end):
        raise LedgerRefusedError(
            f"the ledger was rolled back or edited: its record {seen.sequence} is not the one "
            f"that this host has seen; expected {expected}"
        )


def _holds(connection: Connection, seen: Head, end: Head) -> bool:
    """Whether a chain that ends here has the record that was seen."""
    if seen.sequence >= end.sequence:
        return not seen.sequence or seen == end
    return not seen.sequence or hash_at(connection, seen.sequence) == seen.hash


def check_witness(
    connection: Connection, seen: Seen | None, fold: Fold, was_read: str = ""
) -> None:
    """The same of what the user's witness has seen, in the state home that was used last. A ledger
    that was made anew since begins later, and a record under the key says so. One that a restore
    has closed spends nothing, and is read beside the one in use.
    """
    if seen is None or (seen.is_elsewhere and fold.is_closed):
        return
    begins = min(connection.execute(_FIRST).scalar() or 0, fold.anew.sequence)
    if begins > seen.head.sequence:
        return
    if not seen.is_elsewhere:
        way_out = f"{seen.home} as it was when it was used last{_WAY_OUT}{was_read}"
        check_seen(connection, seen.head, fold.head, way_out)
    elif not _holds(connection, seen.head, fold.head):
        raise LedgerRefusedError(
            f"the ledger was rolled back, or a copy of it went on: here it ends at record "
            f"{fold.head.sequence}, and {seen.home}, restored or copied from the same ledger, was "
            f"used last and has record {seen.head.sequence}; expected DPICL_HOME={seen.home}; or, "
            f"to go on here, `dpicl ledger adopt` {_ASIDE}: it rebuilds what was spent from the "
            "receipts here, and from then on the other one is refused"
        )


# What the true records say.


def follow(connection: Connection, key: bytes | None, fold: Fold, end: Head) -> None:
    """Take all records up to this end. Raises LedgerRefusedError: naming the first that does not
    follow, or that the chain no longer holds what was taken before.
    """
    check_seen(connection, fold.head, end)
    if fold.head == end:
        return
    between = {"after": fold.head.sequence, "end": end.sequence}
    for sequence, kind, content, its_hash in connection.execute(_BETWEEN, between):
        if kind == "adopted" and fold.head == Head():
            fold.head = Head(sequence - 1)  # what was before is lost; its number says how much
        after = Head(sequence, its_hash)
        if key is not None and after != link(key, fold.head, kind, content):
            raise LedgerRefusedError(
                f"the ledger was edited: record {sequence} does not follow record "
                f"{fold.head.sequence}"
            )
        try:
            fold.take(after, kind, json.loads(content))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise LedgerRefusedError(
                f"the ledger was edited: record {sequence} is none that dpicl writes"
            ) from None


def folded_up_to(connection: Connection, key: bytes | None, end: Head) -> Fold:
    """What all records up to this end say, by the stored parts as far as there are. Without a key
    nothing is checked, and no part is taken. Raises LedgerRefusedError: as `follow`; or a part was
    edited.
    """
    fold = Fold()
    if key is not None:
        for row in connection.execute(_PARTS, {"end": end.sequence}):
            after = Head(row.sequence, row.hash)
            if row.code != _code(key, fold.head, after, row.content):
                raise LedgerRefusedError(
                    f"the ledger was edited: what is stored of its records up to {row.sequence} is "
                    f"not what they say"
                )
            fold.merge(after, row.content)
    fold.stored = fold.head
    follow(connection, key, fold, end)
    return fold


def _code(key: bytes, before: Head, after: Head, content: str) -> str:
    heads = (before.sequence, before.hash, after.sequence, after.hash)
    return keyed_hash(key, "fold", *heads, content)


def verify(connection: Connection, key: bytes, end: Head) -> Fold:
    """What all records say, by themselves from the first one on; the stored parts are compared with
    it. Raises LedgerRefusedError: naming the first that does not fit.
    """
    fold = Fold()
    follow(connection, key, fold, end)
    if fold != folded_up_to(connection, key, end):
        raise LedgerRefusedError(
            "the ledger was edited: what is stored of its records is not what they say"
        )
    return fold


@dataclass
class Change:
    """A transaction that may add to the chain, which is locked: what all records say, and accounts
    of this user's other ledgers.
    """

    connection: Connection
    key: bytes
    fold: Fold
    others: Callable[[], list[WitnessedAccount]] = list
    kinds: list[str] = field(default_factory=list)

    def append(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add a record after the last."""
        self.kinds.append(kind)
        written = canonical(content)
        after = link(self.key, self.fold.head, kind, written)
        self.connection.execute(_ADD, {**vars(after), "kind": kind, "content": written})
        self.fold.take(after, kind, json.loads(written))

    def store(self) -> None:
        """Store what the records say since that was stored, once they are many."""
        fold = self.fold
        if not self.kinds or fold.head.sequence - fold.stored.sequence < PART:
            return
        last = Head(*(self.connection.execute(_LAST_PART).one_or_none() or ()))
        if last.sequence < fold.stored.sequence:
            return  # somebody removed a part: what has changed since the one before is not known
        fold.stored = last  # another process may have stored one
        if fold.head.sequence - last.sequence >= PART:
            content = fold.as_json()
            code = _code(self.key, last, fold.head, content)
            row = {**vars(fold.head), "content": content, "code": code}
            self.connection.execute(insert(folded).values(row))
            fold.stored = fold.head


class _Tried(Change):
    """The same, of which nothing is stored: accounts are opened for who asks."""

    def append(self, kind: str, content: Mapping[str, Any]) -> None:
        """Follow a record that stands nowhere."""
        assert kind in _SPEND_NOTHING | {"cap", "shares"}, kind
        written = canonical(content)
        self.fold.take(link(self.key, self.fold.head, kind, written), kind, json.loads(written))


_followed_before: dict[tuple[str, bytes | None], Fold] = {}
"""The fold of the ledger that was closed last, by its address and key: where that one is opened
again in this process, only records that were added since are read.
"""


class Chain:
    """The chain of an open ledger, and what it says, followed by one thread at a time. Without a
    key nothing is checked, and nothing can be changed.
    """

    def __init__(
        self,
        url: str | URL,
        key: bytes | None,
        anchor_file: Path,
        witness: Witness | None,
        named: str = "",
    ) -> None:
        self.database = Database(url)
        self.was_read = f"; {self.place} was read{named and f', {named}'}"
        self.key = key
        self.anchor = Anchor(anchor_file)
        self.witness = witness
        self._alone = RLock()
        self._name = (str(url), key)
        self._fold = _followed_before.pop(self._name, None)

    @property
    def place(self) -> str:
        """The path of its file, or its database without a password."""
        return self.database.name.removeprefix("sqlite:///")

    def close(self) -> None:
        """Let go of the database; who opens it next in this process goes on from here."""
        self.database.close()
        if self._fold is not None and self.key is not None:
            _followed_before.clear()
            _followed_before[self._name] = self._fold

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """What all records say that are durable now."""
        with self._alone, self.database.reading() as connection:
            self._fold = fold = self._followed(connection, read_end(connection, None))
            yield fold

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """A durable transaction, all or nothing; anchor and witness move only after what they
        remember is durable. Raises LedgerRefusedError: the ledger was rolled back or edited.
        """
        assert self.key is not None
        with ExitStack() as until_told:
            until_told.enter_context(self._alone)
            held = list[Witness]()

            def hold() -> list[Witness]:
                """Let no other process of this user write a witness meanwhile."""
                if self.witness is not None and not held:
                    until_told.enter_context(self.witness.held())
                    held.append(self.witness)
                return held

            change = None
            try:
                with self.database.writing() as connection:
                    lock_chain(connection)
                    seen = self.anchor.read()
                    witnessed = None
                    if self.witness is not None and self.witness.is_there:
                        hold()
                        witnessed = self.witness.read()
                    fold = self._followed(connection, self._end(connection, seen))
                    check_witness(connection, witnessed, fold, self.was_read)
                    was_unseen = fold.has_spent and witnessed is None
                    was_closed = fold.is_closed
                    change = Change(
                        connection,
                        self.key,
                        fold,
                        lambda: [account for witness in hold() for account in witness.others()],
                    )
                    yield change
                    change.store()
            except BaseException:
                if change is not None and not change.kinds:  # else it holds what is not durable
                    self._fold = change.fold
                raise
            self._fold = fold
            if change.kinds:
                self.anchor.advance(fold.head, seen)
            if fold.has_spent and {*change.kinds} - _SPEND_NOTHING:
                opened = was_closed and not fold.is_closed
                for witness in hold():
                    if opened or not fold.is_closed:
                        witness.advance(fold, replace=opened, was_spent=was_unseen)

    def check(self, *, whole: bool = False) -> int:
        """Compare the end of the chain with everything outside of it, and follow its records, with
        `whole` all of them from the first one on; gives the number of the last. Blocks no writer.
        Raises LedgerRefusedError: naming the first that was edited, or that it was rolled back.
        """
        seen = self.anchor.read()
        witnessed = None if self.witness is None else self.witness.read()
        with self.database.reading() as connection:
            end = self._end(connection, seen)
            if whole:
                fold = verify(connection, self.key or b"", end)
                check_witness(connection, witnessed, fold, self.was_read)
            else:
                with self._alone:
                    head = Head() if self._fold is None else self._fold.head
                    if hash_at(connection, head.sequence) != head.hash:
                        self._fold = None  # another ledger has come to this address
                    fold = self._followed(connection, end)
                    check_witness(connection, witnessed, fold, self.was_read)
                    self._fold = fold
        self.anchor.advance(end, seen)
        return end.sequence

    def _end(self, connection: Connection, seen: Head) -> Head:
        end = read_end(connection, self.key)
        check_seen(connection, seen, end, f"the newer database{self.was_read}")
        return end

    def _followed(self, connection: Connection, end: Head) -> Fold:
        """The fold up to this end; nobody has it meanwhile, so that one which fails is dropped."""
        fold = self._fold
        self._fold = None
        if fold is None:
            return folded_up_to(connection, self.key, end)
        follow(connection, self.key, fold, end)
        return fold


class Trial(Chain):
    """What a chain says now, to which accounts may be added that nobody else sees: for a question
    that may be refused, and leaves nothing then.
    """

    def __init__(self, chain: Chain) -> None:
        self.database, self.key, self.was_read = chain.database, chain.key, chain.was_read
        self.anchor, self.witness = chain.anchor, chain.witness
        with chain.reading() as fold:
            self._tried = fold.copy()

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """The same, with what was added."""
        yield self._tried

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Add to it; nothing is stored."""
        yield _Tried(None, self.key or b"", self._tried)  # type: ignore[arg-type]
