"""Accounts: which one pays for the rows at an address, what a contract may say of it, and who
decided on its caps.

Unit        one per account, set at its first charge.
Neighbours  one relation per account, set at its first charge.
Guarantee   one account per data asset: an address that is bound to an account pays there, under
            whatever name a contract knows it. A contract lowers a cap or a user's share, by a
            charge that goes through, and never raises one. A cap that a command set holds, whatever
            contracts say, until it is set again.

Whose rows are where: which accounts pay at an address, and how an address comes to an account.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from dpicl.ground.errors import PrivacyError
from dpicl.ground.files import INODE, LivingPaths, inode_address
from dpicl.ledger.chain import Change
from dpicl.ledger.fold import (
    CONTRACT,
    LOWERED,
    STATED,
    Account,
    AccountState,
    Fold,
    account_row,
    account_terms,
    now,
)


def find(
    fold: Fold, declared: Account, addresses: Sequence[str], *, named: bool
) -> tuple[Account | None, list[str]]:
    """The account that is open for these rows, None where none is; and the addresses that are not
    bound to it yet. Raises PrivacyError: the rows belong to several accounts, to another than the
    one that is named, or to one that a benchmark cannot have; or they have only the name of an
    account whose rows are elsewhere.
    """
    found = payers_at(fold, addresses)
    own = declared.name
    if not declared.benchmark or any(not fold.is_unused(name) for name in found.doubtful):
        check_doubt(found, own)
    payers = set(found.sure)
    if declared.benchmark:
        charged = sorted(name for name in payers if not fold.is_unused(name))
        if charged:
            raise PrivacyError(
                f"{declared.name}: releases of these rows were charged to account {charged[0]!r}; "
                f"what was ever charged is no benchmark: "
                f"expected `budget: {{epsilon: CAP}}` in place of `benchmark: true`"
            )
        return _stored(fold, own), []
    if named and len(payers) == 1 and own not in payers:
        (payer,) = payers
        raise PrivacyError(
            f"account {own!r}: its rows belong to account {found.with_reason(payer)}; expected "
            f"`account: {payer}`"
        )
    if not named and own not in payers and payers:
        stored = _stored(fold, own)
        if stored is not None and not stored.benchmark and not fold.is_unused(own):
            payers |= {own}  # its own rows are elsewhere
    _check_one(f"account {own!r}", payers, found)
    if not named and not payers and own not in found.doubtful:
        _check_not_another(fold, declared, addresses)
    name = next(iter(payers), own)
    known = fold.addresses_of(name)
    return _stored(fold, name), [address for address in found.addresses if address not in known]


def _check_not_another(fold: Fold, declared: Account, addresses: Sequence[str]) -> None:
    """Refuse rows of a file that have an account's name alone, while a file of the same name that
    it has paid for still stands in another folder: its releases tell nothing of them. A file of
    another name may be the next of the same asset, as of a link that is pointed anew.
    """
    own = declared.name
    stored = _stored(fold, own)
    if stored is None or stored.benchmark or fold.is_unused(own):
        return
    mine, paid = (
        [Path(one.removeprefix(FILE)) for one in some if one.startswith(FILE)]
        for some in (addresses, fold.addresses_of(own))
    )
    names = {place.name for place in mine}
    if other := next((place for place in paid if place.name in names and place.exists()), None):
        raise PrivacyError(
            f"account {own!r} has paid for {other}, which is another file than {mine[0]}; "
            f"expected `account: {own}` in the contract where both are the same asset, else a "
            f"contract of another name"
        )


def payer_at(fold: Fold, addresses: Sequence[str], named: str | None) -> str | None:
    """The account that pays for the rows at these addresses; None where none does. Raises
    PrivacyError: as `find`.
    """
    found = payers_at(fold, addresses)
    check_doubt(found, named or "")
    _check_one("the rows" if named is None else f"account {named!r}", set(found.sure), found)
    return next(iter(found.sure), None)


def _stored(fold: Fold, name: str) -> Account | None:
    return fold.accounts[name].account if name in fold.accounts else None


def _check_one(own: str, payers: Collection[str], found: Payers) -> None:
    if len(payers) > 1:
        names = ", ".join(map(found.with_reason, sorted(payers)))
        raise PrivacyError(
            f"{own}: its rows belong to several accounts, {names}; expected the rows of one"
        )


def wanted(
    fold: Fold,
    stored: Account,
    declared: Account,
    *,
    states_cap: bool = True,
    is_charged: bool = True,
) -> Account:
    """What an open account becomes by a contract, where that lowers its caps or shares and
    `is_charged`, or comes first; one that states no cap lowers none, nor does any once a command
    has set it. Raises PrivacyError: the account protects something else.
    """
    state = fold.accounts[stored.name]
    declared = replace(declared, name=stored.name, shares=_smallest(state, declared))
    if declared.benchmark != stored.benchmark:
        _check_same(stored, declared)
    if fold.is_unused(stored.name):
        if state.is_decided:  # a command set the caps, or nothing may be spent
            return replace(declared, epsilon_cap=stored.epsilon_cap, delta_cap=stored.delta_cap)
        return declared
    _check_same(stored, declared)
    if not is_charged:
        return stored
    stored = replace(stored, shares=declared.shares)
    if stored.benchmark or not states_cap or state.is_decided_now:
        return stored
    assert stored.epsilon_cap is not None and declared.epsilon_cap is not None
    # 0 in a contract says nothing of delta
    deltas = [delta for delta in (stored.delta_cap, declared.delta_cap) if delta]
    lowest_delta = min(deltas) if stored.delta_cap else 0.0
    return replace(
        stored, epsilon_cap=min(stored.epsilon_cap, declared.epsilon_cap), delta_cap=lowest_delta
    )


def _smallest(state: AccountState, declared: Account) -> tuple[tuple[str, float], ...]:
    """The shares that an account would have by a contract: of each user the smallest that was ever
    stated, unless a command has set another one since.
    """
    shares = dict(state.account.shares)
    for user, most in declared.shares:
        if most not in state.stated_shares.get(user, ()):
            shares[user] = min(most, shares.get(user, most))
    return tuple(sorted(shares.items()))


def agreed(
    change: Change,
    stored: Account,
    declared: Account,
    *,
    states_cap: bool = True,
    is_charged: bool = True,
    contract: str = "",
) -> Account:
    """The account as the contract of this name may have it; the other arguments are those of
    `wanted`.
    """
    is_unused = change.fold.is_unused(stored.name)
    after = wanted(change.fold, stored, declared, states_cap=states_cap, is_charged=is_charged)
    terms, before = account_terms(after), account_terms(stored)
    if changed := {name: value for name, value in terms.items() if value != before[name]}:
        note = {"by": CONTRACT, STATED: [declared.epsilon_cap, declared.delta_cap]}
        lowered = [stored.epsilon_cap, stored.delta_cap, contract]
        put(change, stored.name, changed, note | ({} if is_unused else {LOWERED: lowered}))
    shares, known = dict(after.shares), dict(stored.shares)
    if smaller := {user: most for user, most in shares.items() if most != known.get(user)}:
        put_shares(change, stored.name, smaller, {"by": CONTRACT})
    return after


def opened(change: Change, declared: Account) -> Account:
    """A new account. Where charges may be lost, it may be one that was charged: nothing is, until a
    command says how much.
    """
    if not declared.benchmark and change.fold.is_incomplete:
        declared = replace(declared, epsilon_cap=0.0)
    change.append("opened", account_row(declared))
    return declared


def put(change: Change, name: str, terms: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Change what is agreed on an account; the chain keeps what was."""
    caps = {cap: change.fold.accounts[name].row[cap] for cap in ("epsilon_cap", "delta_cap")}
    change.append(
        "cap",
        {"account": name, **caps, **terms, **note, **change.fold.branch, "changed_utc": now()},
    )


