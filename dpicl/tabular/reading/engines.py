"""Databases that a contract's query is asked of, each held to reading: a contract is public, and its SQL is whatever stands there.

    PostgreSQL   a read-only transaction and a server-side cursor, so that one query is all there is; the server's own time limit
    SQLite       the file opened for reading, `query_only`, and an authorizer that lets nothing in but SELECT, columns and
                 functions that give one value: those that give a table, as `json_each` does, would write to the schema

Both end at a deadline that counts from the question to the last row. No other engine is asked.

Not covered  what a PostgreSQL function does elsewhere than in its database, such as those of `dblink`: give a role that may only read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from dpicl.errors import ParameterError

SECONDS_VARIABLE = "DPICL_QUERY_SECONDS"
_USUAL_SECONDS, _MOST_SECONDS = 3600, 7 * 86_400
_CONNECT_SECONDS = 10
_FETCHED_ROWS = 1 << 14
_STEPS = 1 << 14
"""Of SQLite's virtual machine between two looks at the clock: about a millisecond."""
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_BARRED = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions that run code of elsewhere."""


def query_seconds() -> int:
    """How long a query may take, its rows read: DPICL_QUERY_SECONDS, or an hour.

    Raises:
        ParameterError: it is no whole number of seconds, or more than a week.
    """
    text = os.environ.get(SECONDS_VARIABLE) or str(_USUAL_SECONDS)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_SECONDS):
        raise ParameterError(SECONDS_VARIABLE, repr(text[:40]), f"a whole number of seconds, 1 to {_MOST_SECONDS}")
    return int(text)


class Deadline:
    """When a query has to be done."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def has_passed(self) -> bool:
        """Whether it is too late."""
        return time.monotonic() >= self._end


class Answer(NamedTuple):
    """Names of the columns, and the rows, some at a time."""

    names: list[str]
    rows: Iterator[Sequence[Sequence[Any]]]


class Connection(Protocol):
    """A database that is asked one query, and cannot be written to."""

    def __init__(self, address: Any, deadline: Deadline) -> None: ...

    def ask(self, sql: str) -> Answer:
        """The answer, read as it is gone through."""

    def close(self) -> None:
        """Let go of the database."""


class PostgreSql:
    """Through SQLAlchemy and psycopg."""

    def __init__(self, address: Any, deadline: Deadline) -> None:
        from sqlalchemy import create_engine

        self._engine = create_engine(address.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": _CONNECT_SECONDS})
        self._connection = self._engine.connect().execution_options(postgresql_readonly=True)
        self._deadline = deadline
        # The server's limit is of a statement, and a function of the query may set it anew: the clock here is the query's.
        driver: Any = self._connection.connection.driver_connection
        self._alarm = threading.Timer(deadline.seconds, driver.cancel)
        self._alarm.daemon = True

    def ask(self, sql: str) -> Answer:
        """The answer, which the server keeps until it is fetched."""
        self._alarm.start()
        self._connection.exec_driver_sql(f"SET LOCAL statement_timeout = {self._deadline.seconds * 1000}")
        options = {"stream_results": True, "max_row_buffer": _FETCHED_ROWS, "no_parameters": True}
        answer = self._connection.execution_options(**options).exec_driver_sql(sql)
        return Answer(list(answer.keys()), answer.partitions(_FETCHED_ROWS))

    def close(self) -> None:
        """End the transaction and the session."""
        self._alarm.cancel()
        self._connection.close()
        self._engine.dispose()


class Sqlite:
    """Python's own; a file that is not there is not made."""

    def __init__(self, address: Any, deadline: Deadline) -> None:
        path = Path(address.database).absolute()
        self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.set_authorizer(_authorise)
        self._connection.set_progress_handler(deadline.has_passed, _STEPS)

    def ask(self, sql: str) -> Answer:
        """The answer, found row by row as it is fetched."""
        cursor = self._connection.execute(sql)
        names = [str(column[0]) for column in cursor.description or ()]
        return Answer(names, iter(lambda: cursor.fetchmany(_FETCHED_ROWS), []))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _authorise(action: int, _table: str | None, function: str | None, _database: str | None, _trigger: str | None) -> int:
    is_barred = action == sqlite3.SQLITE_FUNCTION and (function or "").lower() in _BARRED
    return sqlite3.SQLITE_OK if action in _READING and not is_barred else sqlite3.SQLITE_DENY


ENGINES: dict[str, type[Connection]] = {
    "postgresql": PostgreSql,
    "postgresql+psycopg": PostgreSql,
    "sqlite": Sqlite,
    "sqlite+pysqlite": Sqlite,
}
"""By the first word of an address."""
