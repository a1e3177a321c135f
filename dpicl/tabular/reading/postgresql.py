"""Rows of PostgreSQL as columns of Arrow, without an object of Python's own for a value of a plain type.

The contract's query is that of a server-side cursor in a read-only transaction, so that one query is all there is. Rows are fetched batch by
batch as the text that the server writes, and Arrow reads a column of texts at once. What it cannot read, and all types that are not plain,
psycopg reads value by value: arrays, JSON, days out of range.

The text of the query is not put into `COPY (…) TO STDOUT`, whose bracket it could close, and which is no faster (docs/decisions).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
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

from dpicl.contract.columns import NumberColumn
from dpicl.contract.models import Contract
from dpicl.tabular.reading.asked import Ask, Batch, Deadline, Refusal, of_objects

_CONNECT_SECONDS = 10
_GRACE_SECONDS = 5
"""From the request to end a query to hanging up on a server that does not heed it."""
_PLAIN = {
    **{known[name].oid: pa.int64() for name in ("int2", "int4", "int8")},
    **{known[name].oid: pa.float64() for name in ("float4", "float8")},
    known["date"].oid: pa.date32(),
    known["timestamp"].oid: pa.timestamp("us"),
}
"""What the objects that psycopg makes of a type are to Arrow."""
_AS_SENT = ("utf-8", "ascii")
"""Encodings of a connection whose texts are Arrow's: `ascii` is what psycopg calls PostgreSQL's SQL_ASCII, any bytes."""
_BOOLEAN, _NUMERIC, _TEXT, _ZONED = (known[name].oid for name in ("bool", "numeric", "text", "timestamptz"))


@contextmanager
def postgresql(address: Any, deadline: Deadline) -> Iterator[Ask]:
    """Through psycopg; the server keeps the rows until they are fetched. `address` is SQLAlchemy's."""
    words, named = address.set(drivername="postgresql+psycopg").get_dialect()().create_connect_args(address)
    options = {"connect_timeout": _CONNECT_SECONDS, "prepare_threshold": None, "autocommit": False}
    with _refusals():
        connection = psycopg.connect(*words, **(named | options))
    declared: Any = connection.cursor(name="rows", scrollable=False)
    with closing(declared), _ended(connection, deadline), closing(connection):
        connection.read_only = True

        def ask(sql: str, contract: Contract, batch_rows: int) -> tuple[list[str], Iterator[Batch]]:
            with _refusals():
                connection.execute(f"SET LOCAL statement_timeout = {deadline.seconds * 1000}".encode())
                declared.execute(sql)
            columns = [(column.name, column.type_code) for column in declared.description or ()]
            return [name for name, _ in columns], iter(lambda: _fetched(connection, columns, contract, batch_rows), None)

        yield ask


@contextmanager
def _refusals() -> Iterator[None]:
    """What psycopg raises, without its message; a name may be in no known encoding."""
    try:
        yield
    except (psycopg.Error, UnicodeError) as error:
        raise Refusal(type(error).__name__) from None


@contextmanager
def _ended(connection: psycopg.Connection, deadline: Deadline) -> Iterator[None]:
    """At the deadline the query is cancelled: the server's own limit is of a statement, and a function of the query may set it anew.
    On a server that does not heed it we hang up, which ends every wait for its answer.
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


def _fetched(connection: psycopg.Connection, described: Sequence[tuple[str, int]], contract: Contract, batch_rows: int) -> Batch | None:
    """The next rows, in columns that the contract reads, of those `described` by name and type; None after the last."""
    with _refusals():
        cursor = connection.execute(f"FETCH FORWARD {batch_rows} FROM rows".encode())
        result = cursor.pgresult
        assert result is not None
        rows, get, columns = range(result.ntuples), result.get_value, {}
        for place, (name, oid) in enumerate(described):
            if rows and name in contract.read_columns:
                is_number = isinstance(contract.columns.get(name), NumberColumn)
                columns[name] = _column([get(row, place) for row in rows], oid, cursor, name, is_number=is_number)
    return columns or None


def _column(texts: list[bytes | None], oid: int, cursor: psycopg.Cursor, name: str, *, is_number: bool) -> pa.Array:
    """Values of a type, of shape (rows,), as Arrow has psycopg's objects; but numbers with decimals stay text where the contract has a number."""
    loaders = Transformer.from_context(cursor)
    loader, of_text = (loaders.get_loader(one, Format.TEXT) for one in (oid, _TEXT))
    with suppress(pa.ArrowInvalid):
        values = pa.array(texts, pa.binary()).cast(pa.string())
        if (type(loader) is type(of_text) and cursor.connection.info.encoding in _AS_SENT) or (is_number and oid == _NUMERIC):
            return values
        if oid == _BOOLEAN:
            return pc.equal(values, "t")
        if oid == _ZONED:
            return values.cast(pa.scalar(datetime.now(cursor.connection.info.timezone)).type)
        if oid in _PLAIN:
            return values.cast(_PLAIN[oid])
    return of_objects((None if text is None else loader.load(text) for text in texts), name)
