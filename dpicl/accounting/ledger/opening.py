"""Accounts: which one pays for the rows at an address, what a contract may say of it, and who
decided on its caps.

Unit        one per account, set at its first charge.
Neighbours  one relation per account, set at its first charge.
Guarantee   one account per data asset: an address that is bound to an account pays there, under
            whatever name a contract knows it. A contract lowers a cap and never raises one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from dpicl.accounting.ledger import assets, chain, rows
from dpicl.accounting.ledger.chain import Change, verify
from dpicl.accounting.ledger.models import accounts, entries, records, totals
from dpicl.accounting.ledger.restoring import RESTORED, branch_of, restored_from
from dpicl.accounting.ledger.values import Account
from dpicl.errors import LedgerRefusedError, PrivacyError

CONTRACT = "contract"
"""Who changed a cap, where no command did."""
Caps = tuple[float | None, float]


def find(
    connection: Connection, declared: Account, addresses: Sequence[str], *, named: bool
) -> tuple[Account | None, list[str]]:
    """The account that is open for these rows, None where none is; and the addresses that are not
    bound to it yet. Raises PrivacyError: the rows belong to several accounts, to another than the
    one that is named, or to one that a benchmark cannot have.
    """
    found = assets.payers_at(connection, addresses)
    own = declared.name
    if not declared.benchmark or any(not _is_unused(connection, name) for name in found.doubtful):
        assets.check_doubt(found, own)
    payers = set(found.sure)
    if declared.benchmark:
        charged = sorted(name for name in payers if not _is_unused(connection, name))
        if charged:
            raise PrivacyError(
                f"{declared.name}: releases of these rows were charged to account {charged[0]!r}; "
                f"what was ever charged is no benchmark: "
                f"expected `budget: {{epsilon: CAP}}` in place of `benchmark: true`"
            )
        return rows.stored_account(connection, declared.name), []
    if named and len(payers) == 1 and own not in payers:
        (payer,) = payers
        raise PrivacyError(
            f"account {own!r}: its rows belong to account {found.with_reason(payer)}; expected "
            f"`account: {payer}`"
        )
    if not named and own not in payers and payers:
        stored = rows.stored_account(connection, own)
        if stored is not None and not stored.benchmark and not _is_unused(connection, own):
            payers |= {own}  # its own rows are elsewhere
    _check_one(f"account {own!r}", payers, found)
    name = next(iter(payers), own)
    stored = rows.stored_account(connection, name)
    known = assets.bound_to(connection, name)
    return stored, [address for address in found.addresses if address not in known]


def payer_at(connection: Connection, addresses: Sequence[str], named: str | None) -> str | None:
    """The account that pays for the rows at these addresses; None where none does. Raises
    PrivacyError: as `find`.
    """
    found = assets.payers_at(connection, addresses)
    assets.check_doubt(found, named or "")
    _check_one("the rows" if named is None else f"account {named!r}", set(found.sure), found)
    return next(iter(found.sure), None)


def _check_one(own: str, payers: Collection[str], found: assets.Payers) -> None:
    if len(payers) > 1:
        names = ", ".join(map(found.with_reason, sorted(payers)))
        raise PrivacyError(
            f"{own}: its rows belong to several accounts, {names}; expected the rows of one"
        )


def wanted(
    connection: Connection,
    key: bytes,
    stored: Account,
    declared: Account,
    *,
    states_cap: bool = True,
) -> Account:
    """What an open account becomes by a contract, where that lowers its caps or comes first; one
    that states no cap lowers none. Raises PrivacyError: the account protects something else;
    LedgerRefusedError: a record that says what the caps are was edited.
    """
    declared = replace(declared, name=stored.name)
    if declared.benchmark != stored.benchmark:
        _check_same(stored, declared)
    if _is_unused(connection, stored.name):
        for sequence, kind, stated in _stated(connection, stored.name):
            by_command = kind == "cap" and not stated.get("by")
            # a command set the caps, or nothing may be spent: the ledger decides
            if by_command or stated["epsilon_cap"] == 0:
                chain.check_record(connection, key, sequence)
                return replace(declared, epsilon_cap=stored.epsilon_cap, delta_cap=stored.delta_cap)
        return declared
    _check_same(stored, declared)
    if (
        stored.benchmark
        or not states_cap
        or is_known(connection, key, stored.name, (declared.epsilon_cap, declared.delta_cap))
    ):
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
    """The account as a contract may have it; the chain is locked."""
    after = wanted(change.connection, change.key, stored, declared, states_cap=states_cap)
    if after != stored:
        verify(change.connection, change.key, change.end)  # rare, and a cap is at stake
        changed = {
            name: value for name, value in asdict(after).items() if value != getattr(stored, name)
        }
        put(change, stored.name, changed, {"by": CONTRACT})
    return after


def first_charged(change: Change, stored: Account, declared: Account) -> Account:
    """The account that is about to be charged: by its first charge with these caps, unless a
    command has set some; the chain is locked.
    """
    if not _is_unused(change.connection, stored.name):
        return stored
    return agreed(change, stored, replace(declared, unit=stored.unit, neighbours=stored.neighbours))


def opened(change: Change, declared: Account) -> Account:
    """A new account; the chain is locked. In a ledger that came from a backup it may be one that
    was charged since: nothing is, until a command says how much.
    """
    if not declared.benchmark and restored_from(change.connection) is not None:
        declared = replace(declared, epsilon_cap=0.0)
    row = rows.account_row(declared)
    change.connection.execute(insert(accounts).values(row))
    change.append("opened", row)
    return declared


def put(change: Change, name: str, terms: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Change what is agreed on an account; the chain is locked, and keeps what was."""
    change.connection.execute(update(accounts).where(accounts.c.name == name).values(terms))
    now = change.connection.execute(
        select(accounts.c.epsilon_cap, accounts.c.delta_cap).where(accounts.c.name == name)
    ).one()
    caps = {"epsilon_cap": now.epsilon_cap, "delta_cap": now.delta_cap}
    change.append(
        "cap",
        {
            "account": name,
            **terms,
            **caps,
            **note,
            **branch_of(change.connection),
            "changed_utc": rows.now(),
        },
    )


