"""Accounts: which one pays for the rows at an address, what a contract may say of it, and who
decided on its caps.

Unit        one per account, set at its first charge.
Neighbours  one relation per account, set at its first charge.
Guarantee   one account per data asset: an address that is bound to an account pays there, under
            whatever name a contract knows it. A contract lowers a cap and never raises one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from dpicl.accounting.ledger import assets
from dpicl.accounting.ledger.chain import Change
from dpicl.accounting.ledger.fold import CONTRACT, Fold, account_row, now
from dpicl.accounting.ledger.values import Account
from dpicl.errors import PrivacyError


def find(
    fold: Fold, declared: Account, addresses: Sequence[str], *, named: bool
) -> tuple[Account | None, list[str]]:
    """The account that is open for these rows, None where none is; and the addresses that are not
    bound to it yet. Raises PrivacyError: the rows belong to several accounts, to another than the
    one that is named, or to one that a benchmark cannot have.
    """
    found, own = assets.payers_at(fold, addresses), declared.name
    if not declared.benchmark or any(not fold.is_unused(name) for name in found.doubtful):
        assets.check_doubt(found, own)
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
    name = next(iter(payers), own)
    known = fold.addresses_of(name)
    return _stored(fold, name), [address for address in found.addresses if address not in known]


def payer_at(fold: Fold, addresses: Sequence[str], named: str | None) -> str | None:
    """The account that pays for the rows at these addresses; None where none does. Raises
    PrivacyError: as `find`.
    """
    found = assets.payers_at(fold, addresses)
    assets.check_doubt(found, named or "")
    _check_one("the rows" if named is None else f"account {named!r}", set(found.sure), found)
    return next(iter(found.sure), None)


def _stored(fold: Fold, name: str) -> Account | None:
    return fold.accounts[name].account if name in fold.accounts else None


def _check_one(own: str, payers: Collection[str], found: assets.Payers) -> None:
    if len(payers) > 1:
        names = ", ".join(map(found.with_reason, sorted(payers)))
        raise PrivacyError(
            f"{own}: its rows belong to several accounts, {names}; expected the rows of one"
        )


def wanted(fold: Fold, stored: Account, declared: Account, *, states_cap: bool = True) -> Account:
    """What an open account becomes by a contract, where that lowers its caps or comes first; one
    that states no cap lowers none. Raises PrivacyError: the account protects something else.
    """
    state, declared = fold.accounts[stored.name], replace(declared, name=stored.name)
    if declared.benchmark != stored.benchmark:
        _check_same(stored, declared)
    if fold.is_unused(stored.name):
        if state.is_decided:  # a command set the caps, or nothing may be spent
            return replace(declared, epsilon_cap=stored.epsilon_cap, delta_cap=stored.delta_cap)
        return declared
    _check_same(stored, declared)
    if stored.benchmark or not states_cap or state.has_stated(declared):
        return stored
    assert stored.epsilon_cap is not None and declared.epsilon_cap is not None
    # 0 in a contract says nothing of delta
    deltas = [delta for delta in (stored.delta_cap, declared.delta_cap) if delta]
    lowest_delta = min(deltas) if stored.delta_cap else 0.0
    return replace(
        stored, epsilon_cap=min(stored.epsilon_cap, declared.epsilon_cap), delta_cap=lowest_delta
    )


def agreed(
    change: Change, stored: Account, declared: Account, *, states_cap: bool = True
) -> Account:
    """The account as a contract may have it."""
    after = wanted(change.fold, stored, declared, states_cap=states_cap)
    if after != stored:
        changed = {
            name: value for name, value in asdict(after).items() if value != getattr(stored, name)
        }
        put(change, stored.name, changed, {"by": CONTRACT})
    return after


def first_charged(change: Change, stored: Account, declared: Account) -> Account:
    """The account that is about to be charged: by its first charge with these caps, unless a
    command has set some.
    """
    if not change.fold.is_unused(stored.name):
        return stored
    return agreed(change, stored, replace(declared, unit=stored.unit, neighbours=stored.neighbours))


def opened(change: Change, declared: Account) -> Account:
    """A new account. In a ledger that came from a backup it may be one that was charged since:
    nothing is, until a command says how much.
    """
    if not declared.benchmark and change.fold.restored[1]:
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


def _check_same(stored: Account, declared: Account) -> None:
    """Refuse to go on with an open account that is not the one a contract declares; caps may
    differ, but those of benchmarks.
    """
    for name, value in asdict(declared).items():
        current, is_cap = getattr(stored, name), name in ("epsilon_cap", "delta_cap")
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
