"""Rows of PostgreSQL as columns of Arrow, without an object of Python's own for a value of a plain
type.

The contract's query is that of a server-side cursor in a read-only transaction, so that one query
is all there is. Rows are fetched batch by batch as the text that the server writes, and Arrow reads
a column of texts at once. What it cannot read, and all types that are not plain, psycopg reads
value by value: arrays, JSON, days out of range.

The text of the query is not put into `COPY (…) TO STDOUT`, whose bracket it could close, and which
is no faster (docs/decisions).
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from threading import Timer
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.adapt import Transformer
from psycopg.postgres import types as known
from psycopg.pq import Format
from sqlalchemy.exc import ArgumentError

from dpicl.data.reading.connection import (
    Asked,
    Columns,
    Connected,
    Deadline,
    NoIdentity,
    Refusal,
    RefusedLogin,
)
from dpicl.data.reading.typed_columns import of_objects

# its warnings quote what the server says, as a time zone that a query may set
logging.getLogger("psycopg").setLevel(logging.CRITICAL)
_CONNECT_SECONDS = 10
_FOR_A_WHILE = re.compile(
    "starting up|shutting down|accepting connections|too many|connection slots"
)
"""What a server says that lets nobody in now."""
_LOCALHOST = ("", "localhost", "127.0.0.1", "::1")
_GRACE_SECONDS = 5
"""From the request to end a query to hanging up on a server that does not heed it."""
_PYTHON_S = {
    "autocommit": False,
    "prepare_threshold": None,
    "context": None,
    "row_factory": None,
    "cursor_factory": None,
}
"""Parameters of psycopg's own that an address could set, since it takes them among the server's."""
_SETTINGS = {
    "datestyle": "'ISO'",
    "intervalstyle": "'postgres'",
    "extra_float_digits": "3",
    "idle_in_transaction_session_timeout": "0",
}
"""Of the transaction: a role may have others, by which a value is written with fewer digits or in
no way that psycopg reads, or a reader that takes its time between batches is cut off.
"""
_PLAIN = {
    **{known[name].oid: pa.int64() for name in ("int2", "int4", "int8")},
    **{known[name].oid: pa.float64() for name in ("float4", "float8")},
    known["date"].oid: pa.date32(),
    known["timestamp"].oid: pa.timestamp("us"),
}
"""What the objects that psycopg makes of a type are to Arrow."""
_TYPES = {
    **_PLAIN,
    known["bool"].oid: pa.bool_(),
    **{known[name].oid: pa.time64("us") for name in ("time", "timetz")},
    known["interval"].oid: pa.duration("us"),
}
"""Of a whole column, whatever is in its rows."""
_AS_SENT = ("utf-8", "ascii")
"""Encodings of a connection whose texts are Arrow's: `ascii` is what psycopg calls PostgreSQL's
SQL_ASCII, any bytes.
"""
_WHICH = """SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()), pg_catalog.current_database(),
(SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())"""  # noqa: E501
"""Whose names no setting of the connection can give to anything else. A replica and a restored
clone have the same identifier and oid.
"""
_BOOLEAN, _NUMERIC, _TEXT, _ZONED = (
    known[name].oid for name in ("bool", "numeric", "text", "timestamptz")
)


@contextmanager
def postgresql(address: Any, deadline: Deadline) -> Iterator[Connected]:
    """Through psycopg; the server keeps the rows until they are fetched. `address` is SQLAlchemy's.

    Which database it is and its rows are asked for in one transaction: behind a pooler the next one
    may be another server's.
    """
    with _refusals():
        _, named = (
            address.set(drivername="postgresql+psycopg")
            .get_dialect()()
            .create_connect_args(address)
        )
        try:
            connection = psycopg.connect(
                "", **(named | _PYTHON_S | {"connect_timeout": _CONNECT_SECONDS})
            )
        except psycopg.OperationalError as error:
            # libpq gives no code here: FATAL is the server's own word, and one that asked for a
            # password has answered
            asked = error.pgconn is not None and (
                error.pgconn.used_password or error.pgconn.needs_password
            )
            if (asked or "FATAL: " in str(error)) and not _FOR_A_WHILE.search(str(error)):
                raise RefusedLogin(type(error).__name__) from None
            raise
    declared: Any = connection.cursor(name="rows", scrollable=False)
    with closing(declared), _ended(connection, deadline), closing(connection):
        connection.read_only = True

        def ask(sql: str, wanted: Collection[str], batch_rows: int) -> Asked:
            settings = {**_SETTINGS, "statement_timeout": str(deadline.seconds * 1000)}
            with _refusals():
                connection.execute(
                    "; ".join(
                        f"SET LOCAL {name} = {value}" for name, value in settings.items()
                    ).encode()
                )
                declared.execute(sql)
                columns = [(column.name, column.type_code) for column in declared.description or ()]
            typed = [(name, _TYPES.get(oid)) for name, oid in columns]
            return typed, iter(lambda: _fetched(connection, columns, wanted, batch_rows), None)

        yield Connected(_addresses(connection), ask)


def _addresses(connection: psycopg.Connection) -> tuple[str, ...]:
    """`pg:SYSTEM:OID`, and where it is. Raises NoIdentity: the role may not ask, or the server is
    no PostgreSQL of today.
    """
    try:
        with _refusals():
            row = connection.execute(_WHICH.encode()).fetchone()
    except Refusal:
        raise NoIdentity from None
    if row is None or None in row:
        raise NoIdentity
    host = connection.info.host
    host = (
        "localhost"
        if host in _LOCALHOST or host.startswith(("/", "@"))
        else host.lower().rstrip(".")
    )
    return f"pg:{row[0]}:{row[2]}", f"pg-at:{host}:{connection.info.port}/{row[1]}"


@contextmanager
def _refusals() -> Iterator[None]:
    """What psycopg raises, without its message: a name may be in no known encoding, and a value in
    none of the ways that it reads, or nested too deeply. Of an address with several hosts
    SQLAlchemy has its own complaints.
    """
    try:
        yield
    except (
        psycopg.Error,
        UnicodeError,
        NotImplementedError,
        RecursionError,
        ArgumentError,
    ) as error:
        raise Refusal(type(error).__name__, getattr(error, "sqlstate", None)) from None


@contextmanager
def _ended(connection: psycopg.Connection, deadline: Deadline) -> Iterator[None]:
    """At the deadline the query is cancelled: the server's own limit is of a statement, and a
    function of the query may set it anew. On a server that does not heed it we hang up, which ends
    every wait for its answer.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as line:

        def cancel() -> None:
            connection.cancel_safe(timeout=_GRACE_SECONDS)

        def hang_up() -> None:
            line.shutdown(socket.SHUT_RDWR)

        steps = ((deadline.seconds, cancel), (deadline.seconds + _GRACE_SECONDS, hang_up))
        alarms = [Timer(seconds, _quietly, [step]) for seconds, step in steps]
        for alarm in alarms:
            alarm.daemon = True
            alarm.start()
        try:
            yield
        finally:
            for alarm in alarms:
                alarm.cancel()


