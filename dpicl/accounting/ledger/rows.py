"""Between rows of the tables and the values that callers see; and the state that every record of
the chain commits to.

The state is accounts, whose rows they pay for, what they have spent, and the seals' root: few rows,
however many releases there are. A record holds their digest, so that a transaction that spends
checks them against the end of the chain, and needs no older record for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, delete, insert, select

from dpicl.accounting.events import guarantee_as_json, guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, assets, drawings, entries, totals
from dpicl.accounting.ledger.seals import ROOT
from dpicl.accounting.ledger.values import Account, Entry, Release, Reservation
from dpicl.errors import LedgerError, PrivacyError

LedgerState = dict[str, list[dict[str, Any]]]
Published = tuple[str, str, str]
"""Account, name and hash of the artefact of a release."""
_TABLES: Mapping[str, Table] = {"accounts": accounts, "assets": assets, "totals": totals}
# A statement that stands is built and compiled once.
_ALL = {table: select(table).order_by(next(iter(table.primary_key))) for table in _TABLES.values()}
_ACCOUNT = select(accounts).where(accounts.c.name == bindparam("name"))
_ENTRY = select(entries).where(entries.c.release_id == bindparam("release_id"))
_SPENT = select(totals.c.spent).where(totals.c.account == bindparam("account"))


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def account_row(account: Account) -> dict[str, Any]:
    """An account as it is opened now."""
    return asdict(account) | {"neighbours": account.neighbours.value, "opened_utc": now()}


def account_value(row: Row[Any]) -> Account:
    """The account of a row."""
    return Account(
        row.name,
        row.unit,
        Neighbours(row.neighbours),
        row.epsilon_cap,
        row.delta_cap,
        row.benchmark,
    )


def stored_account(connection: Connection, name: str) -> Account | None:
    """The account of this name; None where none is open."""
    row = connection.execute(_ACCOUNT, {"name": name}).one_or_none()
    return None if row is None else account_value(row)


def find_account(connection: Connection, name: str) -> Account:
    """An open account. Raises LedgerError: there is none of this name."""
    if (account := stored_account(connection, name)) is None:
        raise LedgerError(f"account {name!r} is not open in this ledger")
    return account


def release_row(release: Release) -> dict[str, Any]:
    """What is stored of a release before it has a number."""
    return {
        "release_id": release.release_id,
        "account": release.account,
        "mechanism": release.mechanism,
        "parameters": canonical(release.parameters),
        "guarantee": canonical(guarantee_as_json(release.guarantee)),
        "epsilon": release.guarantee.epsilon,
        "delta": release.guarantee.delta,
    }


def entry_value(row: Row[Any]) -> Entry:
    """The entry of a row."""
    parameters, guarantee = (
        json.loads(row.parameters),
        guarantee_from_json(json.loads(row.guarantee)),
    )
    release = Release(row.release_id, row.account, row.mechanism, parameters, guarantee)
    return Entry(release, row.reserved_utc, row.artefact_sha256, row.published_utc)


def find_entry(connection: Connection, release_id: str) -> Row[Any] | None:
    """The row of a release."""
    return connection.execute(_ENTRY, {"release_id": release_id}).one_or_none()


def reserved_before(known: Row[Any], row: Mapping[str, Any]) -> Reservation:
    """The reservation of a release that is charged already. Raises PrivacyError: it was charged for
    something else.
    """
    different = [name for name, value in row.items() if known._mapping[name] != value]
    if different:
        raise PrivacyError(
            f"release {known.release_id} is charged already with another "
            f"{' and '.join(different)}; one id is one release"
        )
    return Reservation(
        "reserved" if known.artefact_sha256 is None else "published",
        known.artefact_sha256,
        is_new=False,
    )


def find_idle(connection: Connection, release: Release, differing: Sequence[str]) -> str | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever
    drawn; None where there is none.
    """
    same = release_row(release)
    idle = (
        select(entries.c.release_id, entries.c.parameters)
        .where(
            entries.c.artefact_sha256.is_(None),
            ~select(drawings).where(drawings.c.release_id == entries.c.release_id).exists(),
        )
        .where(*(entries.c[name] == same[name] for name in ("account", "mechanism", "guarantee")))
        .order_by(entries.c.number)
    )

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical(
            {name: value for name, value in parameters.items() if name not in differing}
        )

    mine = but(release.parameters)
    return next(
        (
            row.release_id
            for row in connection.execute(idle)
            if but(json.loads(row.parameters)) == mine
        ),
        None,
    )


def published(connection: Connection) -> list[Published]:
    """Every release that is published, in the order of their charges."""
    won = select(entries.c.account, entries.c.release_id, entries.c.artefact_sha256).where(
        entries.c.artefact_sha256.is_not(None)
    )
    return [
        (row.account, row.release_id, row.artefact_sha256)
        for row in connection.execute(won.order_by(entries.c.number))
    ]


def read_state(connection: Connection) -> LedgerState:
    """All rows of the three tables, by their keys, and the root of the seals."""
    root = connection.execute(ROOT).scalars()
    return {
        **{name: _rows(connection, table) for name, table in _TABLES.items()},
        "seals": [{"root": digest} for digest in root],
    }


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
    return [dict(row._mapping) for row in connection.execute(_ALL[table])]


def digest_of(state: LedgerState) -> str:
    """SHA-256 of a state: 64 hexadecimal digits."""
    ordered = {name: sorted(map(canonical, rows)) for name, rows in state.items()}
    return hashlib.sha256(canonical(ordered).encode()).hexdigest()


def spent_of(connection: Connection, name: str) -> Spent:
    """What an account with a cap has spent."""
    written = connection.execute(_SPENT, {"account": name}).scalar()
    return Spent.nothing() if written is None else Spent.from_json(json.loads(written))


def write_spent(connection: Connection, name: str, spent: Spent) -> str:
    """Put this total in the place of the one that is there; gives it as it is written."""
    written = canonical(spent.as_json())
    changed = connection.execute(
        totals.update().where(totals.c.account == name).values(spent=written)
    ).rowcount
    if not changed:
        connection.execute(insert(totals).values(account=name, spent=written))
    return written
