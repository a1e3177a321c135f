"""An older ledger: its accounts become accounts of data assets, once, when this program first opens
it.

Accounts were called after contracts, and local releases had accounts of their own (`NAME-clients`).
Those that are of the same rows are joined: a pair of names, and all that have released under one
version of the same rows.

Guarantee   never a larger budget than before. The joined account has the smallest cap of all and
            the total of all; where the parts have no total under one unit and one relation, the cap
            is 0: nothing more is charged.
"""

from __future__ import annotations

import json
from dataclasses import replace

from sqlalchemy import Connection, select

from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.ledger import seals
from dpicl.accounting.ledger.budget import as_paid
from dpicl.accounting.ledger.chain import Change, verify
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, entries
from dpicl.accounting.ledger.rows import (
    JOINED,
    LedgerState,
    account_row,
    account_value,
    now,
    write_state,
)
from dpicl.accounting.ledger.values import Account
from dpicl.errors import PrivacyError

CLIENTS = "-clients"
"""What accounts of local releases were called after the contract's name; a benchmark's are so
still.
"""


def settle(change: Change) -> None:
    """Join accounts of the same rows, and add up what each has spent. Raises LedgerRefusedError:
    the ledger was edited or rolled back.
    """
    last = change.lock_chain()
    if not change.end.sequence or "state" in last:
        return
    verify(change.connection, change.key, change.end)
    stored = change.connection.execute(select(accounts).order_by(accounts.c.opened_utc)).all()
    known, opened = (
        {row.name: account_value(row) for row in stored},
        {row.name: row.opened_utc for row in stored},
    )
    state: LedgerState = {"accounts": [], "assets": [], "totals": []}
    for group in _groups(
        change.connection, [name for name, account in known.items() if not account.benchmark]
    ):
        charged = (
            select(entries.c.guarantee)
            .where(entries.c.account.in_(group))
            .order_by(entries.c.number)
        )
        costs = [
            guarantee_from_json(json.loads(written))
            for written in change.connection.execute(charged).scalars()
        ]
        account, spent = _joined([known[name] for name in group], costs)
        known[account.name] = account
        state["assets"] += [
            {"address": JOINED + name, "account": account.name}
            for name in group
            if name != account.name
        ]
        if costs:
            state["totals"].append({"account": account.name, "spent": canonical(spent.as_json())})
    for name, account in known.items():
        row = account_row(account)
        state["accounts"].append(row | {"opened_utc": opened.get(name, row["opened_utc"])})
    write_state(change.connection, state)
    seals.seal_all(change.connection)
    change.append("settled", {**state, "settled_utc": now()})


def _groups(connection: Connection, names: list[str]) -> list[list[str]]:
    """Accounts of the same rows together, each in the order of their opening."""
    marks: dict[str, set[str]] = {name: {"name " + name.removesuffix(CLIENTS)} for name in names}
    for account, version in connection.execute(
        select(entries.c.account, entries.c.content_version).distinct()
    ):
        if account in marks and version:
            marks[account].add("rows " + version)
    groups: list[list[str]] = []
    for name in names:
        mine = marks[name]
        joined = [group for group in groups if any(marks[other] & mine for other in group)]
        groups = [group for group in groups if group not in joined] + [
            [*(other for group in joined for other in group), name]
        ]
    return [sorted(group, key=names.index) for group in groups]


def _joined(members: list[Account], costs: list[Guarantee]) -> tuple[Account, Spent]:
    """One account for all, and what they have spent together."""
    central = [account for account in members if not account.name.endswith(CLIENTS)]
    first = (central or members)[0]
    neighbours = (
        Neighbours.REPLACE_ONE
        if any(cost.neighbours is Neighbours.REPLACE_ONE for cost in costs)
        else first.neighbours
    )
    epsilon_cap = min(account.epsilon_cap or 0.0 for account in members)
    delta_cap = min((account.delta_cap for account in members if account.delta_cap), default=0.0)
    account = Account(
        first.name.removesuffix(CLIENTS), first.unit, neighbours, epsilon_cap, delta_cap
    )
    spent = Spent.nothing()
    try:
        if len({member.unit for member in central}) > 1:
            raise PrivacyError("accounts of the same rows protect different units")
        for cost in costs:
            spent = spent.plus(as_paid(cost, account))
    except PrivacyError:
        return replace(account, epsilon_cap=0.0), spent
    return account, spent
