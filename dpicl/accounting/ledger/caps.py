"""Who decided on an account's caps: a contract, or somebody by a command.

Each answer goes by one record of the chain, which is compared with the key before it counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, select

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import chain
from dpicl.accounting.ledger.models import entries, records, totals
from dpicl.accounting.ledger.values import Account
from dpicl.errors import LedgerRefusedError

CONTRACT = "contract"
"""Who changed a cap, where nobody did by a command."""
Caps = tuple[float | None, float]


def _stated(connection: Connection, name: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Every statement on an account's caps: number and kind of its record, and the caps."""
    asked = select(records).where(records.c.kind.in_(("opened", "cap", "settled", "adopted"))).order_by(records.c.sequence)
    for row in connection.execute(asked):
        content = json.loads(row.content)
        for stated in content.get("accounts", [content]):
            if stated.get("name", stated.get("account")) == name:
                yield row.sequence, row.kind, stated


def is_known(connection: Connection, key: bytes, name: str, caps: Caps) -> bool:
    """Whether the account ever took these caps from a contract: who decided on others since then knew these.

    Raises:
        LedgerRefusedError: no record says that the account was opened, or the one that says so was edited.
    """
    opened = False
    for sequence, kind, stated in _stated(connection, name):
        opened = opened or kind != "cap"
        by_contract = kind != "cap" or stated.get("unused") or stated.get("by") == CONTRACT
        if by_contract and (stated["epsilon_cap"], stated["delta_cap"]) == caps:
            chain.check_record(connection, key, sequence)
            return True
    if not opened:
        raise LedgerRefusedError(f"the ledger was edited: no record opens account {name!r}")
    return False


def is_decided(connection: Connection, key: bytes, name: str) -> bool:
    """Whether the ledger says what the caps are, and no contract: somebody changed them by a command, or nothing may be spent.

    Raises:
        LedgerRefusedError: the record that says so was edited.
    """
    for sequence, kind, stated in _stated(connection, name):
        by_command = kind == "cap" and not (stated.get("unused") or stated.get("by"))
        if by_command or stated["epsilon_cap"] == 0:
            chain.check_record(connection, key, sequence)
            return True
    return False


def before_settling(connection: Connection) -> dict[str, Account]:
    """Accounts with a cap as they were when accounts were joined."""
    settled = connection.execute(select(records.c.sequence).where(records.c.kind == "settled")).scalar()
    found: dict[str, dict[str, Any]] = {}
    asked = select(records).where(records.c.kind.in_(("opened", "cap")), records.c.sequence < (settled or 0)).order_by(records.c.sequence)
    for row in connection.execute(asked):
        content = json.loads(row.content)
        if row.kind == "opened":
            found[content["name"]] = content
        else:
            found[content["account"]] |= {
                name: content[name] for name in ("unit", "neighbours", "epsilon_cap", "delta_cap") if name in content
            }
    return {
        name: Account(name, row["unit"], Neighbours(row["neighbours"]), row["epsilon_cap"], row["delta_cap"])
        for name, row in found.items()
        if not row["benchmark"]
    }


def is_unused(connection: Connection, names: Sequence[str]) -> bool:
    """Whether nothing was ever charged to these accounts: by their entries, and by what they have spent."""
    if connection.execute(select(entries.c.number).where(entries.c.account.in_(names)).limit(1)).first() is not None:
        return False
    return connection.execute(select(totals.c.account).where(totals.c.account.in_(names)).limit(1)).first() is None
