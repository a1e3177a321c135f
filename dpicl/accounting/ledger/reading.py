"""What the ledger answers: accounts, entries, totals and receipts, and whether all of it fits
together.

Trust       reading changes nothing; what is about to be spent is checked again where it is spent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import URL, select

from dpicl.accounting import accountant
from dpicl.accounting.accountant import Cost
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import assets, budget, chain, elsewhere, opening
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.chain import Chain
from dpicl.accounting.ledger.database import records
from dpicl.accounting.ledger.values import Account, Entry, OdometerReading, Quote
from dpicl.accounting.ledger.witness import Witness, WitnessedAccount
from dpicl.errors import PrivacyError


@dataclass(frozen=True)
class LedgerCopy:
    """A ledger at one moment: the end of its chain, account, name and artefact's hash of every
    published release, and the content of its file, None of a database on a server.
    """

    end: Head
    published: list[tuple[str, str, str]]
    content: bytes | None = field(repr=False)


class Readings:
    """Questions to an open ledger. Without a key nothing of the answers is checked."""

    def __init__(
        self,
        url: str | URL,
        key: bytes | None,
        anchor_file: Path,
        witness: Witness | None = None,
    ) -> None:
        self._chain, self._witness = Chain(url, key, anchor_file, witness), witness

    def close(self) -> None:
        """Let go of the database."""
        self._chain.database.close()

    @property
    def place(self) -> str:
        """The path of its file, or its database without a password."""
        return self._chain.database.name.removeprefix("sqlite:///")

    @property
    def restored_from(self) -> str | None:
        """When the last backup was taken that it came from."""
        with self._chain.reading() as fold:
            return fold.restored[1] or None

    def with_other_caps(self, declared: Account) -> Account | None:
        """The open account, where a contract declares other caps, new since the ledger's were
        decided; else None. `declared`: what a contract says, under the account's own name.
        """
        with self._chain.reading() as fold:
            state = fold.account(declared.name)
        stored = state.account
        is_other = (declared.epsilon_cap, declared.delta_cap) != (
            stored.epsilon_cap,
            stored.delta_cap,
        )
        return stored if is_other and not state.has_stated(declared) else None

    def find_account(
        self, declared: Account, addresses: Sequence[str] = (), *, named: bool = False
    ) -> Account | None:
        """The account that `ensure_account` would take, as it is; None where it would open one.
        Raises PrivacyError: the rows belong to another account.
        """
        with self._chain.reading() as fold:
            return opening.find(fold, declared, addresses, named=named)[0]

    def payer_at(self, addresses: Sequence[str], *, named: str | None = None) -> str | None:
        """The account that pays for the rows at these addresses; None where none does yet. `named`:
        the one that a contract names. Raises PrivacyError: several do, or nobody has said whether a
        file is one that an account has paid for.
        """
        with self._chain.reading() as fold:
            return opening.payer_at(fold, addresses, named)

    def published(self, release_id: str) -> str | None:
        """The hash of the artefact that is this release; None before one has won."""
        with self._chain.reading() as fold:
            charge = fold.charges.get(release_id)
        return None if charge is None else charge.artefact_sha256

    def dry_run(self, name: str, guarantees: Sequence[Guarantee]) -> Quote:
        """What these would cost now, and what would be left; changes nothing."""
        with self._chain.reading() as fold:
            return budget.quote(fold, name, guarantees)

    def spent_elsewhere(self, name: str) -> list[WitnessedAccount]:
        """Accounts of this user's other ledgers that have spent something for the rows of an
        account.
        """
        with self._chain.reading() as fold:
            return elsewhere.spent_elsewhere(fold, name, self._others())

    def check_elsewhere(self, name: str) -> None:
        """Refuse, as `reserve` does, what would be charged to an account for whose rows another
        ledger of this user was charged. Raises LedgerRefusedError: with what to do.
        """
        with self._chain.reading() as fold:
            elsewhere.check(fold, name, self._others())

    def _others(self) -> list[WitnessedAccount]:
        return [] if self._witness is None else list(self._witness.others())

    def spent(self, name: str) -> Cost:
        """The cost of all entries of an account, published or not."""
        with self._chain.reading() as fold:
            return budget.total(fold, name)

    def accounts(self) -> list[Account]:
        """Every account, by name."""
        with self._chain.reading() as fold:
            return [account.account for _, account in sorted(fold.accounts.items())]

    def addresses(self, name: str) -> list[str]:
        """Where the rows are that an account pays for."""
        with self._chain.reading() as fold:
            return assets.bound_to(fold, name)

    def unplaced(self) -> list[str]:
        """Accounts with a cap that are bound to no address: of a ledger that was made anew."""
        with self._chain.reading() as fold:
            return assets.unplaced(fold)

    def check_seen(self, seen: Head) -> None:
        """Refuse a ledger that does not hold a record that was seen in it.
        Raises LedgerRefusedError: it ends before that one, or holds another one there.
        """
        with self._chain.database.reading() as connection:
            chain.check_seen(connection, seen, chain.read_end(connection, None))

    def entries(self, name: str) -> list[Entry]:
        """What an account was charged for, in the order of its reservations."""
        with self._chain.reading() as fold:
            fold.account(name)
            charges = fold.charges_of(name)
        return [charge.entry for charge in charges]

    def find(self, release_id: str) -> Entry | None:
        """The entry of a release; None where it is not charged."""
        with self._chain.reading() as fold:
            charge = fold.charges.get(release_id)
        return None if charge is None else charge.entry

    def records_of(self, release_id: str) -> list[dict[str, Any]]:
        """The records that charged and published a release, each with the hash before it: the key
        alone can check them, without a ledger.
        """
        with self._chain.reading() as fold:
            charge = fold.charges.get(release_id)
        return [] if charge is None else self._receipt(charge.number, charge.published_by)

    def cap_record(self, account: str) -> dict[str, Any] | None:
        """The last record that changed an account's caps, as `records_of` has them; None where
        there is none.
        """
        with self._chain.reading() as fold:
            number = fold.accounts[account].capped_by[0] if account in fold.accounts else 0
        return next(iter(self._receipt(number)), None)

    def adopted_record(self) -> dict[str, Any]:
        """The record that made a ledger anew, or the last that restored one, as `records_of` has
        them; empty of another one.
        """
        with self._chain.reading() as fold:
            number = fold.anew.sequence
        return next(iter(self._receipt(number)), {})

    def _receipt(self, *numbers: int) -> list[dict[str, Any]]:
        """Those of these records that there are, with the hash before each, so that the key tells
        that it is a true one.
        """
        wanted = select(records).where(records.c.sequence.in_(numbers)).order_by(records.c.sequence)
        with self._chain.database.reading() as connection:
            return [
                {
                    "sequence": row.sequence,
                    "before": chain.hash_at(connection, row.sequence - 1) or "",
                    "kind": row.kind,
                    "content": row.content,
                    "hash": row.hash,
                }
                for row in connection.execute(wanted).all()
            ]

    def copy(self) -> LedgerCopy:
        """All of it as one transaction sees it; blocks no writer."""
        with self._chain.database.snapshot() as connection:
            end = chain.read_end(connection, self._chain.key)
            fold = chain.folded_up_to(connection, self._chain.key, end)
            charges = sorted(fold.charges.values(), key=lambda charge: charge.number)
            driver: Any = connection.connection.driver_connection
            return LedgerCopy(
                end,
                [
                    (charge.account, charge.release_id, charge.artefact_sha256)
                    for charge in charges
                    if charge.artefact_sha256 is not None
                ],
                driver.serialize() if connection.dialect.name == "sqlite" else None,
            )

    @property
    def end(self) -> Head:
        """The end of the chain."""
        with self._chain.database.reading() as connection:
            return chain.read_end(connection, None)

    def odometer(self, name: str) -> list[OdometerReading]:
        """The running total of an account after each of its entries."""
        with self._chain.reading() as fold:
            account = fold.account(name).account
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
        return self._chain.check(whole=True)
