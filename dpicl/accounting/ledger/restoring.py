"""A ledger that comes from a backup: it may be old, and nothing more is charged in it until a
person says how much.

Guarantee   never a larger budget than before the backup: the cap of every account is 0, also of one
            that is opened later. A release that was charged and not published by then may have been
            drawn since: its charge stays and its name is given up, so that it is charged again if
            it is drawn again. Records since then name the one that closed the budgets: they are
            told from those of the chain that went on after the backup.
Not covered what was charged after the backup, where neither an anchor nor a receipt is left that
has seen it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, select, update

from dpicl.accounting.ledger import chain, seals
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.models import accounts, drawings, entries, records
from dpicl.accounting.ledger.rows import now, read_state
from dpicl.accounting.ledger.values import Account

RESTORED: Literal["restored"] = "restored"
AFTER_RESTORE = "after_restore"
"""A kind of record; and where the lost ledger had one, the time of its backup in the first record
of the rebuilt one.
"""
BRANCH = "branch"
"""In a record that charges, publishes or sets a cap: the hash of the one that its chain began anew
with. In that one: that all later ones say so.
"""
_NEWEST = (
    select(records.c.hash)
    .where(records.c.kind.in_((RESTORED, "adopted")))
    .order_by(records.c.sequence.desc())
    .limit(1)
)


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


def write(connection: Connection, key: bytes, backup: Backup, seen: Iterable[Head]) -> Head:
    """Close the budgets of a ledger that is what a backup says, once an attempt, and give its end.

    Raises LedgerRefusedError: it was edited, does not hold the backup's last record, or ends before
    a record that this host has `seen`.
    """
    end = chain.read_head(connection, lock=True)
    for head in (backup.head, *seen):
        chain.check_seen(connection, head, end)
    chain.verify(connection, key, end)
    known = select(records.c.sequence).where(
        records.c.kind == RESTORED, records.c.content.contains(backup.attempt, autoescape=True)
    )
    if connection.execute(known).first() is not None:
        return end
    dropped = sorted(
        connection.execute(
            select(entries.c.release_id).where(entries.c.artefact_sha256.is_(None))
        ).scalars()
    )
    for table in (entries, drawings):
        for release_id in dropped:
            connection.execute(delete(table).where(table.c.release_id == release_id))
    connection.execute(
        update(accounts).where(accounts.c.benchmark.is_(False)).values(epsilon_cap=0.0)
    )
    seals.seal_all(connection)
    state = read_state(connection)
    del state["seals"]
    source = {
        "identity": backup.identity,
        "attempt": backup.attempt,
        "taken_utc": backup.taken_utc,
        "record": backup.head.sequence,
    }
    return chain.append(
        connection,
        key,
        end,
        RESTORED,
        {**state, "backup": source, "dropped": dropped, BRANCH: True, "restored_utc": now()},
    )


def branch_of(connection: Connection) -> dict[str, str]:
    """What a record says of where the chain began anew; nothing where it never did."""
    newest = connection.execute(_NEWEST).scalar()
    return {} if newest is None else {BRANCH: newest}


def restored_from(connection: Connection) -> str | None:
    """When the last backup was taken that the ledger came from: accounts that it does not know may
    have been charged since.
    """
    return _last_restore(connection)[1]


def closed_by(connection: Connection, account: Account) -> str:
    """The restore that closed an account, to be said where something is refused; nothing where a
    command has set its cap since.
    """
    if account.epsilon_cap != 0:
        return ""
    sequence, taken_utc = _last_restore(connection)
    if taken_utc is None:
        return ""
    decided = select(records.c.content).where(
        records.c.kind == "cap", records.c.sequence > sequence
    )
    for content in map(json.loads, connection.execute(decided).scalars()):
        if content["account"] == account.name and "by" not in content:  # a contract opens nothing
            return ""
    return f"; closed by the restore of a backup of {taken_utc}"


def _last_restore(connection: Connection) -> tuple[int, str | None]:
    anew = (
        select(records)
        .where(records.c.kind.in_((RESTORED, "adopted")))
        .order_by(records.c.sequence.desc())
    )
    for row in connection.execute(anew):
        if (taken_utc := backup_time(row.kind, json.loads(row.content))) is not None:
            return row.sequence, taken_utc
    return 0, None


def backup_time(kind: object, content: Mapping[str, Any] | None) -> str | None:
    """The time of the backup that a record says the ledger came from, or the lost one whose
    receipts it was rebuilt from; None of others.
    """
    if content is None:
        return None
    return str(content["backup"]["taken_utc"]) if kind == RESTORED else content.get(AFTER_RESTORE)
