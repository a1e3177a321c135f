"""A ledger that begins anew: restored from a backup, or rebuilt from the receipts of the releases
that are left. Nothing more is charged than before, until a person says how much.

A backup may be old: the cap of every account is 0, also of one that is opened later. A release that
was charged and not published by then may have been drawn since: its charge stays and its name is
given up, so that it is charged again if it is drawn again.

A receipt is a record of the lost chain with the hash before it, so that the key tells a true one.
The newest receipt of an account says its caps, its addresses and all that it had spent by then,
releases without a receipt of their own included. A record that charges names the last one before
it that charged an account with a cap. If no receipt of that one is left, it may have charged any
account that no later receipt speaks of: these are exhausted, and one that is opened later has cap
0. What was charged after the newest receipt that was ever written was never drawn: a receipt is
written before its draw.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import URL, select

from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import LedgerRefusedError
from dpicl.ledger import chain
from dpicl.ledger.accounts import LATEST
from dpicl.ledger.chain import Change
from dpicl.ledger.database import Database, lock_chain, records
from dpicl.ledger.fold import (
    AFTER_RESTORE,
    BRANCH,
    FOLLOWS,
    LOST,
    Account,
    Charge,
    Fold,
    account_row,
    backup_time,
    now,
)
from dpicl.ledger.keys import Anchor, Head
from dpicl.ledger.witness import Witness

_RECEIPTS = ("reserved", "taken_up", "published")
_PUBLISHED = ("artefact_sha256", "published_utc")
_TERMS = tuple(name for name in Charge._fields if name not in ("is_begun", "published_by"))
_Newest = dict[str, tuple[int, dict[str, Any]]]
"""By account, what the newest record says of it, and its number."""


def restore(url: str | URL, key: bytes, backup: Mapping[str, Any], seen: Iterable[Head]) -> None:
    """Let the ledger at `url`, which is what a backup says, go on with budgets that are closed.

    One backup is restored more than once where a ledger on a server, restored beside it, is lost
    again and comes back from its own dump.

    Args:
        backup: its random `identity`, when it was taken (`taken_utc`), its last `record`; and a
            random name of this `attempt`, of which each closes the budgets once.
        seen: records that the ledger has to hold: the backup's last, and what this host has seen.
    Raises LedgerRefusedError: it was edited, or does not hold one of these records.
    """
    with closing(Database(url)) as database, database.writing() as connection:
        lock_chain(connection)
        end = chain.read_end(connection, None)
        for head in seen:
            chain.check_seen(connection, head, end)
        fold = chain.verify(connection, key, end)
        known = select(records.c.sequence).where(
            records.c.kind == "restored",
            records.c.content.contains(backup["attempt"], autoescape=True),
        )
        if connection.execute(known).first() is not None:
            return
        accounts = {name: fold.told_of(name) for name in fold.accounts}
        for told in accounts.values():
            if not told["account_row"]["benchmark"]:
                told["account_row"] = told["account_row"] | {"epsilon_cap": 0.0}
        dropped = [
            name for name, charge in sorted(fold.charges.items()) if not charge.artefact_sha256
        ]
        content = {"accounts": accounts, "backup": backup, "dropped": dropped}
        Change(connection, key, fold).append(
            "restored", {**content, BRANCH: True, "restored_utc": now()}
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
        seen: The newest record that a receipt was written for; where it is not among them, or is
            of another chain, nothing is proved.
    """

    standing: Sequence[Standing]
    addresses: Mapping[str, Sequence[str]]
    caps: Mapping[str, Mapping[str, Any]]
    adopted: Mapping[str, Any]
    seen: Head


