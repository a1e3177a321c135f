"""A ledger that begins anew: restored from a backup, or rebuilt from the receipts of the releases
that are left. Nothing more is charged than before, until a person says how much.

A backup may be old: the cap of every account is 0, also of one that is opened later. A release that
was charged and not published by then may have been drawn since: its charge stays and its name is
given up, so that it is charged again if it is drawn again.

A receipt is a record of the lost chain with the hash before it, so that the key tells a true one.
The newest receipt of an account says its caps, its addresses and all that it had spent by then,
releases without a receipt of their own included. What was charged after the newest receipt was
never drawn: receipts are written first.

Records since then name the one that the chain began anew with: they are told from those of a chain
that went on beside it.

Guarantee   never a larger budget than before: an account that something speaks of and no receipt is
            exhausted. So is one that was charged in two chains which grew from one backup, as where
            a host that was believed lost turns up: no receipt knows both totals.
Not covered what was charged after a backup, where neither an anchor nor a receipt is left that has
seen it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, select

from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import chain
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.accounting.ledger.assets import LATEST
from dpicl.accounting.ledger.chain import Change
from dpicl.accounting.ledger.database import Database, lock_chain, records
from dpicl.accounting.ledger.fold import (
    AFTER_RESTORE,
    BRANCH,
    Fold,
    LedgerState,
    account_row,
    backup_time,
    now,
)
from dpicl.accounting.ledger.values import Account
from dpicl.accounting.ledger.witness import Witness, WitnessedAccount
from dpicl.errors import LedgerRefusedError

_RECEIPTS = ("reserved", "taken_up", "published")
_PUBLISHED = ("artefact_sha256", "published_utc")
_TERMS = (
    "release_id",
    "number",
    "account",
    "mechanism",
    "parameters",
    "guarantee",
    "epsilon",
    "delta",
    "reserved_utc",
    *_PUBLISHED,
)
_Newest = dict[str, tuple[int, dict[str, Any]]]
"""By account, what the newest record says of it, and its number."""


@dataclass(frozen=True)
class Backup:
    """Which backup a ledger comes from: its random name, when it was taken, the end of the chain in
    it; and a random name of this attempt.

    One backup is restored more than once where a ledger on a server, restored beside it, is lost
    again and comes back from its own dump.
    """

    identity: str
    taken_utc: str
    head: Head
    attempt: str


def restore(url: str | URL, key: bytes, backup: Backup, seen: Iterable[Head]) -> None:
    """Let the ledger at `url`, which is what a backup says, go on with budgets that are closed,
    once an attempt. Raises LedgerRefusedError: it was edited, does not hold the backup's last
    record, or ends before a record that this host has `seen`.
    """
    with closing(Database(url)) as database, database.writing() as connection:
        lock_chain(connection)
        end = chain.read_end(connection, None)
        for head in (backup.head, *seen):
            chain.check_seen(connection, head, end)
        fold = chain.verify(connection, key, end)
        known = select(records.c.sequence).where(
            records.c.kind == "restored",
            records.c.content.contains(backup.attempt, autoescape=True),
        )
        if connection.execute(known).first() is not None:
            return
        state = fold.state()
        for row in state["accounts"]:
            if not row["benchmark"]:
                row["epsilon_cap"] = 0.0
        source = {
            "identity": backup.identity,
            "attempt": backup.attempt,
            "taken_utc": backup.taken_utc,
            "record": backup.head.sequence,
        }
        dropped = [name for name, one in sorted(fold.charges.items()) if not one.artefact_sha256]
        Change(connection, key, fold).append(
            "restored",
            {**state, "backup": source, "dropped": dropped, BRANCH: True, "restored_utc": now()},
        )


@dataclass(frozen=True)
class Standing:
    """What is left of a release: its account and name by where it lies, its receipt, and the hash
    of the artefact that was or will be read.
    """

    account: str
    release_id: str
    receipt: Sequence[Mapping[str, Any]]
    artefact_sha256: str | None = None


@dataclass(frozen=True)
class Remains:
    """What is left of an installation whose ledger was lost.

    Attributes:
        standing: Every release of which anything is left.
        addresses: Where the rows of accounts are, as far as contracts say so: for those that no
            receipt speaks of.
        caps: By account, the record of its last cap that was decided by a command.
        adopted: The first record of the lost ledger, if it was itself made anew; or the one that
            says it was restored from a backup.
        seen: Number of the newest record that a receipt was written for; where it is not among
            them, nothing is proved.
    """

    standing: Sequence[Standing]
    addresses: Mapping[str, Sequence[str]]
    caps: Mapping[str, Mapping[str, Any]]
    adopted: Mapping[str, Any]
    seen: int


@dataclass(frozen=True)
class Rebuilt:
    """A ledger to be: its state, its entries, the number that its first record has at least,
    accounts that are exhausted, and the time of the backup that the lost one came from, None where
    it came from none.
    """

    state: LedgerState
    entries: list[dict[str, Any]]
    last: int
    exhausted: list[str]
    after_restore: str | None


def adopt(
    url: str | URL, key: bytes, anchor_file: Path, remains: Remains, witness: Witness
) -> Rebuilt:
    """Make a lost ledger anew from what remains of it; its chain begins with a number that says
    what is lost. All releases count as begun: whether their mechanisms have read rows was noted in
    what is lost. Raises LedgerRefusedError: the ledger is not empty, or no receipt was written
    under this key.
    """
    seen, anchor = witness.read(), Anchor(anchor_file)
    made = _rebuilt(key, remains, () if seen is None else seen.accounts)
    beyond = 0 if seen is None else seen.head.sequence
    with closing(Database(url)) as database:
        with database.writing() as connection:
            lock_chain(connection)
            if (end := chain.read_end(connection, None)).sequence:
                raise LedgerRefusedError(
                    f"{database.name}: this ledger holds {end.sequence} records; only an "
                    f"empty one is made anew"
                )
            last = max(made.last, remains.seen, anchor.read().sequence, beyond)
            note = {BRANCH: True} | (
                {} if made.after_restore is None else {AFTER_RESTORE: made.after_restore}
            )
            change = Change(connection, key, Fold(Head(last)))
            change.append(
                "adopted", {**made.state, "entries": made.entries, **note, "adopted_utc": now()}
            )
        anchor.advance(change.fold.head)
    return made


def _rebuilt(key: bytes, remains: Remains, witnessed: Sequence[WitnessedAccount] = ()) -> Rebuilt:
    """What the receipts prove; an account that had spent more than that, as its user's witness
    says, is exhausted. Raises LedgerRefusedError: no receipt was written under this key.
    """
    begun = (
        chain.true_content(key, remains.adopted)
        if remains.adopted.get("kind") in ("adopted", "restored")
        else None
    )
    branch = _Branch.of(remains.adopted, begun)
    newest, unproved = _as_begun(branch.sequence, begun), set[str]()
    last, rows = _take_receipts(key, remains.standing, branch, newest, unproved)
    last = max(last, _take_caps(key, remains.caps, branch, newest, unproved))
    unproved |= {row["account"] for row in rows} - newest.keys()
    if remains.seen > last:
        unproved |= newest.keys()
    state = _state(newest, unproved)
    proved = {row["account"]: row["spent"] for row in state["totals"]}
    unproved |= {
        account.name
        for account in witnessed
        if account.has_spent_more_than(proved.get(account.name))
    }
    addresses = {**{account.name: account.addresses for account in witnessed}, **remains.addresses}
    _exhaust(state, unproved, addresses, {row["account"]: row for row in rows})
    return Rebuilt(
        state, rows, last, sorted(unproved), None if begun is None else backup_time(begun)
    )


@dataclass(frozen=True)
class _Branch:
    """Which chain is rebuilt, from the record on that it began anew with: what another one charged
    beside it is not in its totals.
    """

    sequence: int
    names: frozenset[str | None]

    @staticmethod
    def of(record: Mapping[str, Any], content: Mapping[str, Any] | None) -> _Branch:
        """The chain that began with this record; without one, the chain that never began anew."""
        if content is None:
            return _Branch(0, frozenset((None,)))
        return _Branch(
            int(record["sequence"]),
            frozenset((record["hash"], *(() if BRANCH in content else (None,)))),
        )

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether a true record is of this chain, or may be older than its beginning."""
        return (
            int(record["sequence"]) < self.sequence
            or json.loads(record["content"]).get(BRANCH) in self.names
        )


