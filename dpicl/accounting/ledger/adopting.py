"""A lost ledger, made anew from the receipts of the releases that stand.

A receipt is a record of the lost chain with the hash before it, so that the key tells a true one. The newest receipt of
an account says its caps, its addresses and all that it had spent by then, releases without a receipt of their own
included. What was charged after the newest receipt was never drawn: receipts are written first.

Guarantee   never a larger budget than before: an account that something speaks of and no receipt is exhausted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, update

from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import chain
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import entries, head
from dpicl.accounting.ledger.rows import account_row, now
from dpicl.accounting.ledger.state import State, write_state
from dpicl.accounting.ledger.values import Account
from dpicl.errors import LedgerRefusedError

_COLUMNS = tuple(column.name for column in entries.c)
Records = Sequence[Mapping[str, Any]]


def rebuilt(key: bytes, receipts: Iterable[Records], unproved: Sequence[str]) -> tuple[State, list[dict[str, Any]], int]:
    """Accounts, assets and totals, the entries, and the number of the first record of the new chain.

    Raises:
        LedgerRefusedError: no receipt was written under this key.
    """
    newest: dict[str, tuple[int, dict[str, Any]]] = {}
    found: list[dict[str, Any]] = []
    last = 0
    for receipt in receipts:
        entry = _entry(key, receipt)
        if entry is None:
            unproved = [*unproved, *_accounts_named(receipt)]
            continue
        sequence, content = entry
        last = max(last, *(int(record["sequence"]) for record in receipt))
        found.append(_row(receipt, content))
        if "account_row" in content and newest.get(content["account"], (0, {}))[0] < sequence:
            newest[content["account"]] = (sequence, content)
    if not found:
        raise LedgerRefusedError(
            "no receipt was written under this installation's key; expected released/ and keys/ of the same installation"
        )
    named = {row["account"] for row in found}
    state: State = {"accounts": [], "assets": [], "totals": []}
    for _, content in newest.values():
        state["accounts"].append(content["account_row"])
        state["assets"] += [{"address": address, "account": content["account"]} for address in content["addresses"]]
        if content["spent"]:
            state["totals"].append({"account": content["account"], "spent": content["spent"]})
    _exhaust(state, {*unproved, *(named - newest.keys())}, {row["account"]: row for row in found})
    return state, found, last + 1


def write(connection: Connection, key: bytes, state: State, rows: list[dict[str, Any]], first: int) -> None:
    """Fill an empty ledger; its chain begins at record `first`, so that its number says what is lost."""
    write_state(connection, state)
    if rows:
        connection.execute(insert(entries), rows)
    connection.execute(update(head).values(sequence=first - 1, hash=""))
    chain.append(connection, key, Head(first - 1), "adopted", {**state, "entries": rows, "adopted_utc": now()})


def _entry(key: bytes, receipt: Records) -> tuple[int, dict[str, Any]] | None:
    """The record that charged a release, if all records of its receipt are true ones."""
    charged = None
    for record in receipt:
        try:
            before = Head(int(record["sequence"]) - 1, record["before"])
            is_true = chain.link(key, before, record["kind"], record["content"]).hash == record["hash"]
            content = json.loads(record["content"])
        except (KeyError, TypeError, ValueError):
            return None
        if not is_true:
            return None
        if record["kind"] != "published":
            charged = int(record["sequence"]), content
    return charged


def _row(receipt: Records, content: Mapping[str, Any]) -> dict[str, Any]:
    """The row of an entry, with what was published."""
    row = {name: content.get(name) for name in _COLUMNS}
    for record in receipt:
        if record["kind"] == "published":
            published = json.loads(record["content"])
            row |= {"artefact_sha256": published["artefact_sha256"], "published_utc": published["published_utc"]}
    return row


def _accounts_named(receipt: Records) -> list[str]:
    """Whose budget a receipt that is not true speaks of."""
    found = []
    for record in receipt:
        try:
            found.append(str(json.loads(record["content"])["account"]))
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _exhaust(state: State, names: Iterable[str], examples: Mapping[str, Mapping[str, Any]]) -> None:
    """Let nothing more be charged to these accounts."""
    known = {row["name"]: row for row in state["accounts"]}
    for name in sorted(names):
        if name not in known:
            stated = guarantee_from_json(json.loads(examples[name]["guarantee"])) if name in examples else None
            unit, neighbours = (stated.unit, stated.neighbours) if stated else ("row", Neighbours.ADD_OR_REMOVE_ONE)
            known[name] = account_row(Account(name, unit, neighbours, 0.0))
            state["accounts"].append(known[name])
            state["totals"].append({"account": name, "spent": canonical(Spent.nothing().as_json())})
        if not known[name]["benchmark"]:
            known[name]["epsilon_cap"] = 0.0