def adopt(
    url: str | URL, key: bytes, anchor_file: Path, remains: Remains, witness: Witness
) -> None:
    """Make a lost ledger anew from what remains of it; its chain begins with a number that says
    what is lost, and with a record that says all. All releases count as begun: whether their
    mechanisms have read rows was noted in what is lost. Raises LedgerRefusedError: the ledger is
    not empty, or no receipt was written under this key.
    """
    seen = witness.read()
    anchor = Anchor(anchor_file)
    adopted = remains.adopted
    is_anew = adopted.get("kind") in ("adopted", "restored")
    begun = chain.true_content(key, adopted) if is_anew else None
    proved = _Proved(key)
    if begun is not None:
        proved.begin(adopted, begun)
    entries = proved.take_receipts(remains.standing)
    proved.take_caps(remains.caps)
    proved.unproved |= {row["account"] for row in entries} - proved.newest.keys()
    if remains.seen.hash not in proved.hashes:
        proved.is_incomplete = True
        proved.unproved |= proved.newest.keys()
    accounts = proved.accounts()
    witnessed = [] if seen is None else seen.accounts
    proved.unproved |= {
        account.name
        for account in witnessed
        if account.has_spent_more_than(accounts.get(account.name, {}).get("spent"))
    }
    addresses = {**{account.name: account.addresses for account in witnessed}, **remains.addresses}
    examples = {row["account"]: row for row in entries}
    exhausted = _exhaust(accounts, proved.unproved, addresses, examples)
    taken_utc = None if begun is None else backup_time(begun)
    note = {BRANCH: True, "exhausted": exhausted}
    note |= {} if taken_utc is None else {AFTER_RESTORE: taken_utc}
    note |= {LOST: True} if proved.is_incomplete else {}
    beyond = 0 if seen is None else seen.head.sequence
    with closing(Database(url)) as database:
        with database.writing() as connection:
            lock_chain(connection)
            if (end := chain.read_end(connection, None)).sequence:
                raise LedgerRefusedError(
                    f"{database.name}: this ledger holds {end.sequence} records; only an "
                    f"empty one is made anew"
                )
            last = max(proved.last, remains.seen.sequence, anchor.read().sequence, beyond)
            change = Change(connection, key, Fold(Head(last)))
            content = {"accounts": accounts, "entries": entries, **note, "adopted_utc": now()}
            change.append("adopted", content)
        anchor.advance(change.fold.head)


