"""Databases that a contract's query may go to, each limited to reading: a contract is public, and its SQL is whatever stands there.

    PostgreSQL   a read-only transaction and a server-side cursor, so that one query is all there is; the server's own time limit
    SQLite       the file opened for reading, `query_only`, and an authorizer that lets nothing in but SELECT, columns and
                 functions that give one value: those that give a table, as `json_each` does, would write to the schema

Both end at a deadline that counts from the query to the last row. No other engine is let in.

Not covered  what a PostgreSQL function does elsewhere than in its database, such as those of `dblink`: give a role that may only read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
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


Rows = tuple[list[str], Iterator[Sequence[Sequence[Any]]]]
"""Names of the columns, and the rows, some at a time, read as they are gone through."""
Connection = Callable[[str], Rows]
"""A database that cannot be written to: it runs one query."""


@contextmanager
def _postgresql(address: Any, deadline: Deadline) -> Iterator[Connection]:
    """Through SQLAlchemy and psycopg; the server keeps the rows until they are fetched."""
    from sqlalchemy import NullPool, create_engine

    address = address.set(drivername="postgresql+psycopg")
    engine = create_engine(address, connect_args={"connect_timeout": _CONNECT_SECONDS}, poolclass=NullPool)
    with closing(engine.connect().execution_options(postgresql_readonly=True)) as connection:
        # The server's limit is of a statement, and a function of the query may set it anew: the clock here is the query's.
        driver: Any = connection.connection.driver_connection
        alarm = threading.Timer(deadline.seconds, driver.cancel)
        alarm.daemon = True

        def ask(sql: str) -> Rows:
            alarm.start()
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {deadline.seconds * 1000}")
            options = {"stream_results": True, "max_row_buffer": _FETCHED_ROWS, "no_parameters": True}
            rows = connection.execution_options(**options).exec_driver_sql(sql)
            return list(rows.keys()), rows.partitions(_FETCHED_ROWS)

        try:
            yield ask
        finally:
            alarm.cancel()


@contextmanager
def _sqlite(address: Any, deadline: Deadline) -> Iterator[Connection]:
    """Python's own; a file that is not there is not made."""
    path = Path(address.database).absolute()
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_authorizer(_authorise)
        connection.set_progress_handler(deadline.has_passed, _STEPS)

        def ask(sql: str) -> Rows:
            cursor = connection.execute(sql)
            names = [str(column[0]) for column in cursor.description or ()]
            return names, iter(lambda: cursor.fetchmany(_FETCHED_ROWS), [])

        yield ask


def _authorise(action: int, _table: str | None, function: str | None, _database: str | None, _trigger: str | None) -> int:
    is_barred = action == sqlite3.SQLITE_FUNCTION and (function or "").lower() in _BARRED
    return sqlite3.SQLITE_OK if action in _READING and not is_barred else sqlite3.SQLITE_DENY


ENGINES: dict[str, Callable[[Any, Deadline], AbstractContextManager[Connection]]] = {
    "postgresql": _postgresql,
    "postgresql+psycopg": _postgresql,
    "sqlite": _sqlite,
    "sqlite+pysqlite": _sqlite,
}
"""By the first word of an address."""