def _as_begun(sequence: int, content: Mapping[str, Any] | None) -> _Newest:
    """What the first record of an earlier rebuilt ledger says, or that of one restored from a
    backup.
    """
    if content is None:
        return {}
    spent = {row["account"]: row["spent"] for row in content["totals"]}
    bound: dict[str, list[str]] = {row["name"]: [] for row in content["accounts"]}
    for asset in content["assets"]:
        bound[asset["account"]].append(asset["address"])
    return {
        row["name"]: (
            sequence,
            {"account_row": row, "addresses": bound[row["name"]], "spent": spent.get(row["name"])},
        )
        for row in content["accounts"]
    }


def _take_receipts(
    key: bytes, standing: Iterable[Standing], branch: _Branch, newest: _Newest, unproved: set[str]
) -> tuple[int, list[dict[str, Any]]]:
    """What receipts say of accounts; gives the last record's number, and the entries.
    Raises LedgerRefusedError: no receipt was written under this key.
    """
    rows: dict[str, dict[str, Any]] = {}
    other: _Newest = {}
    replaced, last = set(), branch.sequence
    for one in standing:
        proof = _proved(key, one)
        if proof is None:
            unproved |= {one.account, *_spoken_of(one)}
            continue
        sequence, content, published = proof
        last = max(last, *(int(record["sequence"]) for record in one.receipt))
        replaced.add(content.get("in_place_of"))
        rows[one.release_id] = {name: content.get(name) for name in _TERMS} | published
        known = newest
        if not all(map(branch.holds, one.receipt)):  # its cost is in no total of this chain
            unproved.add(one.account)
            known = other
        if "account_row" in content and known.get(one.account, (0, {}))[0] < sequence:
            known[one.account] = (sequence, content)
    if not rows:
        raise LedgerRefusedError(
            "no receipt was written under this installation's key; expected released/ and keys/ "
            "of the same installation"
        )
    for name, content_of_other in other.items():  # nothing else says where its rows are
        newest.setdefault(name, content_of_other)
    return last, _numbered([row for name, row in rows.items() if name not in replaced])