def _stated(connection: Connection, name: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Every statement on an account's caps: number and kind of its record, and the caps."""
    statements = (
        select(records)
        .where(records.c.kind.in_(("opened", "cap", "adopted", RESTORED)))
        .order_by(records.c.sequence)
    )
    for row in connection.execute(statements):
        content = json.loads(row.content)
        for stated in content.get("accounts", [content]):
            if stated.get("name", stated.get("account")) == name:
                yield row.sequence, row.kind, stated


def is_known(connection: Connection, key: bytes, name: str, caps: Caps) -> bool:
    """Whether the account ever took these caps from a contract: a later decision on others was made
    knowing these. Raises LedgerRefusedError: no record says that the account was opened, or the one
    that says so was edited.
    """
    opened = False
    for sequence, kind, stated in _stated(connection, name):
        opened = opened or kind != "cap"
        by_contract = kind not in ("cap", RESTORED) or stated.get("by") == CONTRACT
        if by_contract and (stated["epsilon_cap"], stated["delta_cap"]) == caps:
            chain.check_record(connection, key, sequence)
            return True
    if not opened:
        raise LedgerRefusedError(f"the ledger was edited: no record opens account {name!r}")
    return False


def _is_unused(connection: Connection, name: str) -> bool:
    """Whether nothing was ever charged to this account: by its entries, and by what it has
    spent.
    """
    if (
        connection.execute(
            select(entries.c.number).where(entries.c.account == name).limit(1)
        ).first()
        is not None
    ):
        return False
    return (
        connection.execute(
            select(totals.c.account).where(totals.c.account == name).limit(1)
        ).first()
        is None
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
