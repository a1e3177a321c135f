"""One change of the ledger: a durable transaction, its records, and the anchor after it.

One lock serialises all changes: the end of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from dpicl.accounting.ledger import chain, seals
from dpicl.accounting.ledger.anchor import Anchor, Head, check_seen
from dpicl.accounting.ledger.database import Database


class Change:
    """A transaction that may add to the chain."""

    def __init__(self, connection: Connection, key: bytes, anchor: Anchor) -> None:
        self.connection, self.key, self._anchor = connection, key, anchor
        self.end, self.appended = Head(), False

    def lock(self, *release_ids: str) -> Head:
        """The end of the chain, checked against the anchor, the key, the accounts and these releases; nobody moves it until the transaction ends.

        Call it before anything is read that a change hangs on.

        Raises:
            LedgerRefusedError: the ledger was rolled back or edited.
        """
        last = self.lock_chain()
        chain.check_state(self.connection, self.end, last)
        seals.check(self.connection, *release_ids)
        return self.end

    def lock_chain(self) -> dict[str, Any]:
        """The same, without the accounts; gives the content of the last record."""
        self.end = chain.read_head(self.connection, lock=True)
        check_seen(self._anchor.read(), self.end, lambda sequence: chain.hash_at(self.connection, sequence))
        return chain.check_end(self.connection, self.key, self.end)

    def append(self, kind: chain.Kind, content: Mapping[str, Any], *release_ids: str) -> None:
        """Add a record, and seal the rows of these releases, which have changed; the chain is locked."""
        seals.seal(self.connection, *release_ids)
        self.end = chain.append(self.connection, self.key, self.end, kind, content)
        self.appended = True


@contextmanager
def changing(database: Database, key: bytes, anchor: Anchor) -> Iterator[Change]:
    """All or nothing of a block; the anchor moves only after what it remembers is durable."""
    with database.writing() as connection:
        change = Change(connection, key, anchor)
        yield change
    if change.appended:
        anchor.advance(change.end)
