"""One way to read and one way to write, on SQLite and on PostgreSQL.

SQLite: WAL, synchronous=FULL, file mode 0600, and BEGIN IMMEDIATE, so that a writer sees what it
will change. PostgreSQL: READ COMMITTED with locks that the callers take. Both: a commit that has
returned survives a power cut.

The schema changes, up to the newest and back to an older one, inside one transaction: killed
anywhere, the ledger has the old schema or the new one. Accounts, entries and the chain are the same
rows in every schema.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

import dpicl
from dpicl.accounting.ledger.models import SCHEMA, programs
from dpicl.errors import LedgerError, LedgerRefusedError

_WAIT_SECONDS = 120
_MIGRATION_LOCK = 0x6470_6963_6C01
"""PostgreSQL's advisory lock that migrations take."""
_LOCK = text(
    "LOCK TABLE accounts, assets, totals, entries, drawings, seals IN SHARE ROW EXCLUSIVE MODE"
)


class Database:
    """An engine on one ledger, with its tables up to date.

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
        self.name, self._process = (
            address.set(query={}).render_as_string(hide_password=True),
            os.getpid(),
        )
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
        if self.schema != SCHEMA:
            with self.migrating() as connection:
                upgrade(connection, self.name)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing."""
        with self._translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """The same, and all its queries see one state; it blocks no writer."""
        options: dict[str, Any] = {
            "isolation_level": "REPEATABLE READ",
            "postgresql_readonly": True,
        }
        with self.reading() as connection:
            yield (
                connection.execution_options(**options)
                if connection.dialect.name == "postgresql"
                else connection
            )

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block has ended, or leaves nothing behind."""
        with (
            self._translated(),
            self._engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
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
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise LedgerError(f"{self.name}: {reason}") from None

    @property
    def schema(self) -> str | None:
        """The migration that the database is at; None where it is empty."""
        with self.reading() as connection:
            return schema_of(connection)

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """A transaction that may change the schema; others that would wait for its end."""
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
                )
            yield connection


def lock_rows(connection: Connection) -> None:
    """Let nobody else write to the rows that a change is checked by, until its transaction ends: on
    SQLite whoever writes is alone.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK)


def _sqlite(path: Path) -> Engine:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    event.listen(
        engine,
        "begin",
        lambda connection: connection.exec_driver_sql(
            "BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN"
        ),
    )
    return engine


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
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def schema_of(connection: Connection) -> str | None:
    """The migration that the database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def known_schemas() -> list[str]:
    """All schemas that this program can make, the oldest first."""
    from alembic.script import ScriptDirectory

    return [
        script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions()
    ][::-1]


def upgrade(connection: Connection, name: str) -> None:
    """Migrate the ledger to the newest schema, and note which program did.
    `name`: of the ledger, for messages.
    Raises LedgerRefusedError: a newer program made them.
    """
    current = schema_of(connection)
    if current == SCHEMA:
        return
    if current is not None and current not in known_schemas():
        maker = "a newer dpicl"
        if inspect(connection).has_table(
            "programs"
        ):  # from the second schema on a ledger records which program made it
            version = connection.execute(
                select(programs.c.program).where(programs.c.schema == current)
            ).scalar()
            maker = f"dpicl {version}" if version else maker
        raise LedgerRefusedError(
            f"{name}: its schema {current} was made by {maker}, and this is dpicl "
            f"{dpicl.__version__}, which knows up to {SCHEMA}; "
            f"install {maker}, or let it take the ledger back with `dpicl ledger downgrade "
            f"{SCHEMA}`"
        )
    from alembic import command  # late: a ledger that is up to date needs none of it

    command.upgrade(_config(connection), SCHEMA)
    connection.execute(delete(programs).where(programs.c.schema == SCHEMA))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(
        insert(programs).values(schema=SCHEMA, program=dpicl.__version__, since_utc=now)
    )


def downgrade(connection: Connection, revision: str, name: str) -> None:
    """Take the ledger back to an older schema.
    Raises LedgerError: there is no such schema, it is a newer one than the ledger's, or it cannot
    hold what is there.
    """
    known, current = known_schemas(), schema_of(connection)
    older = known[: known.index(current) + 1] if current in known else []
    if revision not in older:
        raise LedgerError(
            f"{name}: schema {current} cannot be taken back to {revision[:32]!r}; expected one of "
            f"{', '.join(older)}"
        )
    from alembic import command

    command.downgrade(_config(connection), revision)


def _config(connection: Connection | None) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "migrations").replace("%", "%%")
    )
    config.attributes["connection"] = connection
    return config
