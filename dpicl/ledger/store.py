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

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, select

from dpicl.accounting import accountant
from dpicl.accounting.accountant import Cost
from dpicl.accounting.events import holds_part
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee
from dpicl.ground.errors import LedgerError, ParameterError, PrivacyError
from dpicl.ledger import accounts, budget, chain
from dpicl.ledger.budget import UserSpent
from dpicl.ledger.chain import Chain, Trial
from dpicl.ledger.charges import charge_content, never_drawn, reserved_before
from dpicl.ledger.database import records
from dpicl.ledger.fold import (
    ELSEWHERE,
    NOBODY,
    Account,
    Entry,
    Lowering,
    OdometerReading,
    Quote,
    ReleaseCharge,
    Reservation,
    Spender,
    check_caps,
    now,
    spent_text,
)
from dpicl.ledger.keys import Head
from dpicl.ledger.witness import Witness, WitnessedAccount


@dataclass(frozen=True)
class LedgerCopy:
    """A ledger at one moment: the end of its chain, account, name and artefact's hash of every
    published release, and the content of its file, None of a database on a server.
    """

    end: Head
    published: list[tuple[str, str, str]]
    content: bytes | None = field(repr=False)


class Ledger:
    """The ledger at `url`, made there on first use; `anchor_file` lies outside the database, the
    witness outside the state home.

    Threads may share one; a forked process opens its own. Without a key nothing is checked, and
    nothing can be changed.
    Raises LedgerError: the database cannot be used; a LedgerRefusedError if it was edited or rolled
    back, has another key, or was made by another version.
    """

    def __init__(
        self,
        url: str | URL,
        key: bytes | None,
        anchor_file: Path,
        witness: Witness | None = None,
        by: Spender = NOBODY,
        named: str = "",
    ) -> None:
        self._chain = Chain(url, key, anchor_file, witness, named)
        self._by = by
        self._witness = witness
        self._real: Ledger | None = None
        """Of a trial the ledger that it is of."""
        if key is not None:
            self._chain.check()

    @classmethod
    @contextmanager
    def open(
        cls,
        url: str | URL,
        key: bytes | None,
        anchor_file: Path,
        witness: Witness | None = None,
        by: Spender = NOBODY,
        named: str = "",
    ) -> Iterator[Ledger]:
        """A ledger for the length of a block, who charges through it, and by what it was named, for
        messages.
        """
        with closing(cls(url, key, anchor_file, witness, by, named)) as ledger:
            yield ledger

    def close(self) -> None:
        """Let go of the database."""
        self._chain.close()

    def trial(self) -> Ledger:
        """A copy for quotes, in which accounts may be opened, bound to rows, and their caps and
        shares lowered: nobody else sees that, and nothing is charged. One thing is stored: at which
        address a database server answers that an account pays for, since another server may answer
        there when rows are read.
        """
        trial = copy(self)
        trial._real = self._real or self
        trial._chain = Trial(self._chain)
        return trial

    # Questions. What is about to be spent is checked again where it is spent.

    @property
    def place(self) -> str:
        """See `Chain`."""
        return self._chain.place

    @property
    def restored_from(self) -> str | None:
        """When the last backup was taken that it came from."""
        with self._chain.reading() as fold:
            return fold.restored[1] or None

    def with_other_caps(self, declared: Account) -> Account | None:
        """The open account, where a contract declares other caps, unless a command has decided
        on the ledger's since it did; else None. `declared`: what a contract says, under the
        account's own name.
        """
        with self._chain.reading() as fold:
            state = fold.account(declared.name)
        stored = state.account
        is_other = (declared.epsilon_cap, declared.delta_cap) != (
            stored.epsilon_cap,
            stored.delta_cap,
        )
        is_known = state.is_decided_now and state.has_stated(declared)
        return stored if is_other and not is_known else None

    def after_charge(self, declared: Account) -> Account:
        """The open account as the next charge by a contract that declares this leaves it. Raises
        PrivacyError: it protects something else.
        """
        with self._chain.reading() as fold:
            return accounts.wanted(fold, fold.account(declared.name).account, declared)

    def lowering(self, name: str) -> tuple[Lowering | None, str]:
        """How a contract lowered the caps that an account has now, and a sentence on it; None and
        nothing where none did.
        """
        with self._chain.reading() as fold:
            state = fold.account(name)
        return state.lowering, budget.lowering_sentence(state)

    def spent_by_users(self, name: str) -> list[UserSpent]:
        """What each user has charged to an account with a cap, or has a share of, by name."""
        with self._chain.reading() as fold:
            return budget.spent_by_users(fold, name)

    def find_account(
        self, declared: Account, addresses: Sequence[str] = (), *, named: bool = False
    ) -> Account | None:
        """The account that `ensure_account` would take, as it is; None where it would open one.
        Raises PrivacyError: the rows belong to another account.
        """
        with self._chain.reading() as fold:
            return accounts.find(fold, declared, addresses, named=named)[0]

    def payer_at(self, addresses: Sequence[str], *, named: str | None = None) -> str | None:
        """The account that pays for the rows at these addresses; None where none does yet. `named`:
        the one that a contract names. Raises PrivacyError: several do, or nobody has said whether a
        file is one that an account has paid for.
        """
        with self._chain.reading() as fold:
            return accounts.payer_at(fold, addresses, named)

    def published(self, release_id: str) -> str | None:
        """The hash of the artefact that is this release; None before one has won."""
        with self._chain.reading() as fold:
            charge = fold.charges.get(release_id)
        return None if charge is None else charge.artefact_sha256

    def dry_run(self, name: str, guarantees: Sequence[Guarantee]) -> Quote:
        """What these would cost now, and what would be left; changes nothing."""
        with self._chain.reading() as fold:
            return budget.quote(fold, name, guarantees)

    def check_share(self, name: str, guarantees: Sequence[Guarantee]) -> None:
        """Refuse, before a row is read, what `reserve` would by a user's share."""
        with self._chain.reading() as fold:
            budget.check_share(fold, name, guarantees, self._by.user)

    def share_left(self, name: str, guarantees: Sequence[Guarantee]) -> float | None:
        """What the user may charge to an account after these; None without a share."""
        with self._chain.reading() as fold:
            return budget.share_left(fold, name, guarantees, self._by.user)

    def spent_elsewhere(self, name: str) -> list[WitnessedAccount]:
        """Accounts of this user's other ledgers that have spent something for the rows of an
        account.
        """
        with self._chain.reading() as fold:
            return budget.spent_elsewhere(fold, name, self._others())

    def check_elsewhere(self, name: str) -> None:
        """Refuse, as `reserve` does, what would be charged to an account for whose rows another
        ledger of this user was charged. Raises LedgerRefusedError: with what to do.
        """
        with self._chain.reading() as fold:
            budget.check_elsewhere(fold, name, self._others())

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
            return fold.addresses_of(name)

    def unplaced(self) -> list[str]:
        """Accounts with a cap that are bound to no address: of a ledger that was made anew."""
        with self._chain.reading() as fold:
            return accounts.unplaced(fold)

    def check_seen(self, seen: Head) -> None:
        """Refuse a ledger that does not hold a record that was seen in it.
        Raises LedgerRefusedError: it ends before that one, or holds another one there.
        """
        with self._chain.database.reading() as connection:
            end = chain.read_end(connection, None)
            newer = f"the newer database{self._chain.was_read}"
            chain.check_seen(connection, seen, end, newer)

    def entries(self, name: str) -> list[Entry]:
        """What an account was charged for, in the order of its reservations; nothing where it is
        not open.
        """
        with self._chain.reading() as fold:
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
        with self._chain.database.reading() as connection:
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

    # Changes.

    def witness_anew(self, witness: Witness) -> None:
        """Let a witness see this ledger, whatever it has seen before, as after a restore."""
        with self._chain.reading() as fold, witness.held():
            witness.advance(fold, replace=True)

    def ensure_account(
        self,
        declared: Account,
        addresses: Sequence[str] = (),
        *,
        named: bool = False,
        states_cap: bool = True,
        contract: str = "",
    ) -> Account:
        """The account that pays for the rows at these addresses; opened, and bound to them, where
        none is.

        Caps and shares are the ledger's: those of a contract count where nothing was charged yet;
        later a charge by it lowers them, as in a trial is foreseen, and nothing raises them.

        Args:
            declared: what a contract says of the account.
            addresses: canonical public addresses of its rows; of a benchmark they are only looked
                up.
            named: whether the contract names the account, in place of taking the one that is there.
            states_cap: whether the caps are stated, and not what a first release costs: those leave
                a charged account's as they are.
            contract: its name, of which a trial tells that it lowers a cap.
        Raises PrivacyError: the rows belong to another account, or the account protects something
        else.
        """
        if self._real is not None:
            self._real._bind_server(declared, addresses, named=named)
        as_charged = {"states_cap": states_cap, "is_charged": self._real is not None}

        def found() -> tuple[Account | None, list[str]]:
            return accounts.find(fold, declared, addresses, named=named)

        with self._chain.reading() as fold:
            stored, missing = found()
            if (
                stored
                and not missing
                and accounts.wanted(fold, stored, declared, **as_charged) == stored
            ):
                return stored
        with self._chain.changing() as change:
            fold = change.fold
            stored, missing = found()  # another process may have been faster
            account = (
                accounts.opened(change, declared)
                if stored is None
                else accounts.agreed(change, stored, declared, **as_charged, contract=contract)
            )
            if missing:
                accounts.bind(change, account.name, missing)
            return account

    def _bind_server(self, declared: Account, addresses: Sequence[str], *, named: bool) -> None:
        """Bind all addresses of a server to the account that pays at one of them already."""
        with self._chain.reading() as fold:
            if not accounts.is_known_server(fold, addresses):
                return
            payer, missing = accounts.find(fold, declared, addresses, named=named)
        if payer is not None and missing:
            with self._chain.changing() as change:
                accounts.bind(change, payer.name, missing)

    def bind(self, name: str, addresses: Sequence[str]) -> None:
        """Bind an open account to addresses that no account is bound to yet, and change nothing
        else of it.
        """
        with self._chain.changing() as change:
            free = [
                address
                for address in addresses
                if not accounts.payers_at(change.fold, [address]).sure
            ]
            if free:
                accounts.bind(change, change.fold.account(name).account.name, free)

    def other_file(self, name: str, path: Path) -> None:
        """State that a file is not the one that an account paid for when that had its device and
        inode, which are used again; the chain keeps it. Raises LedgerError: there is no such
        account; PrivacyError: it pays for that file, or never paid for one of this inode.
        """
        with self._chain.changing() as change:
            change.fold.account(name)
            accounts.other_file(change, name, os.path.realpath(path))

    def set_cap(self, name: str, epsilon_cap: float, delta_cap: float = 0.0) -> None:
        """Change the caps of an account; the chain keeps the old ones, and what this user's other
        ledgers have spent for the same rows. Raises LedgerError: there is no such account;
        PrivacyError: it is a benchmark account, which has no cap.
        """
        check_caps(epsilon_cap, delta_cap)
        with self._chain.changing() as change:
            if change.fold.account(name).row["benchmark"]:
                raise PrivacyError(
                    f"account {name!r} is a benchmark account; it has no cap to change"
                )
            spenders = budget.spent_elsewhere(change.fold, name, change.others())
            known = {other.key: other.epsilon for other in spenders}
            note = {ELSEWHERE: known} if known else {}
            accounts.put(change, name, {"epsilon_cap": epsilon_cap, "delta_cap": delta_cap}, note)

    def set_share(self, name: str, user: str, epsilon: float) -> None:
        """Change the most epsilon that a user may charge to an account; the chain keeps what was.
        Raises LedgerError: there is no such account; PrivacyError: it is a benchmark account;
        ParameterError: epsilon is negative, NaN or infinite.
        """
        if not 0 <= epsilon < math.inf:
            raise ParameterError("share", epsilon, "a finite number >= 0")
        with self._chain.changing() as change:
            if change.fold.account(name).row["benchmark"]:
                raise PrivacyError(
                    f"account {name!r} is a benchmark account; it has no cap to share"
                )
            accounts.put_shares(change, name, {user: epsilon}, {})

    def reserve(
        self,
        release: ReleaseCharge,
        *,
        stated: Account | None = None,
        states_cap: bool = True,
        contract: str = "",
    ) -> Reservation:
        """Charge a release to its account, once; the same release again costs nothing.

        The chain is locked, checked and followed to its end in the transaction that spends.
        `stated`: what the contract of this name says of the account; its caps and shares are
        decided by its first charge, unless a command set some, and lowered by this one, which has
        to fit in. `states_cap`: as of `ensure_account`.
        Raises BudgetError: the account's total would exceed its cap, or the user's their share;
        PrivacyError: the id is charged for something else, the guarantee protects something else
        than the account, or states less than its event costs; LedgerError: there is no such
        account, the ledger was edited or rolled back, or another one was charged for the same rows.
        Of a part of a horizon LedgerRefusedError: that horizon is not charged here, or has no such
        period.
        """
        accountant.check(release.guarantee)
        is_part = holds_part(release.guarantee.event)
        name = release.account
        with self._chain.changing() as change:
            fold = change.fold
            state = fold.account(name)
            known = fold.charges.get(release.release_id)
            account = state.account
            if known is not None:
                # what drew it may have been seen before the ledger came back
                if is_part and known.artefact_sha256 is None:
                    budget.check_goes_on(fold, account, release)
                return reserved_before(known, release)
            if not account.benchmark:
                budget.check_elsewhere(fold, name, change.others())
            if stated is not None and not is_part:
                same = replace(stated, unit=account.unit, neighbours=account.neighbours)
                account = accounts.agreed(
                    change, account, same, states_cap=states_cap, contract=contract
                )
            spent: Spent | None = (
                budget.check_part(fold, account, release)
                if is_part
                else budget.check_cap(fold, name, release.guarantee)
            )
            if not is_part:
                budget.check_share(fold, name, [release.guarantee], self._by.user)
            before = after = None
            if spent is not None:
                before = state.spent or spent_text(state.total)
                after = spent_text(spent)
            told = {**fold.told_of(name), "before": before, "spent": after}
            change.append("reserved", charge_content(fold, release) | told | vars(self._by))
        return Reservation("reserved", None, is_new=True)

    def check_horizon(self, release_id: str) -> None:
        """Whether a horizon, if it is charged, can go on: asked before a row is read, as `reserve`
        asks for every part. Raises LedgerRefusedError: the ledger came back since.
        """
        with self._chain.reading() as fold:
            if (horizon := fold.charges.get(release_id)) is not None:
                budget.check_kept(fold, horizon)

    def begin_drawing(self, release_id: str) -> None:
        """Note, durably, that a release's mechanism is about to read rows; from then on nothing
        else can be made for its cost. Raises LedgerError: it is not charged, or another one was
        made for its cost.
        """
        with self._chain.changing() as change:
            charge = change.fold.charges.get(release_id)
            if charge is None:
                raise LedgerError(
                    f"release {release_id} is not charged; expected reserve before a row is read"
                )
            if not charge.is_begun:
                change.append("drawing", {"release_id": release_id})

    def take_up(self, release: ReleaseCharge, *, differing: Sequence[str]) -> bool:
        """Let a release stand in the place of one whose mechanism never read a row, as its model
        failed first; whether there was one. `differing`: names of the parameters that the two may
        differ in.
        """
        with self._chain.changing() as change:
            charges = change.fold.charges
            idle = never_drawn(change.fold, release, differing)
            if idle is None or release.release_id in charges:
                return False
            # who had charged it still has
            replaced = {"in_place_of": idle.release_id, "user": idle.user, "command": idle.command}
            change.append("taken_up", charge_content(change.fold, release) | replaced)
        return True

    def publish(self, release_id: str, artefact_sha256: str) -> str:
        """Make an artefact the release, unless one is; gives the hash of the winner. Raises
        LedgerError: the release was never reserved.
        """
        if not re.fullmatch("[0-9a-f]{64}", artefact_sha256):
            raise ParameterError("artefact_sha256", artefact_sha256, "64 hexadecimal digits")
        with self._chain.changing() as change:
            known = change.fold.charges.get(release_id)
            if known is None:
                raise LedgerError(
                    f"release {release_id} was never reserved; expected reserve before publish"
                )
            if known.artefact_sha256 is not None:
                return known.artefact_sha256
            won = {"artefact_sha256": artefact_sha256, "published_utc": now()}
            change.append("published", {"release_id": release_id, **won, **change.fold.branch})
        return artefact_sha256
