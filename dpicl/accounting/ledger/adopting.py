"""A lost ledger, rebuilt from the receipts of the releases that are left.

A receipt is a record of the lost chain with the hash before it, so that the key tells a true one. The newest receipt of
an account says its caps, its addresses and all that it had spent by then, releases without a receipt of their own
included. What was charged after the newest receipt was never drawn: receipts are written first.

Guarantee   never a larger budget than before: an account that something speaks of and no receipt is exhausted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, update

from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import chain, seals
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.models import drawings, entries, head
from dpicl.accounting.ledger.restoring import AFTER_RESTORE, is_restored
from dpicl.accounting.ledger.rows import LedgerState, account_row, now, write_state
from dpicl.accounting.ledger.values import Account
from dpicl.errors import LedgerRefusedError

_RECEIPTS = ("reserved", "taken_up", "published")
_PUBLISHED = ("artefact_sha256", "published_utc")
_COLUMNS = tuple(column.name for column in entries.c)
_Newest = dict[str, tuple[int, dict[str, Any]]]
"""By account, what the newest record says of it, and its number."""


@dataclass(frozen=True)
class Standing:
    """What is left of a release: its account and name by where it lies, its receipt, and the hash of the artefact that was or will be read."""

    account: str
    release_id: str
    receipt: Sequence[Mapping[str, Any]]
    artefact_sha256: str | None = None


@dataclass(frozen=True)
class Remains:
    """What is left of an installation whose ledger was lost.

    Attributes:
        standing: Every release of which anything is left.
        addresses: Where the rows of accounts are, as far as contracts say so: for those that no receipt speaks of.
        caps: By account, the record of its last cap that was decided by a command.
        adopted: The first record of the lost ledger, if it was itself made anew; or the one that says it was restored from a backup.
        seen: Number of the newest record that a receipt was written for; where it is not among them, nothing is proved.
    """

    standing: Sequence[Standing]
    addresses: Mapping[str, Sequence[str]]
    caps: Mapping[str, Mapping[str, Any]]
    adopted: Mapping[str, Any]
    seen: int


@dataclass(frozen=True)
class Rebuilt:
    """A ledger to be: its state, its entries, the number that its first record has at least, accounts that are exhausted, and whether the lost
    one came from a backup.
    """

    state: LedgerState
    entries: list[dict[str, Any]]
    last: int
    exhausted: list[str]
    after_restore: bool


def rebuilt(key: bytes, remains: Remains) -> Rebuilt:
    """What the receipts prove. Raises LedgerRefusedError: no receipt was written under this key."""
    newest: _Newest = {}
    unproved: set[str] = set()
    last = _take_adopted(key, remains.adopted, newest)
    rows: dict[str, dict[str, Any]] = {}
    replaced = set()
    for one in remains.standing:
        proof = _proved(key, one)
        if proof is None:
            unproved.add(one.account)
            for record in one.receipt:  # whose budget a receipt that is not true speaks of
                with suppress(AttributeError, KeyError, TypeError, ValueError):
                    unproved.add(str(json.loads(record["content"])["account"]))
            continue
        sequence, content, published = proof
        last = max(last, *(int(record["sequence"]) for record in one.receipt))
        replaced.add(content.get("in_place_of"))
        rows[one.release_id] = {name: content.get(name) for name in _COLUMNS} | published
        if "account_row" in content and newest.get(content["account"], (0, {}))[0] < sequence:
            newest[content["account"]] = (sequence, content)
    if not rows:
        raise LedgerRefusedError(
            "no receipt was written under this installation's key; expected released/ and keys/ of the same installation"
        )
    last = max(last, _take_caps(key, remains.caps, newest, unproved))
    unproved |= {row["account"] for row in rows.values()} - newest.keys()
    if remains.seen > last:
        unproved |= newest.keys()
    state: LedgerState = {"accounts": [], "assets": [], "totals": []}
    for name, (_, content) in newest.items():
        state["accounts"].append(dict(content["account_row"]))
        state["assets"] += [{"address": address, "account": name} for address in content["addresses"]]
        if content["spent"]:
            state["totals"].append({"account": name, "spent": content["spent"]})
    _exhaust(state, unproved, remains.addresses, {row["account"]: row for row in rows.values()})
    made = [row for name, row in rows.items() if name not in replaced]
    return Rebuilt(state, made, last, sorted(unproved), is_restored(remains.adopted.get("kind"), chain.true_content(key, remains.adopted)))


def _take_adopted(key: bytes, record: Mapping[str, Any], newest: _Newest) -> int:
    """What the first record of an earlier rebuilt ledger says, or that of one restored from a backup; gives its number, 0 where there was none
    or it is no true record.
    """
    content = chain.true_content(key, record)
    if content is None or record["kind"] not in ("adopted", "restored"):
        return 0
    spent = {row["account"]: row["spent"] for row in content["totals"]}
    for row in content["accounts"]:
        bound = [asset["address"] for asset in content["assets"] if asset["account"] == row["name"]]
        newest[row["name"]] = (int(record["sequence"]), {"account_row": row, "addresses": bound, "spent": spent.get(row["name"])})
    return int(record["sequence"])


def _take_caps(key: bytes, caps: Mapping[str, Mapping[str, Any]], newest: _Newest, unproved: set[str]) -> int:
    """Caps that were decided since an account's newest receipt; gives the last record's number."""
    last = 0
    for name, record in caps.items():
        decided = chain.true_content(key, record)
        if decided is None or record["kind"] != "cap" or decided["account"] != name or name not in newest:
            unproved.add(name)  # of one that nothing was charged to, nothing else is known
            continue
        last = max(last, int(record["sequence"]))
        sequence, content = newest[name]
        if sequence < int(record["sequence"]):
            content["account_row"] |= {term: decided[term] for term in ("epsilon_cap", "delta_cap")}
    return last


def write(connection: Connection, key: bytes, made: Rebuilt, first: int) -> Head:
    """Fill an empty ledger, and give its end; its chain begins at record `first`, so that its number says what is lost.

    All releases count as begun: whether their mechanisms have read rows was noted in what is lost.
    """
    write_state(connection, made.state)
    if made.entries:
        connection.execute(insert(entries), made.entries)
        connection.execute(insert(drawings), [{"release_id": row["release_id"]} for row in made.entries])
    seals.seal_all(connection)
    connection.execute(update(head).values(sequence=first - 1, hash=""))
    note = {AFTER_RESTORE: True} if made.after_restore else {}
    return chain.append(connection, key, Head(first - 1), "adopted", {**made.state, "entries": made.entries, **note, "adopted_utc": now()})


def _proved(key: bytes, one: Standing) -> tuple[int, dict[str, Any], dict[str, Any]] | None:
    """Number and content of the record that charged a release, and how it was published, if its receipt is of this release and true.

    An artefact without a record that published it is published by this.
    """
    charged = None
    published: dict[str, Any] = {"artefact_sha256": one.artefact_sha256, "published_utc": now()} if one.artefact_sha256 else {}
    for record in one.receipt:
        content = chain.true_content(key, record)
        if content is None or record["kind"] not in _RECEIPTS or content["release_id"] != one.release_id:
            return None
        if record["kind"] == "published":
            published = {name: content[name] for name in _PUBLISHED}
        else:
            charged = int(record["sequence"]), content
    return (*charged, published) if charged and charged[1]["account"] == one.account else None


def _exhaust(
    state: LedgerState, names: Iterable[str], addresses: Mapping[str, Sequence[str]], examples: Mapping[str, Mapping[str, Any]]
) -> None:
    """Let nothing more be charged to these accounts, nor to others for their rows."""
    known = {row["name"]: row for row in state["accounts"]}
    bound = {row["address"] for row in state["assets"]}
    for name in sorted(names):
        if name not in known:
            stated = guarantee_from_json(json.loads(examples[name]["guarantee"])) if name in examples else None
            unit, neighbours = (stated.unit, stated.neighbours) if stated else ("row", Neighbours.ADD_OR_REMOVE_ONE)
            known[name] = account_row(Account(name, unit, neighbours, 0.0))
            state["accounts"].append(known[name])
            state["assets"] += [{"address": address, "account": name} for address in addresses.get(name, ()) if address not in bound]
            bound |= set(addresses.get(name, ()))
        if not known[name]["benchmark"]:
            known[name]["epsilon_cap"] = 0.0