def put_shares(
    change: Change, name: str, shares: Mapping[str, float], note: Mapping[str, Any]
) -> None:
    """Change the shares of some users of an account; the chain keeps what was."""
    change.append("shares", {"account": name, "shares": shares, **note, "changed_utc": now()})


def _check_same(stored: Account, declared: Account) -> None:
    """Refuse to go on with an open account that is not the one a contract declares; caps may
    differ, but those of benchmarks, and shares.
    """
    for name, value in account_terms(declared).items():
        current = getattr(stored, name)
        is_cap = name in ("epsilon_cap", "delta_cap")
        if current == value or (is_cap and not (stored.benchmark and declared.benchmark)):
            continue
        if not stored.benchmark:
            way_out = (
                "all contracts on the same rows share one account, one unit and one relation; "
                f"a cap changes by `dpicl budget {stored.name} --cap`"
            )
        elif declared.benchmark:
            # nothing is at stake there: another account may be opened for the same rows
            way_out = (
                "nothing of a benchmark's account changes; expected what it was opened with in "
                "the contract, or a contract of another name"
            )
        else:
            way_out = "expected a contract of another name for rows that are not public"
        raise PrivacyError(
            f"account {stored.name!r} is open with {name}={current}, not {value}; {way_out}"
        )


FILE = "file:"
DATABASE = "pg:"
PLACE = "pg-at:"
LATEST = (INODE, PLACE)
"""Addresses that go from one account to the next, as files are replaced and servers change their
places.
"""
MOST_INODES = 32
"""Of an account's files that are gone, which would be one more every night."""
MOST_FILES = 256
"""Of a folder whose files are known by device and inode, one by one."""
_NESTED = (FILE, "s3://")
"""Addresses of places that may lie in each other."""


@dataclass(frozen=True)
class Payers:
    """Accounts of the rows at some addresses.

    Attributes:
        sure: those that pay, each with the reason where it is not plain.
        doubtful: those that paid for an inode that one of the paths has now, and that none of their
            own paths has; with that path.
        addresses: all addresses that the rows should be bound to.
    """

    sure: Mapping[str, str]
    doubtful: Mapping[str, str]
    addresses: Sequence[str]

    def with_reason(self, name: str) -> str:
        """The name of an account, and why it pays where that is not plain."""
        reason = self.sure.get(name)
        return f"{name!r} ({reason})" if reason else repr(name)


