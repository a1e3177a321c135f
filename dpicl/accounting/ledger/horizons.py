"""Parts of a horizon: each period of a series is a release of its own, and costs nothing beside the
horizon that was charged with all of them.

Guarantee   a part is accepted only where its horizon is charged to the same account, is whole by
            the chain, has a period of that number that no other release is, and was charged in this
            ledger: of one that a backup or receipts have brought back nobody knows which periods
            were drawn since, so that another draw of one might be a second one. `reserve` checks
            this in the transaction that notes the part.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, select

from dpicl.accounting.events import HORIZON_PART, PERIODS, guarantee_as_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.ledger import seals
from dpicl.accounting.ledger.budget import check_relation
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import entries, records
from dpicl.accounting.ledger.restoring import RESTORED
from dpicl.accounting.ledger.rows import find_entry, spent_of
from dpicl.accounting.ledger.values import Account, Release
from dpicl.errors import LedgerRefusedError


def check_part(connection: Connection, account: Account, release: Release) -> Spent | None:
    """What the account has spent, which a part leaves as it is; the chain is locked.
    Raises LedgerRefusedError: the part belongs to no horizon of the account that can go on;
    PrivacyError: it protects something else.
    """
    check_relation(account, release.guarantee)
    horizon = check_goes_on(connection, account, release)
    index, periods = (
        dict(release.guarantee.event.parameters).get("index"),
        json.loads(horizon.parameters).get(PERIODS),
    )
    if type(periods) is not int or type(index) is not int or not 1 <= index <= periods:
        raise LedgerRefusedError(
            f"account {account.name!r}: period {index} of a horizon of {periods}; expected 1 to "
            f"{periods}"
        )
    like = entries.c.guarantee.contains(horizon.release_id, autoescape=True)
    for row in connection.execute(
        select(entries.c.guarantee).where(entries.c.account == account.name, like)
    ):
        if json.loads(row.guarantee)["event"] == _as_json(release):
            raise LedgerRefusedError(
                f"account {account.name!r}: period {index} of this horizon is charged under "
                f"another name; it is drawn once"
            )
    return spent_of(connection, account.name)


def check_goes_on(connection: Connection, account: Account, release: Release) -> Row[Any]:
    """The row of a part's horizon. Raises LedgerRefusedError: it is not charged to the account, or
    not known to have drawn no more than is here.
    """
    guarantee = release.guarantee
    horizon = dict(guarantee.event.parameters).get("horizon")
    is_free = not guarantee.epsilon and not guarantee.delta and guarantee.event.kind == HORIZON_PART
    row = _whole(connection, str(horizon)) if is_free else None
    if (
        account.benchmark
        or row is None
        or (row.account, row.mechanism) != (account.name, release.mechanism)
    ):
        raise LedgerRefusedError(
            f"account {account.name!r}: a part of a horizon that is not charged to it; expected "
            f"the horizon's charge first"
        )
    check_kept(connection, row)
    return row


def _whole(connection: Connection, horizon: str) -> Row[Any] | None:
    seals.check(connection, horizon)
    return find_entry(connection, horizon)


def check_kept(connection: Connection, horizon: Row[Any]) -> None:
    """Raises LedgerRefusedError: the ledger came back after this horizon was charged."""
    if horizon.number < _came_back(connection):
        raise LedgerRefusedError(
            f"account {horizon.account!r}: its ledger came back from a backup or from receipts "
            f"after this horizon had begun, and which of its "
            f"periods were drawn since is not known; what stands can be used, and a new horizon "
            f"(`releases.first`) is a new charge"
        )


def _as_json(release: Release) -> Any:
    return json.loads(canonical(guarantee_as_json(release.guarantee)))["event"]


def _came_back(connection: Connection) -> int:
    """The number of the last record that brought the ledger back; 0 where none did."""
    kinds = records.c.kind.in_((RESTORED, "adopted"))
    newest = select(records.c.sequence).where(kinds).order_by(records.c.sequence.desc()).limit(1)
    return int(connection.execute(newest).scalar() or 0)
