"""The ledger's tables, and one way to read and one way to write them, on SQLite and on PostgreSQL.

SQLite: WAL, synchronous=FULL, file mode 0600, and BEGIN IMMEDIATE, so that a writer sees what it
will change. PostgreSQL: READ COMMITTED with a lock that every writer takes. Both: a commit that has
returned survives a power cut.

The tables are made inside one transaction: killed anywhere, there are all of them or none. Tables
of another schema are refused and left as they are.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

import dpicl
from dpicl.ground.errors import LedgerError, LedgerRefusedError
from dpicl.ground.files import make_private_folder

SCHEMA = 1
"""Number of this form of the tables: a ledger of another one is refused."""
metadata = MetaData()
records = Table(
    "records",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("content", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)
"""The chain, which is all that the ledger knows."""
folded = Table(
    "folded",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", String(64), nullable=False),
    Column("content", Text, nullable=False),
    Column("code", String(64), nullable=False),
)
"""What the records up to this one say, as far as no earlier row says it; and a keyed hash of it."""
programs = Table(
    "programs",
    metadata,
    Column("schema", Integer, primary_key=True, autoincrement=False),
    Column("program", String(40), nullable=False),
)
"""One row: the form of these tables, and the version of dpicl that made them."""
_WAIT_SECONDS = 120
_LOOK_SECONDS = 10
_MAKING_LOCK = 0x6470_6963_6C01
"""PostgreSQL's advisory lock that is taken where the tables are made."""
_JOURNAL = slice(18, 20)
"""Bytes of a file that say how it is journalled; memory has no log beside it."""


class Database:
    """An engine on one ledger, whose tables are made where there are none.

    Threads share it. A forked child does not: a connection used on both sides of a fork breaks
    the database's locks, so the child is refused and opens its own.
    """

    def __init__(self, url: str | URL) -> None:
        try:
            address = make_url(url)
        except ArgumentError:
            raise LedgerRefusedError(
                "the ledger's address is no database URL; expected sqlite:///FILE or postgresql://…"
            ) from None
        backend = address.get_backend_name()
        # an option may hold a password too
        self.name = address.set(query={}).render_as_string(hide_password=True)
        self._process = os.getpid()
        if backend == "sqlite" and address.database not in (None, "", ":memory:"):
            self._engine = _sqlite(Path(str(address.database)))
        elif backend == "postgresql":
            options = {"options": "-c synchronous_commit=on", "connect_timeout": 10}
            self._engine = create_engine(
                address.set(drivername="postgresql+psycopg"),
                pool_pre_ping=True,
                pool_timeout=_WAIT_SECONDS,
                connect_args=options,
            )
        else:
            raise LedgerRefusedError(
                f"{self.name}: a ledger does not live there; expected sqlite:///FILE or "
                f"postgresql://…"
            )
        self._writing = self._engine.execution_options(writes=True)
        with self.reading() as connection:
            is_made = schema_of(connection) == SCHEMA
        if not is_made:
            self._make()

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing, and whose queries see one state; it blocks no
        writer.
        """
        with self._translated(), self._engine.connect() as connection:
            yield _frozen(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block has ended, or leaves nothing behind."""
        with self._translated(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise LedgerError(
                f"{self.name}: this ledger was opened before a fork; expected the child to open "
                f"its own"
            )
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise LedgerError(f"{self.name}: {_reason(error)}") from None

    def _make(self) -> None:
        """Make the tables; others that would wait. Raises LedgerRefusedError: there are some of
        another schema.
        """
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MAKING_LOCK}
                )
            if (found := schema_of(connection)) == SCHEMA:
                return
            if found is not None:
                raise LedgerRefusedError(f"{self.name}: {other_schema(connection)}")
            metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(programs).values(schema=SCHEMA, program=dpicl.__version__))


def lock_chain(connection: Connection) -> None:
    """Let nobody else write to the chain until the transaction ends: on SQLite whoever writes is
    alone.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE records IN SHARE ROW EXCLUSIVE MODE"))


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _frozen(connection: Connection) -> Connection:
    """The same connection, whose queries see one state."""
    options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    if connection.dialect.name == "postgresql":
        return connection.execution_options(**options)
    return connection


def _sqlite(path: Path) -> Engine:
    try:
        make_private_folder(path.parent)
        # Never open a ledger that is there: closing it again would drop the locks that SQLite holds
        # on it in this process, and another process would delete the log we write to.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.chmod(0o600)
    except OSError as error:
        raise LedgerError(
            f"{path}: {error.strerror}; expected a file that the ledger can own"
        ) from None
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        pool_timeout=_WAIT_SECONDS,
        connect_args={"timeout": _WAIT_SECONDS},
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    """By the driver, which a statement passes through in a tenth of the time."""
    writes = connection.get_execution_options().get("writes")
    driver: Any = connection.connection.driver_connection
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN").close()


def _prepare(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # sqlite3 would begin transactions by its own rules
    until = time.monotonic() + _WAIT_SECONDS
    # where several processes switch a new ledger to WAL at once, SQLite refuses some without making
    # them wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)
    connection.execute("PRAGMA synchronous=FULL").close()


@contextmanager
def looking(place: Path | str) -> Iterator[Connection]:
    """A look at the ledger in a file, or in the database at an address, whatever its schema, that
    leaves it as it is: nothing is made or remembered. Raises LedgerError: it cannot be read.

    A file is copied into memory as one transaction sees it. A database on a server is read in a
    transaction that may not write.
    """
    try:
        engine = _in_memory(place) if isinstance(place, Path) else _on_server(place)
        with engine.connect() as connection:
            yield _frozen(connection)
    except (SQLAlchemyError, sqlite3.Error) as error:
        name = place if isinstance(place, Path) else "DPICL_LEDGER"
        raise LedgerError(f"{name}: {_reason(error)}; expected a ledger that can be read") from None


def _in_memory(file: Path) -> Engine:
    # not mode=ro: that would leave its log behind
    address = f"file:{quote(str(file))}?mode=rw"
    with closing(
        sqlite3.connect(address, uri=True, timeout=_LOOK_SECONDS, isolation_level=None)
    ) as source:
        source.execute("BEGIN").close()
        source.execute("SELECT count(*) FROM sqlite_master").close()
        content = bytearray(source.serialize())
    content[_JOURNAL] = b"\x01\x01"
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    memory.deserialize(bytes(content))
    return create_engine("sqlite://", creator=lambda: memory, poolclass=NullPool)


def _on_server(url: str) -> Engine:
    return create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={"connect_timeout": _LOOK_SECONDS},
    )


def schema_of(connection: Connection) -> int | None:
    """Number of the form that the tables have; None where there are none."""
    if not inspect(connection).has_table(programs.name):
        return None
    return connection.execute(select(programs.c.schema)).scalar()


def other_schema(connection: Connection) -> str:
    """The sentence to a user whose ledger is of another schema than this program's."""
    number, maker = connection.execute(select(programs.c.schema, programs.c.program).limit(1)).one()
    return (
        f"schema {number} was made by dpicl {maker}, and this is dpicl {dpicl.__version__}, which "
        f"knows schema {SCHEMA} alone; expected that dpicl, or a ledger of this one"
    )
