"""What the ledger's tests do: one account, releases of known cost, and raw access to the tables."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, make_url, text

from dpicl.accounting.accountant import price
from dpicl.accounting.events import pure
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.ledger import Account, Ledger, ReleaseCharge, keyed_hash

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
KEY = bytes(range(32))
SHOP = Account("shop", "row", ADD, epsilon_cap=5.0, delta_cap=1e-5)


@dataclass(frozen=True)
class Place:
    """A database, and a folder for what lies outside it."""

    url: str
    folder: Path
    anchor_name: str = "anchor.json"
    key: bytes = KEY

    @property
    def anchor(self) -> Path:
        """The anchor's file."""
        return self.folder / self.anchor_name

    def ledger(
        self, key: bytes | None = None, anchor: Path | None = None
    ) -> AbstractContextManager[Ledger]:
        """Open the ledger."""
        return Ledger.open(self.url, key or self.key, anchor or self.anchor)

    def execute(self, statement: str, **values: Any) -> list[Any]:
        """Change or read a table behind the ledger's back."""
        with self.behind() as connection:
            asked = text(statement if values else statement.replace(":", r"\:"))
            result = connection.execute(asked, values)
            return list(result) if result.returns_rows else []

    @contextmanager
    def behind(self) -> Iterator[Connection]:
        """A transaction of somebody who has the database and no key."""
        url = make_url(self.url)
        engine = create_engine(
            url.set(drivername="postgresql+psycopg")
            if url.get_backend_name() == "postgresql"
            else url
        )
        with engine.begin() as connection:
            yield connection
        engine.dispose()


def priced(
    event: Event, neighbours: Neighbours = ADD, unit: str = "row", delta: float = 1e-5
) -> Guarantee:
    """What an event guarantees."""
    return price(event, neighbours=neighbours, unit=unit, delta=delta)


def cost(epsilon: float, neighbours: Neighbours = ADD, unit: str = "row") -> Guarantee:
    """A pure guarantee."""
    return priced(pure(epsilon), neighbours, unit)


def release(
    name: str, guarantee: Guarantee | None = None, *, account: str = "shop", **parameters: Any
) -> ReleaseCharge:
    """A release of epsilon 1 unless told otherwise; the same name is the same release."""
    return ReleaseCharge(
        keyed_hash(KEY, account, name),
        account,
        "noisy-mean",
        {"shots": 2, **parameters},
        guarantee or cost(1.0),
    )


def sha256(name: str) -> str:
    """The hash of an artefact."""
    return hashlib.sha256(name.encode()).hexdigest()


def open_and_ask(url: str, anchor: Path) -> tuple[int, int]:
    """Open a ledger, open the account, and count the records."""
    with Ledger.open(url, KEY, anchor) as ledger:
        ledger.ensure_account(SHOP)
        return os.getpid(), ledger.verify()