def _spoken_of(one: Standing) -> Iterator[str]:
    """Whose budget a receipt that is not true speaks of."""
    for record in one.receipt:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            yield str(json.loads(record["content"])["account"])


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries, each with a number of its own: two chains have used the same ones."""
    used: set[int] = set()
    for row in rows:
        if row["number"] in used:
            row["number"] = min(0, *used) - 1
        used.add(row["number"])
    return rows


def _state(newest: _Newest, unproved: set[str]) -> LedgerState:
    """Accounts, what is bound to them, and totals; of an address that two chains have bound to two
    accounts, neither is proved.
    """
    payers: dict[str, str] = {}
    for name, (_, content) in sorted(newest.items(), key=lambda item: item[1][0]):
        for address in content["addresses"]:
            if address.startswith(LATEST):
                payers[address] = name
            elif payers.setdefault(address, name) != name:
                unproved |= {name, payers[address]}
    return {
        "accounts": [dict(content["account_row"]) for _, content in newest.values()],
        "assets": [{"address": address, "account": name} for address, name in payers.items()],
        "totals": [
            {"account": name, "spent": content["spent"]}
            for name, (_, content) in newest.items()
            if content["spent"]
        ],
    }


def _take_caps(
    key: bytes,
    caps: Mapping[str, Mapping[str, Any]],
    branch: _Branch,
    newest: _Newest,
    unproved: set[str],
) -> int:
    """Caps that were decided since an account's newest receipt; gives the last record's number."""
    last = 0
    for name, record in caps.items():
        decided = chain.true_content(key, record)
        if (
            decided is None
            or record["kind"] != "cap"
            or decided["account"] != name
            or name not in newest
        ):
            unproved.add(name)  # of one that nothing was charged to, nothing else is known
            continue
        last = max(last, int(record["sequence"]))
        if not branch.holds(record):  # decided on knowing other totals
            unproved.add(name)
            continue
        sequence, content = newest[name]
        if sequence < int(record["sequence"]):
            content["account_row"] |= {term: decided[term] for term in ("epsilon_cap", "delta_cap")}
    return last


def _proved(key: bytes, one: Standing) -> tuple[int, dict[str, Any], dict[str, Any]] | None:
    """Number and content of the record that charged a release, and how it was published, if its
    receipt is of this release and true.

    An artefact without a record that published it is published by this.
    """
    charged = None
    published: dict[str, Any] = (
        {"artefact_sha256": one.artefact_sha256, "published_utc": now()}
        if one.artefact_sha256
        else {}
    )
    for record in one.receipt:
        content = chain.true_content(key, record)
        if (
            content is None
            or record["kind"] not in _RECEIPTS
            or content["release_id"] != one.release_id
        ):
            return None
        if record["kind"] == "published":
            published = {name: content[name] for name in _PUBLISHED}
        else:
            charged = int(record["sequence"]), content
    return (*charged, published) if charged and charged[1]["account"] == one.account else None


def _exhaust(
    state: LedgerState,
    names: Iterable[str],
    addresses: Mapping[str, Sequence[str]],
    examples: Mapping[str, Mapping[str, Any]],
) -> None:
    """Let nothing more be charged to these accounts, nor to others for their rows."""
    known = {row["name"]: row for row in state["accounts"]}
    bound = {row["address"] for row in state["assets"]}
    for name in sorted(names):
        if name not in known:
            stated = (
                guarantee_from_json(json.loads(examples[name]["guarantee"]))
                if name in examples
                else None
            )
            unit, neighbours = (
                (stated.unit, stated.neighbours)
                if stated
                else ("row", Neighbours.ADD_OR_REMOVE_ONE)
            )
            known[name] = account_row(Account(name, unit, neighbours, 0.0))
            state["accounts"].append(known[name])
            state["assets"] += [
                {"address": address, "account": name}
                for address in addresses.get(name, ())
                if address not in bound
            ]
            bound |= set(addresses.get(name, ()))
        if not known[name]["benchmark"]:
            known[name]["epsilon_cap"] = 0.0
