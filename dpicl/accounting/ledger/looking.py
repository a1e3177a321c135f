"""A look at a ledger as it is, whatever its schema, that leaves it so: nothing is made or
remembered.

A file is copied into memory as one transaction sees it. A database on a server is read in a
transaction that may not write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from dpicl.errors import LedgerError

_WAIT_SECONDS = 10.0
_JOURNAL = slice(18, 20)
"""Bytes of a file that say how it is journalled; memory has no log beside it."""


@contextmanager
def looking(place: Path | str) -> Iterator[Connection]:
    """A connection to a ledger's file, or to the database at an address. Raises LedgerError: it
    cannot be read.
    """
    name = str(place) if isinstance(place, Path) else "DPICL_LEDGER"
    try:
        with _copied(place) if isinstance(place, Path) else _read_only(place) as connection:
            yield connection
    except (SQLAlchemyError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise LedgerError(f"{name}: {reason}; expected a ledger that can be read") from None


@contextmanager
def _copied(file: Path) -> Iterator[Connection]:
    # not mode=ro: that would leave its log behind
    address = f"file:{quote(str(file))}?mode=rw"
    with closing(
        sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    ) as source:
        source.execute("BEGIN").close()
        source.execute("SELECT count(*) FROM sqlite_master").close()
        content = bytearray(source.serialize())
    content[_JOURNAL] = b"\x01\x01"
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as memory:
        memory.deserialize(bytes(content))
        engine = create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool)
        with engine.connect() as connection:
            yield connection


@contextmanager
def _read_only(url: str) -> Iterator[Connection]:
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={"connect_timeout": int(_WAIT_SECONDS)},
    )
    with engine.connect() as connection:
        yield connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
