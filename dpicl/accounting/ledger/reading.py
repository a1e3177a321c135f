"""What the ledger answers: accounts, entries, totals and receipts, and whether all of it fits
together.

Trust       reading changes nothing; what is about to be spent is checked again where it is spent.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from dpicl.accounting import accountant
from dpicl.accounting.accountant import Cost
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import assets, budget, chain, elsewhere, opening, restoring, rows
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.database import Database
from dpicl.accounting.ledger.models import accounts, entries, records
from dpicl.accounting.ledger.values import Account, Entry, OdometerReading, Quote
from dpicl.accounting.ledger.witness import Witness, WitnessedAccount
from dpicl.errors import PrivacyError


@dataclass(frozen=True)
class LedgerCopy:
    """A ledger at one moment: the end of its chain, every published release, and the content of its
    file, None of a database on a server.
    """

    end: Head
    published: list[rows.Published]
    content: bytes | None = field(repr=False)


class Readings:
    """Questions to an open ledger."""

    def __init__(
        self, database: Database, key: bytes, anchor: Anchor, witness: Witness | None
    ) -> None:
        self._database, self._key, self._anchor, self._witness = database, key, anchor, witness

    @property
    def place(self) -> str:
        """The path of its file, or its database without a password."""
        return self._database.name.removeprefix("sqlite:///")

    @property
    def restored_from(self) -> str | None:
        """When the last backup was taken that it came from."""
        with self._database.reading() as connection:
            return restoring.restored_from(connection)

    def with_other_caps(self, declared: Account) -> Account | None:
        """The open account, where a contract declares other caps, new since the ledger's were
        decided; else None. `declared`: what a contract says, under the account's own name.
        """
        with self._database.reading() as connection:
            stored = rows.find_account(connection, declared.name)
            caps = (declared.epsilon_cap, declared.delta_cap)
            is_known = opening.is_known(connection, self._key, declared.name, caps)
            return None if is_known or caps == (stored.epsilon_cap, stored.delta_cap) else stored

    def find_account(
        self, declared: Account, addresses: Sequence[str] = (), *, named: bool = False
    ) -> Account | None:
        """The account that `ensure_account` would take, as it is; None where it would open one.
        Raises PrivacyError: the rows belong to another account.
        """
        with self._database.reading() as connection:
            return opening.find(connection, declared, addresses, named=named)[0]

    def payer_at(self, addresses: Sequence[str], *, named: str | None = None) -> str | None:
        """The account that pays for the rows at these addresses; None where none does yet. `named`:
        the one that a contract names. Raises PrivacyError: several do, or nobody has said whether a
        file is one that an account has paid for.
        """
        with self._database.reading() as connection:
            return opening.payer_at(connection, addresses, named)

    def published(self, release_id: str) -> str | None:
        """The hash of the artefact that is this release; None before one has won."""
        with self._database.reading() as connection:
            known = rows.find_entry(connection, release_id)
        return None if known is None else known.artefact_sha256

    def dry_run(self, name: str, guarantees: Sequence[Guarantee]) -> Quote:
        """What these would cost now, and what would be left; changes nothing."""
        with self._database.reading() as connection:
            return budget.quote(connection, rows.find_account(connection, name), guarantees)

    def spent_elsewhere(self, name: str) -> list[WitnessedAccount]:
        """Accounts of this user's other ledgers that have spent something for the rows of an
        account.
        """
        with self._database.reading() as connection:
            return elsewhere.spent_elsewhere(
                connection, name, [] if self._witness is None else self._witness.others()
            )

    def check_elsewhere(self, name: str) -> None:
        """Refuse, as `reserve` does, what would be charged to an account for whose rows another
        ledger of this user was charged. Raises LedgerRefusedError: with what to do.
        """
        with self._database.reading() as connection:
            others = [] if self._witness is None else self._witness.others()
            elsewhere.check(connection, self._key, rows.find_account(connection, name), others)

    def spent(self, name: str) -> Cost:
        """The cost of all entries of an account, published or not."""
        with self._database.reading() as connection:
            return budget.total(connection, rows.find_account(connection, name))

    def accounts(self) -> list[Account]:
        """Every account, by name."""
        with self._database.reading() as connection:
            return [
                rows.account_value(row)
                for row in connection.execute(select(accounts).order_by(accounts.c.name))
            ]

    def addresses(self, name: str) -> list[str]:
        """Where the rows are that an account pays for."""
        with self._database.reading() as connection:
            return assets.bound_to(connection, name)

    def unplaced(self) -> list[str]:
        """Accounts with a cap that are bound to no address: of a ledger that was made anew."""
        with self._database.reading() as connection:
            return assets.unplaced(connection)

    def check_seen(self, seen: Head) -> None:
        """Refuse a ledger that does not hold a record that was seen in it.
        Raises LedgerRefusedError: it ends before that one, or holds another one there.
        """
        with self._database.reading() as connection:
            chain.check_seen(connection, seen, chain.read_head(connection))

    def entries(self, name: str) -> list[Entry]:
        """What an account was charged for, in the order of its reservations."""
        with self._database.reading() as connection:
            rows.find_account(connection, name)
            charged = select(entries).where(entries.c.account == name).order_by(entries.c.number)
            return [rows.entry_value(row) for row in connection.execute(charged)]

    def find(self, release_id: str) -> Entry | None:
        """The entry of a release; None where it is not charged."""
        with self._database.reading() as connection:
            known = rows.find_entry(connection, release_id)
        return None if known is None else rows.entry_value(known)

    def records_of(self, release_id: str) -> list[dict[str, Any]]:
        """The records that charged and published a release, each with the hash before it: the key
        alone can check them, without a ledger.
        """
        with self._database.reading() as connection:
            entry = rows.find_entry(connection, release_id)
            if entry is None:
                return []
            wanted = [select(records).where(records.c.sequence == entry.number)]
            if entry.artefact_sha256 is not None:  # mostly one of the last
                published = select(records).where(
                    records.c.kind == "published",
                    records.c.content.contains(release_id, autoescape=True),
                )
                wanted.append(published.order_by(records.c.sequence.desc()).limit(1))
            return [
                _as_receipt(connection, row) for one in wanted for row in connection.execute(one)
            ]

    def cap_record(self, account: str) -> dict[str, Any] | None:
        """The last record that changed an account's caps, as `records_of` has them; None where
        there is none.
        """
        with self._database.reading() as connection:
            changes = connection.execute(
                select(records).where(records.c.kind == "cap").order_by(records.c.sequence.desc())
            )
            return next(
                (
                    _as_receipt(connection, row)
                    for row in changes
                    if json.loads(row.content)["account"] == account
                ),
                None,
            )

    def adopted_record(self) -> dict[str, Any]:
        """The record that made a ledger anew, or the last that restored one, as `records_of` has
        them; empty of another one.
        """
        with self._database.reading() as connection:
            anew = (
                select(records)
                .where(records.c.kind.in_(("adopted", "restored")))
                .order_by(records.c.sequence.desc())
            )
            row = connection.execute(anew.limit(1)).one_or_none()
            return {} if row is None else _as_receipt(connection, row)

    def copy(self) -> LedgerCopy:
        """All of it as one transaction sees it; blocks no writer."""
        with self._database.snapshot() as connection:
            end, releases = chain.read_head(connection), rows.published(connection)
            driver: Any = connection.connection.driver_connection
            return LedgerCopy(
                end, releases, driver.serialize() if connection.dialect.name == "sqlite" else None
            )

    @property
    def end(self) -> Head:
        """The end of the chain."""
        with self._database.reading() as connection:
            return chain.read_head(connection)

    def odometer(self, name: str) -> list[OdometerReading]:
        """The running total of an account after each of its entries."""
        with self._database.reading() as connection:
            account = rows.find_account(connection, name)
        counts: Counter[Guarantee] = Counter()
        spent: Spent | None = Spent.nothing()
        readings = []
        for entry in self.entries(name):
            if account.benchmark:
                counts[entry.release.guarantee] += 1
                total = accountant.compose_checked(counts, delta=account.delta_cap)
            else:
                try:
                    spent = (
                        None
                        if spent is None
                        else spent.plus(budget.as_paid(entry.release.guarantee, account))
                    )
                except PrivacyError:  # as of two chains that were made one
                    spent = None
                none = Cost(math.inf, 0.0, "no total under one unit and one relation")
                total = none if spent is None else spent.cost(account.delta_cap)
            readings.append(OdometerReading(entry, total))
        return readings

    def verify(self) -> int:
        """Check every record, row and the anchor; gives the number of records. Blocks no writer,
        and needs no write access. Raises LedgerRefusedError: naming the first thing that was
        edited, or that the ledger was rolled back.
        """
        seen, witnessed = (
            self._anchor.read(),
            None if self._witness is None else self._witness.read(),
        )
        with self._database.snapshot() as connection:
            end = chain.read_head(connection)
            chain.check_seen(connection, seen, end)
            chain.check_witness(connection, witnessed, end)
            chain.verify(connection, self._key, end)
        self._anchor.advance(end)
        return end.sequence


def _as_receipt(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    """A record with the hash before it, so that the key tells that it is a true one."""
    before = chain.hash_at(connection, row.sequence - 1) or ""
    return {
        "sequence": row.sequence,
        "before": before,
        "kind": row.kind,
        "content": row.content,
        "hash": row.hash,
    }