def payers_at(fold: Fold, addresses: Iterable[str]) -> Payers:
    """The accounts that pay for the rows at these addresses, or for places that lie in one of them
    or that one of them lies in.
    """
    known = fold.assets
    mine = list(dict.fromkeys(addresses))
    living = LivingPaths()
    sure = dict[str, str]()
    is_identified = any(address.startswith(DATABASE) and address in known for address in mine)
    for address in (
        address for address in mine if not (is_identified and address.startswith(PLACE))
    ):
        for bound, account in known.items():
            if account not in sure and (reason := _reason(address, bound, living)) is not None:
                sure[account] = reason
    inodes = {inode: path for address in mine for inode, path in _inodes(address).items()}
    doubtful = (
        {} if sure else {known[inode]: path for inode, path in inodes.items() if inode in known}
    )
    return Payers(sure, doubtful, [*mine, *inodes])


def is_known_server(fold: Fold, addresses: Iterable[str]) -> bool:
    """Whether an account pays for this database, or for what a server at its address has."""
    return any(
        address.startswith((DATABASE, PLACE)) and address in fold.assets for address in addresses
    )


def _inodes(address: str) -> dict[str, str]:
    """The paths of what an address leads to, by device and inode: of a folder the files in it too,
    which may be moved.
    """
    if not address.startswith(FILE):
        return {}
    paths = [address.removeprefix(FILE)]
    with suppress(OSError), os.scandir(paths[0]) as entries:
        paths += [entry.path for entry in islice(entries, MOST_FILES) if entry.is_file()]
    return {inode: path for path in paths if (inode := inode_address(path)) is not None}


def are_same_rows(mine: Iterable[str], others: Sequence[str]) -> bool:
    """Whether rows at one of some addresses are, or lie in, what one of others leads to."""
    living = LivingPaths()
    return any(_reason(address, other, living) is not None for address in mine for other in others)


def _reason(mine: str, bound: str, living: LivingPaths) -> str | None:
    """Why the account of a bound address pays for mine as well; None if it does not."""
    if mine == bound:
        if mine.startswith(DATABASE):
            return (
                "the same database, or a replica or restored clone of it, by what its server says"
            )
        return ""
    shorter, longer = sorted((mine, bound), key=len)
    if shorter.startswith(_NESTED) and longer.startswith(shorter.rstrip("/") + "/"):
        return ""
    if (
        mine.startswith(FILE)
        and bound.startswith(FILE)
        and living.overlap(mine.removeprefix(FILE), bound.removeprefix(FILE))
    ):
        return f"the same file, or a link to it, is {bound.removeprefix(FILE)}"
    return None


def check_doubt(payers: Payers, own: str) -> None:
    """Raises PrivacyError: a file has the inode of one that another account than `own` paid for,
    and nobody has said what became of that.
    """
    for name, path in payers.doubtful.items():
        if name != own:
            raise PrivacyError(
                f"{path}: has the device and inode of a file that account {name!r} paid for, which "
                f"is at none of its places any more; expected `moved_from` (or `account: {name}`) "
                f"in the contract if it was moved or renamed, or `dpicl budget {name} --other-file "
                f"{quote(path)}` if it is another file"
            )


def bind(change: Change, name: str, addresses: Sequence[str]) -> None:
    """Let an account pay for the rows at these addresses from now on; the chain is locked. Some may
    have been another's.
    """
    bound = change.fold.addresses_of(name)
    alive = {inode for address in (*bound, *addresses) for inode in _inodes(address)} | set(
        addresses
    )
    past = sorted(
        (address for address in bound if address.startswith(INODE) and address not in alive),
        key=lambda address: int(address.rsplit(":", 1)[1]),
    )
    # where inodes are never used again, larger ones are newer
    dropped = past[: max(0, len(past) + 1 - MOST_INODES)]
    change.append(
        "bound",
        {"account": name, "addresses": list(addresses)} | ({"dropped": dropped} if dropped else {}),
    )


def other_file(change: Change, name: str, path: str) -> None:
    """Note that the file at a real path is not the one that an account paid for when it had this
    inode; the chain is locked. Raises PrivacyError: the account pays for that file, or never paid
    for one with its inode.
    """
    payers = payers_at(change.fold, [FILE + path])
    if name in payers.sure:
        raise PrivacyError(
            f"{path}: account {payers.with_reason(name)} pays for it; expected a file that is "
            f"none of its own"
        )
    inode = inode_address(path)
    if inode is None or inode not in change.fold.addresses_of(name):
        raise PrivacyError(
            f"{path}: account {name!r} has paid for no file of this device and inode; there is "
            f"nothing to state"
        )
    change.append(
        "bound", {"account": name, "addresses": [], "dropped": [inode], "other_file": path}
    )


def unplaced(fold: Fold) -> list[str]:
    """Names of accounts with a cap that are bound to no address of rows."""
    capped = {name for name, account in fold.accounts.items() if not account.row["benchmark"]}
    return sorted(capped - set(fold.assets.values()))
