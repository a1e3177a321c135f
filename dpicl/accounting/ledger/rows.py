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
from dpicl.accounting.ledger.models import accounts, drawings, entries, records
from dpicl.accounting.ledger.values import Account, Entry, Release, Reservation, State
from dpicl.errors import LedgerError, LedgerRefusedError, PrivacyError

CONTRACT = "contract"
"""Who changed a cap, where nobody did by a command."""


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def account_row(account: Account) -> dict[str, Any]:
    """An account as it is opened now."""
    return {
        "name": account.name,
        "unit": account.unit,
        "neighbours": account.neighbours.value,
        "epsilon_cap": account.epsilon_cap,
        "delta_cap": account.delta_cap,
        "benchmark": account.benchmark,
        "opened_utc": now(),
    }


def account_value(row: Row[Any]) -> Account:
    """The account of a row."""
    return Account(row.name, row.unit, Neighbours(row.neighbours), row.epsilon_cap, row.delta_cap, row.benchmark)


def check_same(stored: Account, asked: Account, *, but: Sequence[str] = ()) -> None:
    """Refuse to go on with an account that is not the one asked for.

    Args:
        stored, asked: the open account, and what a contract says of it.
        but: fields that may differ.

    Raises:
        PrivacyError: naming what differs.
    """
    for name, value in asdict(asked).items():
        if name not in but and (found := getattr(stored, name)) != value:
            raise PrivacyError(f"account {stored.name!r} is open with {name}={found}, not {value}; {_way_out(stored, asked)}")


def _way_out(stored: Account, asked: Account) -> str:
    """A benchmark has no cap to change; as nothing is at stake there, another account may be opened for the same rows."""
    if stored.benchmark and asked.benchmark:
        return "nothing of a benchmark's account changes; expected what it was opened with in the contract, or a contract of another name"
    if stored.benchmark:
        return "expected a contract of another name for rows that are not public"
    return (
        f"all contracts on the same rows share one account, one unit and one relation; a cap changes by `dpicl budget {stored.name} --cap`"
    )


def known_caps(connection: Connection, name: str) -> set[tuple[float | None, float]]:
    """The caps that an account ever took from a contract: who decided on another one since then knew these.

    Raises:
        LedgerRefusedError: no record says that it was opened.
    """
    asked = select(records.c.content).where(records.c.kind.in_(("opened", "cap", "settled", "adopted"))).order_by(records.c.sequence)
    found: set[tuple[float | None, float]] = set()
    for change in map(json.loads, connection.execute(asked).scalars()):
        stated = [row for row in change.get("accounts", [change]) if row.get("name") == name]
        if change.get("account") == name and (change.get("unused") or change.get("by") == CONTRACT):
            stated.append(change)
        found |= {(row["epsilon_cap"], row["delta_cap"]) for row in stated}
    if not found:
        raise LedgerRefusedError(f"the ledger was edited: no record opens account {name!r}")
    return found


def is_unused(connection: Connection, names: Sequence[str]) -> bool:
    """Whether nothing was ever charged to these accounts."""
    return connection.execute(select(entries.c.number).where(entries.c.account.in_(names)).limit(1)).first() is None


def is_decided(connection: Connection, name: str) -> bool:
    """Whether somebody has changed an account's caps by a command: then the ledger says what they are, and no contract."""
    changes = connection.execute(select(records.c.content).where(records.c.kind == "cap")).scalars()
    return any(change["account"] == name and not (change.get("unused") or change.get("by")) for change in map(json.loads, changes))


def find_account(connection: Connection, name: str, *, lock: bool = False) -> Account:
    """An open account; `lock` keeps other spenders away until the transaction ends.

    Raises:
        LedgerError: there is none of this name.
    """
    asked = select(accounts).where(accounts.c.name == name)
    row = connection.execute(asked.with_for_update() if lock else asked).one_or_none()
    if row is None:
        raise LedgerError(f"account {name!r} is not open in this ledger")
    return account_value(row)


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


def find_entry(connection: Connection, release_id: str, *, lock: bool = False) -> Row[Any] | None:
    """The row of a release; `lock` keeps other publishers away until the transaction ends."""
    asked = select(entries).where(entries.c.release_id == release_id)
    return connection.execute(asked.with_for_update() if lock else asked).one_or_none()


def reserved_before(known: Row[Any], asked: Mapping[str, Any]) -> Reservation:
    """The reservation of a release that is charged already.

    Raises:
        PrivacyError: it was charged for something else.
    """
    different = [name for name, value in asked.items() if name != "content_version" and known._mapping[name] != value]
    if different:
        raise PrivacyError(f"release {known.release_id} is charged already with another {' and '.join(different)}; one id is one release")
    state: State = "reserved" if known.artefact_sha256 is None else "published"
    return Reservation(state, known.artefact_sha256, is_new=False)


def find_idle(connection: Connection, release: Release, differing: Sequence[str]) -> str | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever drawn; None where there is none."""
    asked = (
        select(entries.c.release_id, entries.c.parameters)
        .outerjoin(drawings, drawings.c.release_id == entries.c.release_id)
        .where(entries.c.account == release.account, entries.c.mechanism == release.mechanism, entries.c.artefact_sha256.is_(None))
        .where(drawings.c.release_id.is_(None), entries.c.guarantee == canonical(guarantee_as_json(release.guarantee)))
        .order_by(entries.c.number)
    )

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical({name: value for name, value in parameters.items() if name not in differing})

    mine = but(release.parameters)
    return next((row.release_id for row in connection.execute(asked) if but(json.loads(row.parameters)) == mine), None)
