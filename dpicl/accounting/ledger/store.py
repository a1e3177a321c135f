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

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from dpicl.accounting import accountant
from dpicl.accounting.events import holds_part
from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger import assets, budget, elsewhere, horizons, opening
from dpicl.accounting.ledger.fold import Charge, Fold, now, terms_of
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.reading import Readings
from dpicl.accounting.ledger.values import Account, Release, Reservation, check_caps
from dpicl.accounting.ledger.witness import Witness
from dpicl.errors import LedgerError, ParameterError, PrivacyError


class Ledger(Readings):
    """The ledger at `url`, made there on first use; `anchor_file` lies outside the database, the
    witness outside the state home.

    Threads may share one; a forked process opens its own.
    Raises LedgerError: the database cannot be used; a LedgerRefusedError if it was edited or rolled
    back, has another key, or was made by another version.
    """

    def __init__(
        self, url: str | URL, key: bytes, anchor_file: Path, witness: Witness | None = None
    ) -> None:
        super().__init__(url, key, anchor_file, witness)
        self._chain.check()

    @classmethod
    @contextmanager
    def open(
        cls, url: str | URL, key: bytes, anchor_file: Path, witness: Witness | None = None
    ) -> Iterator[Ledger]:
        """A ledger for the length of a block."""
        with closing(cls(url, key, anchor_file, witness)) as ledger:
            yield ledger

    def witness_anew(self, witness: Witness) -> None:
        """Let a witness see this ledger, whatever it has seen before, as after a restore."""
        with witness.held(), self._chain.reading() as fold:
            witness.advance(fold.head, fold.state(), replace=True)

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

        def found() -> tuple[Account | None, list[str]]:
            return opening.find(fold, declared, addresses, named=named)

        with self._chain.reading() as fold:
            stored, missing = found()
            if (
                stored
                and not missing
                and opening.wanted(fold, stored, declared, states_cap=states_cap) == stored
            ):
                return stored
        with self._chain.changing() as change:
            fold = change.fold
            stored, missing = found()  # another process may have been faster
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
        with self._chain.changing() as change:
            free = [
                address
                for address in addresses
                if not assets.payers_at(change.fold, [address]).sure
            ]
            if free:
                assets.bind(change, change.fold.account(name).account.name, free)

    def other_file(self, name: str, path: Path) -> None:
        """State that a file is not the one that an account paid for when that had its device and
        inode, which are used again; the chain keeps it. Raises LedgerError: there is no such
        account; PrivacyError: it pays for that file, or never paid for one of this inode.
        """
        with self._chain.changing() as change:
            change.fold.account(name)
            assets.other_file(change, name, os.path.realpath(path))

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
            known = elsewhere.statement(
                elsewhere.spent_elsewhere(change.fold, name, change.others())
            )
            opening.put(change, name, {"epsilon_cap": epsilon_cap, "delta_cap": delta_cap}, known)

    def reserve(self, release: Release, *, first: Account | None = None) -> Reservation:
        """Charge a release to its account, once; the same release again costs nothing.

        The chain is locked, checked and followed to its end in the transaction that spends.
        `first`: what the contract says of the account; its caps are decided by its first charge,
        unless a command set some. Raises BudgetError: the account's total would exceed its cap;
        PrivacyError: the id is charged for something else, the guarantee protects something else
        than the account, or states less than its event costs; LedgerError: there is no such
        account, the ledger was edited or rolled back, or another one was charged for the same rows.
        Of a part of a horizon LedgerRefusedError: that horizon is not charged here, or has no such
        period.
        """
        accountant.check(release.guarantee)
        is_part, name = holds_part(release.guarantee.event), release.account
        with self._chain.changing() as change:
            fold = change.fold
            state, known = fold.account(name), fold.charges.get(release.release_id)
            account = state.account
            if known is not None:
                # what drew it may have been seen before the ledger came back
                if is_part and known.artefact_sha256 is None:
                    horizons.check_goes_on(fold, account, release)
                return _reserved_before(known, release)
            if not account.benchmark:
                elsewhere.check(fold, name, change.others())
            if first is not None:  # what is planned next to it may have brought other caps
                account = opening.first_charged(change, account, first)
            spent: Spent | None = (
                horizons.check_part(fold, account, release)
                if is_part
                else budget.check_cap(fold, name, release.guarantee)
            )
            totals = (
                {"before": None, "spent": None}
                if spent is None
                else {
                    "before": canonical(state.total.as_json()),
                    "spent": canonical(spent.as_json()),
                }
            )
            paying = {"account_row": state.row, "addresses": assets.bound_to(fold, name)}
            change.append("reserved", {**_charged(fold, release), **totals, **paying})
        return Reservation("reserved", None, is_new=True)

    def check_horizon(self, release_id: str) -> None:
        """Whether a horizon, if it is charged, can go on: asked before a row is read, as `reserve`
        asks for every part. Raises LedgerRefusedError: the ledger came back since.
        """
        with self._chain.reading() as fold:
            if (horizon := fold.charges.get(release_id)) is not None:
                horizons.check_kept(fold, horizon)

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

    def take_up(self, release: Release, *, differing: Sequence[str]) -> bool:
        """Let a release stand in the place of one whose mechanism never read a row, as its model
        failed first; whether there was one. `differing`: names of the parameters that the two may
        differ in.
        """
        with self._chain.changing() as change:
            charges = change.fold.charges
            idle = _idle(change.fold, release, differing)
            if idle is None or release.release_id in charges:
                return False
            replaced = {"in_place_of": idle.release_id}
            change.append("taken_up", {**_charged(change.fold, release), **replaced})
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


def _charged(fold: Fold, release: Release) -> dict[str, Any]:
    """What the next record says of a release that it charges."""
    number = {"number": fold.head.sequence + 1, "reserved_utc": now()}
    return {**terms_of(release), **number, **fold.branch}


def _reserved_before(known: Charge, release: Release) -> Reservation:
    """The reservation of a release that is charged already. Raises PrivacyError: it was charged for
    something else.
    """
    different = [name for name, term in terms_of(release).items() if getattr(known, name) != term]
    if different:
        raise PrivacyError(
            f"release {known.release_id} is charged already with another "
            f"{' and '.join(different)}; one id is one release"
        )
    return Reservation(
        "reserved" if known.artefact_sha256 is None else "published",
        known.artefact_sha256,
        is_new=False,
    )


def _idle(fold: Fold, release: Release, differing: Sequence[str]) -> Charge | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever
    drawn; None where there is none.
    """
    terms = terms_of(release)

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical(
            {name: value for name, value in parameters.items() if name not in differing}
        )

    same, mine = ("account", "mechanism", "guarantee"), but(release.parameters)
    return next(
        (
            charge
            for charge in fold.charges_of(release.account)
            if charge.artefact_sha256 is None
            and not charge.is_begun
            and all(getattr(charge, name) == terms[name] for name in same)
            and but(json.loads(charge.parameters)) == mine
        ),
        None,
    )
