"""Between rows of the tables and the values that callers see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from dpicl.accounting.events import guarantee_as_json, guarantee_from_json
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, drawings, entries
from dpicl.accounting.ledger.values import Account, Entry, Release, Reservation
from dpicl.errors import LedgerError, PrivacyError


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def account_row(account: Account) -> dict[str, Any]:
    """An account as it is opened now."""
    return asdict(account) | {"neighbours": account.neighbours.value, "opened_utc": now()}


def account_value(row: Row[Any]) -> Account:
    """The account of a row."""
    return Account(row.name, row.unit, Neighbours(row.neighbours), row.epsilon_cap, row.delta_cap, row.benchmark)


def stored_account(connection: Connection, name: str) -> Account | None:
    """The account of this name; None where none is open."""
    row = connection.execute(select(accounts).where(accounts.c.name == name)).one_or_none()
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
        "content_version": release.content_version,
        "mechanism": release.mechanism,
        "parameters": canonical(release.parameters),
        "guarantee": canonical(guarantee_as_json(release.guarantee)),
        "epsilon": release.guarantee.epsilon,
        "delta": release.guarantee.delta,
    }


def entry_value(row: Row[Any]) -> Entry:
    """The entry of a row."""
    parameters, guarantee = json.loads(row.parameters), guarantee_from_json(json.loads(row.guarantee))
    release = Release(row.release_id, row.account, row.mechanism, parameters, guarantee, row.content_version)
    return Entry(release, row.reserved_utc, row.artefact_sha256, row.published_utc)


def find_entry(connection: Connection, release_id: str) -> Row[Any] | None:
    """The row of a release."""
    return connection.execute(select(entries).where(entries.c.release_id == release_id)).one_or_none()


def reserved_before(known: Row[Any], row: Mapping[str, Any]) -> Reservation:
    """The reservation of a release that is charged already. Raises PrivacyError: it was charged for something else."""
    different = [name for name, value in row.items() if name != "content_version" and known._mapping[name] != value]
    if different:
        raise PrivacyError(f"release {known.release_id} is charged already with another {' and '.join(different)}; one id is one release")
    return Reservation("reserved" if known.artefact_sha256 is None else "published", known.artefact_sha256, is_new=False)


def find_idle(connection: Connection, release: Release, differing: Sequence[str]) -> str | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever drawn; None where there is none.

    Releases whose names hold a version of the rows are left out: it was not noted whether they had begun.
    """
    same = release_row(replace(release, content_version=""))
    idle = (
        select(entries.c.release_id, entries.c.parameters)
        .where(entries.c.artefact_sha256.is_(None), entries.c.release_id.notin_(select(drawings.c.release_id)))
        .where(*(entries.c[name] == same[name] for name in ("account", "mechanism", "guarantee", "content_version")))
        .order_by(entries.c.number)
    )

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical({name: value for name, value in parameters.items() if name not in differing})

    mine = but(release.parameters)
    return next((row.release_id for row in connection.execute(idle) if but(json.loads(row.parameters)) == mine), None)