@dataclass
class _Proved:
    """What true records say of a chain.

    Attributes:
        began: the record that it began anew with, and `branches` what later ones say of that: what
            another chain charged beside it is not in its totals.
        hashes: of its records.
        last: number of the last record, of any chain.
        newest: what the newest record says of each account.
        unproved: accounts of which the records do not say all.
        is_incomplete: whether a charge is missing, of whatever account.
    """

    key: bytes
    began: int = 0
    branches: tuple[str | None, ...] = (None,)
    hashes: set[str] = field(default_factory=set)
    last: int = 0
    newest: _Newest = field(default_factory=dict)
    unproved: set[str] = field(default_factory=set)
    is_incomplete: bool = False

    def begin(self, record: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Go by what the first record of an earlier rebuilt ledger says, or that of one restored
        from a backup.
        """
        self.began = self.last = int(record["sequence"])
        self.hashes.add(record["hash"])
        self.is_incomplete = LOST in content
        self.branches = (record["hash"], *(() if BRANCH in content else (None,)))
        self.newest = {name: (self.began, told) for name, told in content["accounts"].items()}

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether a true record is of this chain, or may be older than its beginning."""
        branch = json.loads(record["content"]).get(BRANCH)
        return int(record["sequence"]) < self.began or branch in self.branches

    def take_receipts(self, standing: Iterable[Standing]) -> list[dict[str, Any]]:
        """What receipts say of accounts; gives the entries. Raises LedgerRefusedError: no receipt
        was written under this key.
        """
        rows: dict[str, dict[str, Any]] = {}
        beside: _Newest = {}
        replaced = set()
        mine = set[int]()
        followed = set[int]()
        for release in standing:
            proof = _proved(self.key, release)
            if proof is None:
                self.unproved |= {release.account, *_spoken_of(release)}
                continue
            sequence, content, published = proof
            self.last = max(self.last, *(int(record["sequence"]) for record in release.receipt))
            replaced.add(content.get("in_place_of"))
            rows[release.release_id] = {name: content.get(name) for name in _TERMS} | published
            known = self.newest
            if not all(map(self.holds, release.receipt)):  # its cost is in no total of this chain
                self.unproved.add(release.account)
                known = beside
            else:
                self.hashes |= {record["hash"] for record in release.receipt}
                mine.add(sequence)
                followed.add(int(content[FOLLOWS]))
            if "account_row" in content and known.get(release.account, (0, {}))[0] < sequence:
                known[release.account] = (sequence, content)
        if not rows:
            raise LedgerRefusedError(
                "no receipt was written under this installation's key; expected released/ and "
                "keys/ of the same installation"
            )
        lost = max(followed - mine, default=0)
        if lost > self.began:
            self.is_incomplete = True
            self.unproved |= {name for name, (newest, _) in self.newest.items() if newest < lost}
        self.newest = beside | self.newest  # nothing else says where rows of the others are
        used: set[int] = set()
        entries = [row for name, row in rows.items() if name not in replaced]
        for row in entries:  # two chains have used the same numbers
            if row["number"] in used:
                row["number"] = min(0, *used) - 1
            used.add(row["number"])
        return entries

    def take_caps(self, caps: Mapping[str, Mapping[str, Any]]) -> None:
        """Caps that were decided since an account's newest receipt."""
        for name, record in caps.items():
            decided = chain.true_content(self.key, record)
            if decided is None or record["kind"] != "cap" or decided["account"] != name:
                self.unproved.add(name)
                continue
            number = int(record["sequence"])
            newest, content = self.newest.get(name, (0, {}))
            self.hashes |= {record["hash"]} if self.holds(record) else set()
            # of one that nothing was charged to, nothing else is known; in another chain a cap was
            # decided on knowing other totals
            if not content or not self.holds(record):
                self.unproved.add(name)
            elif newest < number:
                terms = {term: decided[term] for term in ("epsilon_cap", "delta_cap")}
                content["account_row"] |= terms
            if content:
                self.last = max(self.last, number)

    def accounts(self) -> dict[str, dict[str, Any]]:
        """What the newest record says of each account; of an address that two chains have bound to
        two accounts, neither is proved.
        """
        payers: dict[str, str] = {}
        for name, (_, content) in sorted(self.newest.items(), key=lambda item: item[1][0]):
            for address in content["addresses"]:
                if address.startswith(LATEST):
                    payers[address] = name
                elif payers.setdefault(address, name) != name:
                    self.unproved |= {name, payers[address]}
        return {
            name: {
                "account_row": content["account_row"],
                "addresses": [
                    address for address in content["addresses"] if payers[address] == name
                ],
                "spent": content["spent"],
            }
            for name, (_, content) in self.newest.items()
        }


def _spoken_of(release: Standing) -> Iterator[str]:
    """Whose budget a receipt that is not true speaks of."""
    for record in release.receipt:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            yield str(json.loads(record["content"])["account"])


def _proved(key: bytes, release: Standing) -> tuple[int, dict[str, Any], dict[str, Any]] | None:
    """Number and content of the record that charged a release, and how it was published, if its
    receipt is of this release and true.

    An artefact without a record that published it is published by this.
    """
    charged = None
    published: dict[str, Any] = (
        {"artefact_sha256": release.artefact_sha256, "published_utc": now()}
        if release.artefact_sha256
        else {}
    )
    for record in release.receipt:
        content = chain.true_content(key, record)
        if (
            content is None
            or record["kind"] not in _RECEIPTS
            or content["release_id"] != release.release_id
        ):
            return None
        if record["kind"] == "published":
            published = {name: content[name] for name in _PUBLISHED}
        else:
            charged = int(record["sequence"]), content
    return (*charged, published) if charged and charged[1]["account"] == release.account else None


def _exhaust(
    accounts: dict[str, dict[str, Any]],
    names: Iterable[str],
    addresses: Mapping[str, Sequence[str]],
    examples: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Let nothing more be charged to these accounts, nor to others for their rows; gives those that
    have a cap.
    """
    exhausted = []
    bound = {address for told in accounts.values() for address in told["addresses"]}
    for name in sorted(names):
        if name not in accounts:
            unit = "row"
            neighbours = Neighbours.ADD_OR_REMOVE_ONE
            if name in examples:
                stated = guarantee_from_json(json.loads(examples[name]["guarantee"]))
                unit = stated.unit
                neighbours = stated.neighbours
            free = [address for address in addresses.get(name, ()) if address not in bound]
            row = account_row(Account(name, unit, neighbours, 0.0))
            accounts[name] = {"account_row": row, "addresses": free, "spent": None}
            bound |= set(free)
        if not accounts[name]["account_row"]["benchmark"]:
            accounts[name]["account_row"]["epsilon_cap"] = 0.0
            exhausted.append(name)
    return exhausted
