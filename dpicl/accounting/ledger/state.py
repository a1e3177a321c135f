"""The state that every record of the chain commits to: accounts, whose rows they pay for, what they have spent, and the seals' root.

Few rows, however many releases there are. A record holds their digest, so that a transaction that spends
checks them against the end of the chain, and needs no older record for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, assets, seals, totals

LedgerState = dict[str, list[dict[str, Any]]]
_TABLES: Mapping[str, Table] = {"accounts": accounts, "assets": assets, "totals": totals}
JOINED = "account:"
"""Before the name of an older account that was merged into another one: an address like any other."""
_NESTED = ("file:", "s3://")
"""Addresses of places that may lie in each other."""


def read_state(connection: Connection) -> LedgerState:
    """All rows of the three tables, by their keys, and the root of the seals."""
    root = connection.execute(select(seals.c.digest).where(seals.c.prefix == "")).scalars()
    return {**{name: _rows(connection, table) for name, table in _TABLES.items()}, "seals": [{"root": digest} for digest in root]}


def write_state(connection: Connection, state: LedgerState) -> None:
    """Put these rows in the place of those that are there."""
    for name in ("totals", "assets"):
        connection.execute(delete(_TABLES[name]))
    known = {row["name"] for row in _rows(connection, accounts)}
    for row in state["accounts"]:
        if row["name"] in known:
            connection.execute(accounts.update().where(accounts.c.name == row["name"]).values(row))
        else:
            connection.execute(insert(accounts).values(row))
    for name in ("assets", "totals"):
        if state[name]:
            connection.execute(insert(_TABLES[name]), state[name])


def _rows(connection: Connection, table: Table) -> list[dict[str, Any]]:
    first = next(iter(table.primary_key))
    return [dict(row._mapping) for row in connection.execute(select(table).order_by(first))]


def digest_of(state: LedgerState) -> str:
    """SHA-256 of a state: 64 hexadecimal digits."""
    ordered = {name: sorted(map(canonical, rows)) for name, rows in state.items()}
    return hashlib.sha256(canonical(ordered).encode()).hexdigest()


def payer_of(connection: Connection, name: str) -> str:
    """The account that pays under this name: itself, or the one that it was merged into."""
    payer = connection.execute(select(assets.c.account).where(assets.c.address == JOINED + name)).scalar()
    return name if payer is None else str(payer)


def members_of(connection: Connection, name: str) -> list[str]:
    """The account, and those merged into it."""
    joined = select(assets.c.address).where(assets.c.account == name, assets.c.address.startswith(JOINED, autoescape=True))
    return [name, *(address.removeprefix(JOINED) for address in connection.execute(joined).scalars())]


def payers_at(connection: Connection, addresses: Iterable[str]) -> set[str]:
    """The accounts that pay for the rows at these addresses, or for places that lie in one of them or that one of them lies in."""
    known = [(row["address"], row["account"]) for row in _rows(connection, assets)]
    payers = set()
    for mine in addresses:
        for address, account in known:
            shorter, longer = sorted((mine, address), key=len)
            if mine == address or (shorter.startswith(_NESTED) and longer.startswith(shorter.rstrip("/") + "/")):
                payers.add(account)
    return payers


def spent_of(connection: Connection, name: str) -> Spent:
    """What an account with a cap has spent."""
    written = connection.execute(select(totals.c.spent).where(totals.c.account == name)).scalar()
    return Spent.nothing() if written is None else Spent.from_json(json.loads(written))


def write_spent(connection: Connection, name: str, spent: Spent) -> str:
    """Put this total in the place of the one that is there; gives it as it is written."""
    written = canonical(spent.as_json())
    changed = connection.execute(totals.update().where(totals.c.account == name).values(spent=written)).rowcount
    if not changed:
        connection.execute(insert(totals).values(account=name, spent=written))
    return written