def _quietly(step: Callable[[], None]) -> None:
    """A thread prints what it fails with, and a driver's message may hold the address."""
    with suppress(psycopg.Error, OSError):
        step()


def _fetched(
    connection: psycopg.Connection,
    described: Sequence[tuple[str, int]],
    wanted: Collection[str],
    batch_rows: int,
) -> Columns | None:
    """The next rows, in the columns `wanted`, of those `described` by name and type; None after the
    last.
    """
    with _refusals():
        cursor = connection.execute(f"FETCH FORWARD {batch_rows} FROM rows".encode())
        result = cursor.pgresult
        assert result is not None
        rows = range(result.ntuples)
        get = result.get_value
        columns = {}
        for place, (name, oid) in enumerate(described):
            if rows and name in wanted:
                columns[name] = _column([get(row, place) for row in rows], oid, cursor)
    return columns or None


def _column(texts: list[bytes | None], oid: int, cursor: psycopg.Cursor) -> pa.Array:
    """Values of a type, of shape (rows,), as Arrow has psycopg's objects; but a numeric stays the
    server's text: Arrow would write all of a batch with the most digits of one of them, so that a
    row changed the words and ids of others.
    """
    loaders = Transformer.from_context(cursor)
    loader, of_text = (loaders.get_loader(number, Format.TEXT) for number in (oid, _TEXT))
    with suppress(pa.ArrowInvalid):
        values = pa.array(texts, pa.binary()).cast(pa.string())
        if (
            type(loader) is type(of_text) and cursor.connection.info.encoding in _AS_SENT
        ) or oid == _NUMERIC:
            return values
        if oid == _BOOLEAN:
            return pc.equal(values, "t")
        if oid == _ZONED:
            return values.cast(pa.scalar(datetime.now(cursor.connection.info.timezone)).type)
        if oid in _PLAIN:
            return values.cast(_PLAIN[oid])
    return of_objects(None if text is None else _loaded(loader, text) for text in texts)


def _loaded(loader: Any, text: bytes) -> Any:
    """A value as psycopg has it; as the server writes it where Python has none such, as an endless
    date or JSON too deep.
    """
    try:
        return loader.load(text)
    except (psycopg.DataError, ValueError, RecursionError):
        return text
