"""The ledger: accounts, releases that are charged once, and a chain that shows tampering.

Trust       holds public values only: names, parameters, costs, hashes under a secret key.
Unit        one per account; an entry for another is refused.
Neighbours  one relation per account; an entry for another is refused.
Guarantee   a reservation is durable before it is answered, and all of an account's entries,
            composed by the accountant, stay within its cap: for any number of processes, after any
            crash, and however often a release is submitted again.
Not covered an attacker who holds the key, or replaces anchor and database together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, insert, select, update

from dpicl.accounting import accountant
from dpicl.accounting.events import holds_part
from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger import (
    adopting,
    assets,
    budget,
    chain,
    elsewhere,
    horizons,
    opening,
    restoring,
    rows,
    seals,
)
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.chain import Change, changing
from dpicl.accounting.ledger.database import Database
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, drawings, entries
from dpicl.accounting.ledger.reading import Readings
from dpicl.accounting.ledger.values import Account, Release, Reservation, check_caps
from dpicl.accounting.ledger.witness import Witness
from dpicl.errors import LedgerError, LedgerRefusedError, ParameterError, PrivacyError


class Ledger(Readings):
    """The ledger at `url`, made there on first use; `anchor_file` lies outside the database, the
    witness outside the state home.

    Threads may share one; a forked process opens its own.
    Raises LedgerError: the database cannot be used; a LedgerRefusedError if it was rolled back, has
    another key, or was made by another version.
    """

    def __init__(
        self, url: str | URL, key: bytes, anchor_file: Path, witness: Witness | None = None
    ) -> None:
        super().__init__(Database(url), key, Anchor(anchor_file), witness)
        seen, witnessed = self._anchor.read(), None if witness is None else witness.read()
        with self._database.reading() as connection:
            end = chain.read_head(connection)
            chain.check_seen(connection, seen, end)
            chain.check_witness(connection, witnessed, end)
            chain.check_end(connection, key, end)
        self._anchor.advance(end)

    @classmethod
    @contextmanager
    def open(
        cls, url: str | URL, key: bytes, anchor_file: Path, witness: Witness | None = None
    ) -> Iterator[Ledger]:
        """A ledger for the length of a block."""
        with closing(cls(url, key, anchor_file, witness)) as ledger:
            yield ledger

    @classmethod
    def adopt(
        cls,
        url: str | URL,
        key: bytes,
        anchor_file: Path,
        remains: adopting.Remains,
        witness: Witness | None = None,
    ) -> adopting.Rebuilt:
        """Make a lost ledger anew from what remains of it.
        Raises LedgerRefusedError: the ledger is not empty, or no receipt was written under this
        key.
        """
        seen = None if witness is None else witness.read()
        made = adopting.rebuilt(key, remains, [] if seen is None else seen.accounts)
        anchor, beyond = Anchor(anchor_file), 0 if seen is None else seen.head.sequence
        with closing(Database(url)) as database:
            with database.writing() as connection:
                end = chain.read_head(connection, lock=True)
                if end.sequence:
                    raise LedgerRefusedError(
                        f"{database.name}: this ledger holds {end.sequence} records; only an "
                        f"empty one is made anew"
                    )
                end = adopting.write(
                    connection,
                    key,
                    made,
                    max(made.last, remains.seen, anchor.read().sequence, beyond) + 1,
                )
            anchor.advance(end)
        return made

    @classmethod
    def restore(
        cls, url: str | URL, key: bytes, backup: restoring.Backup, seen: Sequence[Head]
    ) -> Head:
        """Let the ledger at `url`, which is what a backup says, go on with budgets that are closed;
        once an attempt, and gives its end. Raises LedgerRefusedError: it was edited, is not the
        backup's, or ends before a record that this host has `seen`.
        """
        with closing(Database(url)) as database, database.writing() as connection:
            return restoring.write(connection, key, backup, seen)

    def witness_anew(self, witness: Witness) -> None:
        """Let a witness see this ledger, whatever it has seen before, as after a restore."""
        with witness.held(), self._database.snapshot() as connection:
            witness.advance(chain.read_head(connection), rows.read_state(connection), replace=True)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def ensure_account(
        self,
        declared: Account,
        addresses: Sequence[str] = (),
        *,
        named: bool = False,
        states_cap: bool = True,
    ) -> Account:
        """The account that pays for the rows at these addresses; opened, and bound to them, where
        none is.

        Caps are the ledger's: a contract's lower one lowers them, and a higher one counts only
        where nothing was charged yet.

        Args:
            declared: what a contract says of the account.
            addresses: canonical public addresses of its rows; of a benchmark they are only looked
                up.
            named: whether the contract names the account, in place of taking the one that is there.
            states_cap: whether the caps are stated, and not what a first release costs: those leave
                a charged account's as they are.
        Raises PrivacyError: the rows belong to another account, or the account protects something
        else.
        """
        with self._changing() as change:
            stored, missing = opening.find(change.connection, declared, addresses, named=named)
            if (
                stored
                and not missing
                and opening.wanted(
                    change.connection, self._key, stored, declared, states_cap=states_cap
                )
                == stored
            ):
                return stored
            change.lock()
            # another process may have been faster
            stored, missing = opening.find(change.connection, declared, addresses, named=named)
            account = (
                opening.opened(change, declared)
                if stored is None
                else opening.agreed(change, stored, declared, states_cap=states_cap)
            )
            if missing:
                assets.bind(change, account.name, missing)
            return account

    def bind(self, name: str, addresses: Sequence[str]) -> None:
        """Bind an open account to addresses that no account is bound to yet, and change nothing
        else of it.
        """
        with self._changing() as change:
            change.lock()
            free = [
                address
                for address in addresses
                if not assets.payers_at(change.connection, [address]).sure
            ]
            if free:
                assets.bind(change, rows.find_account(change.connection, name).name, free)

    def other_file(self, name: str, path: Path) -> None:
        """State that a file is not the one that an account paid for when that had its device and
        inode, which are used again; the chain keeps it. Raises LedgerError: there is no such
        account; PrivacyError: it pays for that file, or never paid for one of this inode.
        """
        with self._changing() as change:
            change.lock()
            assets.other_file(
                change, rows.find_account(change.connection, name).name, os.path.realpath(path)
            )

    def set_cap(self, name: str, epsilon_cap: float, delta_cap: float = 0.0) -> None:
        """Change the caps of an account; the chain keeps the old ones, and what this user's other
        ledgers have spent for the same rows. Raises LedgerError: there is no such account;
        PrivacyError: it is a benchmark account, which has no cap.
        """
        check_caps(epsilon_cap, delta_cap)
        with self._changing() as change:
            change.lock()
            if rows.find_account(change.connection, name).benchmark:
                raise PrivacyError(
                    f"account {name!r} is a benchmark account; it has no cap to change"
                )
            known = elsewhere.statement(
                elsewhere.spent_elsewhere(change.connection, name, change.others())
            )
            opening.put(change, name, {"epsilon_cap": epsilon_cap, "delta_cap": delta_cap}, known)

    def reserve(self, release: Release, *, first: Account | None = None) -> Reservation:
        """Charge a release to its account, once; the same release again costs nothing.

        Head, anchor and the last record, and what it says of all accounts and totals and of this
        release, are checked in the transaction that spends.
        `first`: what the contract says of the account; its caps are decided by its first charge,
        unless a command set some. Raises BudgetError: the account's total would exceed its cap;
        PrivacyError: the id is charged for something else, the guarantee protects something else
        than the account, or states less than its event costs; LedgerError: there is no such
        account, the ledger was edited or rolled back, or another one was charged for the same rows.
        Of a part of a horizon LedgerRefusedError: that horizon is not charged here, or has no such
        period.
        """
        accountant.check(release.guarantee)
        row = rows.release_row(release)
        with self._changing() as change:
            change.lock(release.release_id)
            account = rows.find_account(change.connection, release.account)
            known = rows.find_entry(change.connection, release.release_id)
            is_part = holds_part(release.guarantee.event)
            if known is not None:
                # what drew it may have been seen before the ledger came back
                if is_part and known.artefact_sha256 is None:
                    horizons.check_goes_on(change.connection, account, release)
                return rows.reserved_before(known, row)
            if not account.benchmark:
                elsewhere.check(change.connection, self._key, account, change.others())
            if first is not None:  # what is planned next to it may have brought other caps
                account = opening.first_charged(change, account, first)
            if is_part:
                spent: Spent | None = horizons.check_part(change.connection, account, release)
            else:
                spent = budget.check_cap(change.connection, account, release.guarantee)
            row |= {"number": change.end.sequence + 1, "reserved_utc": rows.now()}
            change.connection.execute(insert(entries).values(row))
            before = written = None
            if spent is not None:
                before = canonical(rows.spent_of(change.connection, account.name).as_json())
                written = rows.write_spent(change.connection, account.name, spent)
            paying = change.connection.execute(
                select(accounts).where(accounts.c.name == account.name)
            ).one()
            terms = {
                "account_row": dict(paying._mapping),
                "addresses": assets.bound_to(change.connection, account.name),
            }
            said = {
                "before": before,
                "spent": written,
                **terms,
                **restoring.branch_of(change.connection),
            }
            change.append("reserved", {**row, **said}, release.release_id)
        return Reservation("reserved", None, is_new=True)

    def check_horizon(self, release_id: str) -> None:
        """Whether a horizon, if it is charged, can go on: asked before a row is read, as `reserve`
        asks for every part. Raises LedgerRefusedError: the ledger came back since.
        """
        with self._database.reading() as connection:
            if (horizon := rows.find_entry(connection, release_id)) is not None:
                horizons.check_kept(connection, horizon)

    def begin_drawing(self, release_id: str) -> None:
        """Note, durably, that a release's mechanism is about to read rows; from then on nothing
        else can be made for its cost. Raises LedgerError: it is not charged, or another one was
        made for its cost.
        """
        with self._changing() as change:
            change.lock(release_id)
            if rows.find_entry(change.connection, release_id) is None:
                raise LedgerError(
                    f"release {release_id} is not charged; expected reserve before a row is read"
                )
            if (
                change.connection.execute(
                    select(drawings).where(drawings.c.release_id == release_id)
                ).first()
                is None
            ):
                change.connection.execute(insert(drawings).values(release_id=release_id))
                change.append("drawing", {"release_id": release_id}, release_id)

    def take_up(self, release: Release, *, differing: Sequence[str]) -> bool:
        """Let a release stand in the place of one whose mechanism never read a row, as its model
        failed first; whether there was one. `differing`: names of the parameters that the two may
        differ in.
        """
        row = rows.release_row(release)
        with self._changing() as change:
            change.lock(release.release_id)
            idle = rows.find_idle(change.connection, release, differing)
            if idle is None or rows.find_entry(change.connection, release.release_id) is not None:
                return False
            seals.check(change.connection, idle)
            row |= {"number": change.end.sequence + 1, "reserved_utc": rows.now()}
            change.connection.execute(
                update(entries).where(entries.c.release_id == idle).values(row)
            )
            said = {"in_place_of": idle, **restoring.branch_of(change.connection)}
            change.append("taken_up", {**row, **said}, idle, release.release_id)
        return True

    def publish(self, release_id: str, artefact_sha256: str) -> str:
        """Make an artefact the release, unless one is; gives the hash of the winner. Raises
        LedgerError: the release was never reserved.
        """
        if not re.fullmatch("[0-9a-f]{64}", artefact_sha256):
            raise ParameterError("artefact_sha256", artefact_sha256, "64 hexadecimal digits")
        with self._changing() as change:
            change.lock(release_id)
            known = rows.find_entry(change.connection, release_id)
            if known is None:
                raise LedgerError(
                    f"release {release_id} was never reserved; expected reserve before publish"
                )
            if known.artefact_sha256 is not None:
                return str(known.artefact_sha256)
            won = {"artefact_sha256": artefact_sha256, "published_utc": rows.now()}
            change.connection.execute(
                update(entries).where(entries.c.release_id == release_id).values(won)
            )
            change.append(
                "published",
                {"release_id": release_id, **won, **restoring.branch_of(change.connection)},
                release_id,
            )
        return artefact_sha256

    def _changing(self) -> AbstractContextManager[Change]:
        return changing(self._database, self._key, self._anchor, self._witness)
