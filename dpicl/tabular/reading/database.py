"""Rows of a database: the contract's query, sent to an engine that cannot be written to, read batch by batch.

The address with its password comes from the environment variable that the contract names and
stands in no message; neither does anything that the database says, which may quote a value.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from dpicl.contract.models import Contract
from dpicl.contract.sources import Query
from dpicl.errors import DataError, SourceError
from dpicl.tabular.reading.engines import ENGINES, SECONDS_VARIABLE, Deadline, query_seconds
from dpicl.tabular.reading.parse import check_columns, typed_rows

WHERE = "query"


def check_address(query: Query, dataset: str) -> None:
    """The address is set and of an engine that is let in, and so is the time that it may take; connects to nothing.

    Raises:
        SourceError: it is not.
        ParameterError: the time is none.
    """
    _address(query, dataset)
    query_seconds()


def query_batches(contract: Contract, query: Query, batch_rows: int) -> Iterator[pa.Table]:
    """The rows of the query, typed by the contract, in batches of `batch_rows`; the last may be smaller.

    Raises:
        SourceError: no database answers, or it refuses the query, or takes longer than DPICL_QUERY_SECONDS.
        DataError: the rows break the contract.
        ParameterError: DPICL_QUERY_SECONDS is no number of seconds.
    """
    address, deadline, dataset = _address(query, contract.name), Deadline(query_seconds()), contract.name
    from sqlalchemy.exc import SQLAlchemyError

    late = f"{dataset}: the contract's query takes longer than {deadline.seconds} seconds; "
    late += f"expected its rows by then, or a larger {SECONDS_VARIABLE}"
    with ExitStack() as stack:
        try:
            ask = stack.enter_context(ENGINES[address.drivername](address, deadline))
        except (SQLAlchemyError, sqlite3.Error, ImportError, TypeError, ValueError) as error:
            raise SourceError(f"{dataset}: no database answers at the address in {query.url_env} ({_kind(error)})") from None
        try:
            names, batches = ask(query.sql)
            check_columns(names, contract, WHERE)
            waiting: list[Any] = []
            for rows in batches:
                if deadline.has_passed():  # a query without an end gives rows on and on, each of them quickly
                    raise SourceError(late)
                waiting += rows
                while len(waiting) >= batch_rows:
                    yield _typed(names, waiting[:batch_rows], contract)
                    waiting = waiting[batch_rows:]
            if waiting:
                yield _typed(names, waiting, contract)
        except (SQLAlchemyError, sqlite3.Error) as error:
            refused = f"{dataset}: the database refuses the contract's query ({_kind(error)})"
            raise SourceError(late if deadline.has_passed() else refused) from None


def _typed(names: Sequence[str], rows: Sequence[Any], contract: Contract) -> pa.Table:
    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if name in contract.read_columns:
            try:
                columns[name] = pa.array(values, from_pandas=False)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                raise DataError(WHERE, "holds neither numbers nor text", column=name) from None
    return typed_rows(pa.table(columns), contract, WHERE)


def _address(query: Query, dataset: str) -> Any:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    expected = "expected postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///FILE"
    text = os.environ.get(query.url_env)
    if not text:
        raise SourceError(f"{dataset}: {query.url_env} is not set; {expected}")
    try:
        address = make_url(text)
    except (ArgumentError, ValueError):
        raise SourceError(f"{dataset}: {query.url_env} is no database address; {expected}") from None
    if address.drivername not in ENGINES:
        raise SourceError(f"{dataset}: {query.url_env} names a database that could be written to by a query; {expected}")
    if address.drivername.startswith("sqlite") and (address.database in (None, "", ":memory:") or address.query):
        raise SourceError(f"{dataset}: {query.url_env} names no file alone; {expected}")
    return address


def _kind(error: Exception) -> str:
    """What kind of error, in a word of the driver's: its message may quote a value or the address."""
    return type(getattr(error, "orig", None) or error).__name__
