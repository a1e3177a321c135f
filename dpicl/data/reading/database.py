"""Rows of a database: the contract's query, sent to an engine that cannot be written to, read batch
by batch.

A contract is public, and its SQL is whatever stands there, so that every engine is limited to
reading:

    PostgreSQL   a read-only transaction and a server-side cursor, so that one query is all there is
                 (`postgresql`)
    SQLite       the file opened for reading, `query_only`, and an authorizer that lets nothing in
                 but SELECT, columns and functions that give one value: those that give a table, as
                 `json_each` does, would write to the schema

Both end at a deadline that counts from the query to the last row. No other engine is let in. The
address with its password comes from the environment variable that the contract names and stands in
no message; neither does anything that the database says, which may quote a value.

Not covered  what a PostgreSQL function does elsewhere than in its database, as `dblink`'s do, or a
             superuser's `lo_export`, or a function that runs `COPY … TO PROGRAM`, nor those that
             administer the server, as `pg_terminate_backend` or `pg_stat_reset`: give a role that
             may only read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpicl.contract.declared import QuerySource
from dpicl.contract.models import Contract
from dpicl.data.reading.connection import (
    WHERE,
    Asked,
    Check,
    Columns,
    Connected,
    Deadline,
    NoIdentity,
    Refusal,
    RefusedLogin,
)
from dpicl.data.reading.parse import check_columns, typed_table
from dpicl.data.reading.typed_columns import check_types, of_objects
from dpicl.ground.errors import ParameterError, SourceError
from dpicl.ground.installed import extra_of

_SECONDS_VARIABLE = "DPICL_QUERY_SECONDS"
_IDENTITY_SECONDS = 30
_USUAL_SECONDS, _MOST_SECONDS = 3600, 7 * 86_400
_STEPS = 1 << 14
"""Of SQLite's virtual machine between two looks at the clock: about a millisecond."""
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_BARRED = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions that run code of elsewhere."""


def _deadline() -> Deadline:
    """By DPICL_QUERY_SECONDS, or an hour. Raises ParameterError: it is no whole number of seconds,
    or more than a week.
    """
    text = os.environ.get(_SECONDS_VARIABLE) or str(_USUAL_SECONDS)
    if not (
        text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_SECONDS
    ):
        raise ParameterError(
            _SECONDS_VARIABLE, repr(text[:40]), f"a whole number of seconds, 1 to {_MOST_SECONDS}"
        )
    return Deadline(int(text), time.monotonic() + int(text))


def _postgresql(address: Any, deadline: Deadline) -> AbstractContextManager[Connected]:
    """Late, because its driver comes with an extra."""
    from dpicl.data.reading.postgresql import postgresql

    return postgresql(address, deadline)


@contextmanager
def _sqlite(address: Any, deadline: Deadline) -> Iterator[Connected]:
    """Python's own; a file that is not there is not made."""
    path = Path(address.database).absolute()
    with closing(
        sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = bytes  # a text may be none in UTF-8, which is its row's own fault
        connection.set_authorizer(_authorise)
        connection.set_progress_handler(deadline.has_passed, _STEPS)

        def ask(sql: str, wanted: Collection[str], batch_rows: int) -> Asked:
            cursor = connection.execute(sql)
            names = [str(column[0]) for column in cursor.description or ()]
            places = [place for place, name in enumerate(names) if name in wanted]
            read = [names[place] for place in places]
            is_all = len(places) == len(names)
            # one row at a time: a column that is not wanted may be wide
            rows: Iterator[Sequence[Any]] = (
                cursor if is_all else ([row[place] for place in places] for row in cursor)
            )
            return [(name, None) for name in names], iter(
                lambda: _columns(read, list(islice(rows, batch_rows))), {}
            )

        yield Connected((_file_address(address),), ask)


def _file_address(address: Any) -> str:
    return f"file:{os.path.realpath(str(address.database))}"


def _columns(names: list[str], rows: list[Sequence[Any]]) -> Columns:
    """Of rows, if there are any."""
    return dict(zip(names, map(of_objects, zip(*rows, strict=True)), strict=True)) if rows else {}


def _authorise(
    action: int,
    _table: str | None,
    function: str | None,
    _database: str | None,
    _trigger: str | None,
) -> int:
    is_barred = action == sqlite3.SQLITE_FUNCTION and (function or "").lower() in _BARRED
    return sqlite3.SQLITE_OK if action in _READING and not is_barred else sqlite3.SQLITE_DENY


_ENGINES: dict[str, Callable[[Any, Deadline], AbstractContextManager[Connected]]] = {
    "postgresql": _postgresql,
    "postgresql+psycopg": _postgresql,
    "sqlite": _sqlite,
    "sqlite+pysqlite": _sqlite,
}
"""By the first word of an address."""


def check_address(query: QuerySource, dataset: str) -> None:
    """The address is set and of an engine that is let in, and so is the time that it may take;
    connects to nothing. Raises SourceError: it is not; ParameterError: the time is none.
    """
    _address(query, dataset)
    _deadline()


def database_addresses(query: QuerySource, dataset: str) -> tuple[str, ...]:
    """Addresses of the account of a query's rows: the whole database, whatever its tables, as it
    says itself which one it is, however its address is spelt. Reads no row; of SQLite it is the
    file, and nothing is opened. Raises SourceError: the address is none, or no database answers
    there, or it does not say which one it is.
    """
    address = _address(query, dataset)
    if address.get_backend_name() == "sqlite":
        return (_file_address(address),)
    with ExitStack() as stack:
        deadline = Deadline(_IDENTITY_SECONDS, time.monotonic() + _IDENTITY_SECONDS)
        return _connected(stack, address, query, dataset, deadline).addresses


def _connected(
    stack: ExitStack, address: Any, query: QuerySource, dataset: str, deadline: Deadline
) -> Connected:
    """A connection for as long as the stack. Raises SourceError: there is none, or it does not say
    which database it is.
    """
    try:
        return stack.enter_context(_ENGINES[address.drivername](address, deadline))
    except ModuleNotFoundError as error:
        raise SourceError(f"{dataset}: {extra_of(error) or error}") from None
    except NoIdentity:
        raise SourceError(
            f"{dataset}: the database in {query.url_env} does not say which one it is, so that no "
            "account can be told; expected PostgreSQL 10 or newer, and `GRANT EXECUTE ON FUNCTION "
            "pg_catalog.pg_control_system() TO ROLE`, by an administrator"
        ) from None
    except RefusedLogin as error:
        raise SourceError(
            f"{dataset}: the server at the address in {query.url_env} refuses the login "
            f"({_kind(error)}); expected a role of that server, its password, and a database that "
            "it may connect to; before it is let in, nobody can tell which account pays for its "
            "rows"
        ) from None
    except (Refusal, sqlite3.Error, ImportError, TypeError, ValueError) as error:
        raise SourceError(
            f"{dataset}: no database answers at the address in {query.url_env} ({_kind(error)}); "
            "before it does, nobody can tell which account pays for its rows"
        ) from None


def query_batches(
    contract: Contract, query: QuerySource, batch_rows: int, check: Check | None = None
) -> Iterator[pa.Table]:
    """The rows of the query, typed by the contract, in batches of `batch_rows`; the last may be
    smaller. `check` may refuse the database. Raises SourceError: no database answers, or it refuses
    the query, or takes longer than DPICL_QUERY_SECONDS; DataError: the rows break the contract;
    ParameterError: DPICL_QUERY_SECONDS is no number of seconds.
    """
    address = _address(query, contract.name)
    deadline = _deadline()
    dataset = contract.name
    late = f"{dataset}: the contract's query takes longer than {deadline.seconds} seconds; "
    late += f"expected its rows by then, or a larger {_SECONDS_VARIABLE}"
    with ExitStack() as stack:
        connected = _connected(stack, address, query, dataset, deadline)
        if check is not None:
            check(connected.addresses)
        try:
            described, batches = connected.ask(query.sql, contract.read_columns, batch_rows)
            check_columns([name for name, _ in described], contract, WHERE)
            check_types(
                pa.schema([(name, kind) for name, kind in described if kind is not None]),
                contract,
                WHERE,
            )
            for columns in batches:
                # a query without an end gives rows on and on, each of them quickly
                if deadline.has_passed():
                    raise SourceError(late)
                yield typed_table(pa.table(dict(columns)), contract, WHERE)
        except (Refusal, sqlite3.Error) as error:
            if deadline.has_passed():
                raise SourceError(late) from None
            refused = f"{dataset}: the database refuses the contract's query"
            raise SourceError(f"{refused} ({_kind(error)})").with_details(
                f"{refused} ({_kind(error)}{_identifier(error)})"
            ) from None


def _address(query: QuerySource, dataset: str) -> Any:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    expected = "expected postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///FILE"
    text = os.environ.get(query.url_env)
    if not text:
        raise SourceError(f"{dataset}: {query.url_env} is not set; {expected}")
    try:
        address = make_url(text)
    except (ArgumentError, ValueError):
        raise SourceError(
            f"{dataset}: {query.url_env} is no database address; {expected}"
        ) from None
    if address.drivername not in _ENGINES:
        raise SourceError(
            f"{dataset}: {query.url_env} names a database that could be written to by a query; "
            f"{expected}"
        )
    if address.drivername.startswith("sqlite") and (
        address.database in (None, "", ":memory:") or address.query
    ):
        raise SourceError(f"{dataset}: {query.url_env} names no file alone; {expected}")
    return address


def _kind(error: Exception) -> str:
    """What kind of error, in a word of the driver's: its message may quote a value or the
    address.
    """
    return str(error) if isinstance(error, Refusal) else type(error).__name__


_FAULTS = (
    "no such table",
    "no such column",
    "no such function",
    "ambiguous column name",
    "syntax error",
    "incomplete input",
)
"""How SQLite names what is wrong in the text of a query, which is public."""


def _identifier(error: Exception) -> str:
    """What else says which mistake it is, for the holder of the rows: the SQLSTATE of a server; of
    SQLite one of `_FAULTS`, which is all of its message that is told, or its code.
    """
    if isinstance(error, sqlite3.Error):
        named = (fault for fault in _FAULTS if fault in str(error))
        # what Python refuses before SQLite sees it has no code
        fault = next(named, getattr(error, "sqlite_errorname", ""))
        return f", {fault}" if fault else ""
    sqlstate = error.sqlstate if isinstance(error, Refusal) else None
    return f", SQLSTATE {sqlstate}" if sqlstate else ""
