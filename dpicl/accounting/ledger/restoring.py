"""A ledger that comes from a backup: it may be old, and nothing more is charged in it until a person says how much.

Guarantee   never a larger budget than before the backup: the cap of every account is 0, also of one that is opened later. A release
            that was charged and not published by then may have been drawn since: its charge stays and its name is given up, so that it is
            charged again if it is drawn again. Records since then name the one that closed the budgets: they are told from those of the
            chain that went on after the backup.
Not covered what was charged after the backup, where neither an anchor nor a receipt is left that has seen it.
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

RESTORED: Literal["restored"] = "restored"
AFTER_RESTORE = "after_restore"
"""A kind of record; and what the first record of a rebuilt ledger says where the lost one had such a record."""
BRANCH = "branch"
"""In a record that charges, publishes or sets a cap: the hash of the one that its chain began anew with. In that one: that all later ones
say so.
"""


@dataclass(frozen=True)
class Backup:
    """Which backup a ledger comes from: its random name, when it was taken, the end of the chain in it; and a random name of this attempt.

    One backup is restored more than once where a ledger on a server, restored beside it, is lost again and comes back from its own dump.
    """

    identity: str
    taken_utc: str
    head: Head
    attempt: str


def write(connection: Connection, key: bytes, backup: Backup, seen: Iterable[Head]) -> Head:
    """Close the budgets of a ledger that is what a backup says, once an attempt, and give its end.

    Raises LedgerRefusedError: it was edited, does not hold the backup's last record, or ends before a record that this host has `seen`.
    """
    end = chain.read_head(connection, lock=True)
    for head in (backup.head, *seen):
        chain.check_seen(connection, head, end)
    chain.verify(connection, key, end)
    known = select(records.c.sequence).where(records.c.kind == RESTORED, records.c.content.contains(backup.attempt, autoescape=True))
    if connection.execute(known).first() is not None:
        return end
    dropped = sorted(connection.execute(select(entries.c.release_id).where(entries.c.artefact_sha256.is_(None))).scalars())
    for table in (entries, drawings):
        for release_id in dropped:
            connection.execute(delete(table).where(table.c.release_id == release_id))
    connection.execute(update(accounts).where(accounts.c.benchmark.is_(False)).values(epsilon_cap=0.0))
    seals.seal_all(connection)
    state = read_state(connection)
    del state["seals"]
    source = {"identity": backup.identity, "attempt": backup.attempt, "taken_utc": backup.taken_utc, "record": backup.head.sequence}
    return chain.append(
        connection, key, end, RESTORED, {**state, "backup": source, "dropped": dropped, BRANCH: True, "restored_utc": now()}
    )


def branch_of(connection: Connection) -> dict[str, str]:
    """What a record says of where the chain began anew; nothing where it never did."""
    anew = select(records.c.hash).where(records.c.kind.in_((RESTORED, "adopted"))).order_by(records.c.sequence.desc()).limit(1)
    newest = connection.execute(anew).scalar()
    return {} if newest is None else {BRANCH: newest}


def was_restored(connection: Connection) -> bool:
    """Whether the ledger ever came from a backup, so that accounts may have been opened and charged that it does not know."""
    anew = select(records.c.kind, records.c.content).where(records.c.kind.in_((RESTORED, "adopted")))
    return any(is_restored(row.kind, json.loads(row.content)) for row in connection.execute(anew))


def is_restored(kind: object, content: Mapping[str, Any] | None) -> bool:
    """Whether a record says that the ledger came from a backup, or was rebuilt from the receipts of one that did."""
    return content is not None and (kind == RESTORED or AFTER_RESTORE in content)
