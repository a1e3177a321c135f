"""The ledger: accounts, releases that are charged once, and a chain that shows tampering.

Trust       holds public values only: names, parameters, costs, hashes under a secret key.
Unit        one per account; an entry for another is refused.
Neighbours  one relation per account; an entry for another is refused.
Guarantee   a reservation is durable before it is answered, and all of an account's entries,
            composed by the accountant, stay within its cap: for any number of processes,
            after any crash, and however often a release is asked for again.
Not covered whoever holds the key, or replaces anchor and database together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import URL, insert, select, update

from dpicl.accounting import accountant
from dpicl.accounting.accountant import Cost
from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import budget, chain, rows
from dpicl.accounting.ledger.anchor import Anchor, check_seen
from dpicl.accounting.ledger.change import Change, changing
from dpicl.accounting.ledger.database import Database
from dpicl.accounting.ledger.models import accounts, entries
from dpicl.accounting.ledger.schema import downgrade
from dpicl.accounting.ledger.values import Account, Entry, Quote, Reading, Release, Reservation, check_caps
from dpicl.errors import LedgerError, ParameterError, PrivacyError

CAPS = ("epsilon_cap", "delta_cap")


class Ledger:
    """The ledger at `url`, made there on first use; `anchor_file` lies outside the database.

    Threads may share one; a forked process opens its own.

    Raises:
        LedgerError: the database cannot be used; a LedgerRefusedError if it was rolled back, has
            another key, or was made by a newer version.
    """

    def __init__(self, url: str | URL, key: bytes, anchor_file: Path) -> None:
        self._key, self._anchor, self._database = key, Anchor(anchor_file), Database(url)
        seen = self._anchor.read()
        with self._database.reading() as connection:
            end = chain.read_head(connection)
            check_seen(seen, end, lambda sequence: chain.hash_at(connection, sequence))
            chain.check_end(connection, key, end)
        self._anchor.advance(end)

    @classmethod
    @contextmanager
    def open(cls, url: str | URL, key: bytes, anchor_file: Path) -> Iterator[Ledger]:
        """A ledger for the length of a block."""
        ledger = cls(url, key, anchor_file)
        try:
            yield ledger
        finally:
            ledger.close()

    @property
    def place(self) -> str:
        """The path of its file, or its database without a password."""
        return self._database.name.removeprefix("sqlite:///")

    @property
    def schema(self) -> str | None:
        """The form of its tables, as migrations name it."""
        return self._database.schema

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def ensure_account(self, account: Account) -> None:
        """Open an account, or check that the open one is the same.

        Caps that `set_cap` has changed stay as they are, whatever is asked; those of an account that
        nothing was charged to follow what is asked.

        Raises:
            PrivacyError: it protects something else, or has other caps that nobody decided on.
        """
        with self._changing() as change:
            asked = select(accounts).where(accounts.c.name == account.name).with_for_update()
            stored = change.connection.execute(asked).one_or_none()
            if stored is None:
                change.lock()
                stored = change.connection.execute(asked).one_or_none()  # somebody may have been faster
            if stored is None:
                row = rows.account_row(account)
                change.connection.execute(insert(accounts).values(row))
                change.append("opened", row)
            else:
                self._agree(change, rows.account_value(stored), account)

    def _agree(self, change: Change, stored: Account, asked: Account) -> None:
        """Caps are the ledger's once decided there; before the first charge they follow the contract."""
        rows.check_same(stored, asked, but=CAPS)
        if (stored.epsilon_cap, stored.delta_cap) == (asked.epsilon_cap, asked.delta_cap) or rows.is_decided(change.connection, asked.name):
            return
        if not rows.is_unused(change.connection, asked.name):
            rows.check_same(stored, asked)
        self._put_caps(change, asked.name, {"epsilon_cap": asked.epsilon_cap, "delta_cap": asked.delta_cap}, {"unused": True})

    @staticmethod
    def _put_caps(change: Change, name: str, caps: dict[str, float | None], note: dict[str, bool]) -> None:
        change.connection.execute(update(accounts).where(accounts.c.name == name).values(caps))
        change.lock()
        change.append("cap", {"account": name, **caps, **note, "changed_utc": rows.now()})

    def set_cap(self, name: str, epsilon_cap: float, delta_cap: float = 0.0) -> None:
        """Change the caps of an account; the chain keeps the old ones.

        Raises:
            LedgerError: there is no such account.
            PrivacyError: it is a benchmark account, which has no cap.
        """
        check_caps(epsilon_cap, delta_cap)
        caps: dict[str, float | None] = {"epsilon_cap": epsilon_cap, "delta_cap": delta_cap}
        with self._changing() as change:
            if rows.find_account(change.connection, name, lock=True).benchmark:
                raise PrivacyError(f"account {name!r} is a benchmark account; it has no cap to change")
            self._put_caps(change, name, caps, {})

    def unheeded(self, asked: Account) -> Account | None:
        """The open account, where caps decided in the ledger hold and those asked for are new since then; None where all is as known."""
        with self._database.reading() as connection:
            stored = rows.find_account(connection, asked.name)
            known = (stored.epsilon_cap, stored.delta_cap), rows.contract_caps(connection, asked.name)
            is_new = (asked.epsilon_cap, asked.delta_cap) not in known
            return stored if is_new and rows.is_decided(connection, asked.name) else None

    def reserve(self, release: Release) -> Reservation:
        """Charge a release to its account, once; the same release again costs nothing.

        Raises:
            BudgetError: the account's total would exceed its cap.
            PrivacyError: the id is charged for something else, the guarantee protects something
                else than the account, or states less than its event costs.
            LedgerError: there is no such account, or the ledger was rolled back.
        """
        accountant.check(release.guarantee)
        row = rows.release_row(release)
        with self._changing() as change:
            account = rows.find_account(change.connection, release.account, lock=True)
            known = rows.find_entry(change.connection, release.release_id)
            if known is not None:
                return rows.reserved_before(known, row)
            budget.check_cap(change.connection, account, release.guarantee)
            row |= {"number": change.lock().sequence + 1, "reserved_utc": rows.now()}
            change.connection.execute(insert(entries).values(row))
            change.append("reserved", row)
        return Reservation("reserved", None, is_new=True)

    def publish(self, release_id: str, artefact_sha256: str) -> str:
        """Make an artefact the release, unless one is; gives the hash of the winner.

        Raises:
            LedgerError: the release was never reserved.
        """
        if not re.fullmatch("[0-9a-f]{64}", artefact_sha256):
            raise ParameterError("artefact_sha256", artefact_sha256, "64 hexadecimal digits")
        with self._changing() as change:
            known = rows.find_entry(change.connection, release_id, lock=True)
            if known is None:
                raise LedgerError(f"release {release_id} was never reserved; expected reserve before publish")
            if known.artefact_sha256 is not None:
                return str(known.artefact_sha256)
            won = {"artefact_sha256": artefact_sha256, "published_utc": rows.now()}
            change.lock()
            change.connection.execute(update(entries).where(entries.c.release_id == release_id).values(won))
            change.append("published", {"release_id": release_id, **won})
        return artefact_sha256

    def published(self, release_id: str) -> str | None:
        """The hash of the artefact that is this release; None before one has won."""
        with self._database.reading() as connection:
            known = rows.find_entry(connection, release_id)
        return None if known is None else known.artefact_sha256

    def dry_run(self, name: str, guarantees: Sequence[Guarantee]) -> Quote:
        """What these would cost now, and what would be left; changes nothing."""
        with self._database.reading() as connection:
            return budget.quote(connection, rows.find_account(connection, name), guarantees)

    def spent(self, name: str) -> Cost:
        """The cost of all entries of an account, published or not."""
        with self._database.reading() as connection:
            return budget.total(connection, rows.find_account(connection, name))

    def accounts(self) -> list[Account]:
        """Every account, by name."""
        with self._database.reading() as connection:
            return [rows.account_value(row) for row in connection.execute(select(accounts).order_by(accounts.c.name))]

    def entries(self, name: str) -> list[Entry]:
        """What an account has bought, in the order of its reservations."""
        with self._database.reading() as connection:
            rows.find_account(connection, name)
            asked = select(entries).where(entries.c.account == name).order_by(entries.c.number)
            return [rows.entry_value(row) for row in connection.execute(asked)]

    def odometer(self, name: str) -> list[Reading]:
        """The running total of an account after each of its entries; composes once per entry."""
        with self._database.reading() as connection:
            delta = rows.find_account(connection, name).delta_cap
        counts: Counter[Guarantee] = Counter()
        readings = []
        for entry in self.entries(name):
            counts[entry.release.guarantee] += 1
            readings.append(Reading(entry, accountant.compose_checked(counts, delta=delta)))
        return readings

    def verify(self) -> int:
        """Check every record, row and the anchor; gives the number of records. Nobody waits meanwhile, and reading is enough.

        Raises:
            LedgerRefusedError: naming the first thing that was edited, or that the ledger was rolled back.
        """
        seen = self._anchor.read()
        with self._database.snapshot() as connection:
            end = chain.read_head(connection)
            check_seen(seen, end, lambda sequence: chain.hash_at(connection, sequence))
            chain.verify(connection, self._key, end)
        self._anchor.advance(end)
        return end.sequence

    def take_back(self, revision: str) -> None:
        """Give the tables an older form, for an older program; this one makes them new when it opens them again.

        Entries, chain and what is spent stay, and are checked before and after.

        Raises:
            LedgerError: there is no such form, it cannot hold what is there, or the ledger was edited; nothing is changed.
        """
        with self._database.migrating() as connection:
            end = chain.read_head(connection, lock=True)
            check_seen(self._anchor.read(), end, lambda sequence: chain.hash_at(connection, sequence))
            chain.verify(connection, self._key, end)
            downgrade(connection, revision, self._database.name)
            chain.verify(connection, self._key, chain.read_head(connection))

    def _changing(self) -> AbstractContextManager[Change]:
        return changing(self._database, self._key, self._anchor)
