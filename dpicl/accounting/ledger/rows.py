"""Between rows of the tables and the values that callers see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from dpicl.accounting.events import guarantee_as_json, guarantee_from_json
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, drawings, entries
from dpicl.accounting.ledger.values import Account, Entry, Release, ReleaseState, Reservation
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


def check_same(stored: Account, declared: Account, *, but: Sequence[str] = ()) -> None:
    """Refuse to go on with an open account that is not the one a contract declares.

    Args:
        but: fields that may differ.

    Raises:
        PrivacyError: naming what differs.
    """
    for name, value in asdict(declared).items():
        if name not in but and (current := getattr(stored, name)) != value:
            raise PrivacyError(f"account {stored.name!r} is open with {name}={current}, not {value}; {_way_out(stored, declared)}")


def _way_out(stored: Account, declared: Account) -> str:
    """A benchmark has no cap to change; as nothing is at stake there, another account may be opened for the same rows."""
    if stored.benchmark and declared.benchmark:
        return "nothing of a benchmark's account changes; expected what it was opened with in the contract, or a contract of another name"
    if stored.benchmark:
        return "expected a contract of another name for rows that are not public"
    return (
        f"all contracts on the same rows share one account, one unit and one relation; a cap changes by `dpicl budget {stored.name} --cap`"
    )


def stored_account(connection: Connection, name: str) -> Account | None:
    """The account of this name; None where none is open."""
    row = connection.execute(select(accounts).where(accounts.c.name == name)).one_or_none()
    return None if row is None else account_value(row)


def find_account(connection: Connection, name: str) -> Account:
    """An open account.

    Raises:
        LedgerError: there is none of this name.
    """
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
    guarantee = guarantee_from_json(json.loads(row.guarantee))
    parameters = json.loads(row.parameters)
    release = Release(row.release_id, row.account, row.mechanism, parameters, guarantee, row.content_version)
    return Entry(release, row.reserved_utc, row.artefact_sha256, row.published_utc)


def find_entry(connection: Connection, release_id: str) -> Row[Any] | None:
    """The row of a release."""
    return connection.execute(select(entries).where(entries.c.release_id == release_id)).one_or_none()


def reserved_before(known: Row[Any], row: Mapping[str, Any]) -> Reservation:
    """The reservation of a release that is charged already.

    Raises:
        PrivacyError: it was charged for something else.
    """
    different = [name for name, value in row.items() if name != "content_version" and known._mapping[name] != value]
    if different:
        raise PrivacyError(f"release {known.release_id} is charged already with another {' and '.join(different)}; one id is one release")
    state: ReleaseState = "reserved" if known.artefact_sha256 is None else "published"
    return Reservation(state, known.artefact_sha256, is_new=False)


def find_idle(connection: Connection, release: Release, differing: Sequence[str]) -> str | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever drawn; None where there is none.

    Releases whose names hold a version of the rows are left out: it was not noted whether they had begun.
    """
    idle = (
        select(entries.c.release_id, entries.c.parameters)
        .outerjoin(drawings, drawings.c.release_id == entries.c.release_id)
        .where(entries.c.account == release.account, entries.c.mechanism == release.mechanism, entries.c.artefact_sha256.is_(None))
        .where(drawings.c.release_id.is_(None), entries.c.guarantee == canonical(guarantee_as_json(release.guarantee)))
        .where(entries.c.content_version == "")
        .order_by(entries.c.number)
    )

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical({name: value for name, value in parameters.items() if name not in differing})

    mine = but(release.parameters)
    return next((row.release_id for row in connection.execute(idle) if but(json.loads(row.parameters)) == mine), None)
