"""What a database engine is given, and what it gives back: a query and a deadline, and columns by the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpicl.errors import DataError

WHERE = "query"
"""The rows' place in messages."""
Columns = Mapping[str, pa.Array]
"""By name, each of shape (rows,), of any type."""
Ask = Callable[[str, Collection[str], int], tuple[list[str], Iterator[Columns]]]
"""A database that cannot be written to: it runs one query, and gives the names of its columns and, as they are gone through, those of the
wanted names in batches of so many rows, the last of which may be smaller.
"""


Check = Callable[[tuple[str, ...]], None]
"""Is given what the very connection says of which database it is, by addresses of accounts, before a row is read; may refuse it."""


@dataclass(frozen=True)
class Connected:
    """A connection to a database.

    Attributes:
        addresses: of the rows' account, as the database itself says which one it is.
        ask: runs the query.
    """

    addresses: tuple[str, ...]
    ask: Ask


class NoIdentity(Exception):
    """A database does not say which one it is."""


class Refusal(Exception):
    """A driver's error by its kind, a word: its message may quote a value or the address."""


@dataclass(frozen=True)
class Deadline:
    """When a query has to be done, its rows read: after so many seconds, at `end` by the monotonic clock."""

    seconds: int
    end: float

    def has_passed(self) -> bool:
        """Whether it is too late."""
        return time.monotonic() >= self.end


def of_objects(values: Iterable[Any], name: str) -> pa.Array:
    """A column of a driver's objects, of shape (rows,): of those that Arrow has no type for together, each is a text by its own type, whatever the
    others are. Raises DataError: one is no plain value.
    """
    every = list(values)
    with suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array(every, from_pandas=False)
    try:
        return pa.array(list(map(_text, every)), pa.string())
    except (pa.ArrowException, TypeError, ValueError):
        raise DataError(WHERE, "holds neither numbers nor text", column=name) from None


def _text(value: Any) -> str | None:
    """As CSV would hold it. Raises TypeError: it is no number, text, truth value, date or time."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int | Decimal):
        return format(value, "d" if isinstance(value, int) else "f")
    if isinstance(value, date):  # and a datetime, which is one
        return value.isoformat()
    raise TypeError
