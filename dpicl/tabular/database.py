"""Rows of a database: the contract's query, asked through SQLAlchemy, read batch by batch from a cursor of the server.

The address with its password comes from the environment variable that the contract names and
stands in no message; neither does anything that the database says, which may quote a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.contract.sources import Query
from dpicl.errors import DataError, SourceError
from dpicl.tabular.parse import check_columns, typed_rows

WHERE = "query"
_FETCHED_ROWS = 1 << 14
_CONNECT_SECONDS = 10


def check_address(query: Query, dataset: str) -> None:
    """The address is set and is one; asks nobody.

    Raises:
        SourceError: it is not.
    """
    _address(query, dataset)


def query_batches(contract: Contract, query: Query, batch_rows: int) -> Iterator[pa.Table]:
    """The rows of the query, typed by the contract, in batches of `batch_rows`; the last may be smaller.

    Raises:
        SourceError: no database answers, or it refuses the query.
        DataError: the rows break the contract.
    """
    with _asked(query, contract.name) as answer:
        names = list(answer.keys())
        check_columns(names, contract, WHERE)
        held: list[Any] = []
        for rows in answer.partitions(_FETCHED_ROWS):
            held += rows
            while len(held) >= batch_rows:
                yield _typed(names, held[:batch_rows], contract)
                held = held[batch_rows:]
        if held:
            yield _typed(names, held, contract)


def _typed(names: Sequence[str], rows: Sequence[Any], contract: Contract) -> pa.Table:
    columns = {name: _column(values, name) for name, values in zip(names, zip(*rows, strict=True), strict=True) if _wanted(name, contract)}
    return typed_rows(pa.table(columns), contract, WHERE)


def _wanted(name: str, contract: Contract) -> bool:
    return name in contract.read_columns


def _column(values: Sequence[Any], name: str) -> pa.Array:
    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise DataError(WHERE, "holds neither numbers nor text", column=name) from None


@contextmanager
def _asked(query: Query, dataset: str) -> Iterator[Any]:
    """The answer while the connection is open; the database is told that nothing will be written, and keeps the rows."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    address = _address(query, dataset)
    settings = {"connect_args": {"connect_timeout": _CONNECT_SECONDS}} if address.get_backend_name() == "postgresql" else {}
    try:
        engine = create_engine(address, **settings)
        connection = engine.connect()
    except (SQLAlchemyError, ImportError, TypeError, ValueError) as error:
        raise SourceError(f"{dataset}: no database answers at the address in {query.url_env} ({_kind(error)})") from None
    try:
        options = {"stream_results": True, "max_row_buffer": _FETCHED_ROWS, "no_parameters": True, "postgresql_readonly": True}
        yield connection.execution_options(**options).exec_driver_sql(query.sql)
    except SQLAlchemyError as error:
        raise SourceError(f"{dataset}: the database refuses the contract's query ({_kind(error)})") from None
    finally:
        connection.close()
        engine.dispose()


def _address(query: Query, dataset: str) -> Any:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ModuleNotFoundError:
        raise SourceError(f"{dataset}: a query needs SQLAlchemy; type `pip install 'dpicl[ledger]'`") from None
    expected = "expected postgresql://USER:PASSWORD@HOST/DATABASE, or another address of SQLAlchemy's"
    text = os.environ.get(query.url_env)
    if not text:
        raise SourceError(f"{dataset}: {query.url_env} is not set; {expected}")
    try:
        address = make_url(text)
    except (ArgumentError, ValueError):
        raise SourceError(f"{dataset}: {query.url_env} is no database address; {expected}") from None
    return address.set(drivername="postgresql+psycopg") if address.drivername == "postgresql" else address


def _kind(error: Exception) -> str:
    """What kind of error, in a word of the driver's: its message may quote a value or the address."""
    return type(getattr(error, "orig", None) or error).__name__
