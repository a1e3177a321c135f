"""What a database engine is given, and what it gives back: a query and a deadline, and columns by
the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

WHERE = "query"
"""The rows' place in messages."""
Columns = Mapping[str, pa.Array]
"""By name, each of shape (rows,), of any type."""
Asked = tuple[list[tuple[str, pa.DataType | None]], Iterator[Columns]]
"""The names of a query's columns and, where the database has one for all rows, the type of each;
and its batches.
"""
Ask = Callable[[str, Collection[str], int], Asked]
"""A database that cannot be written to: it runs one query, and gives, as they are gone through, the
columns of the wanted names in batches of so many rows, the last of which may be smaller.
"""


Check = Callable[[tuple[str, ...]], None]
"""Is given what the very connection says of which database it is, by addresses of accounts, before
a row is read; may refuse it.
"""


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
    """A driver's error by its kind, a word, and the code that the server gave, if any: its message
    may quote a value or the address.
    """

    def __init__(self, kind: str, sqlstate: str | None = None) -> None:
        super().__init__(kind)
        self.sqlstate = sqlstate


class RefusedLogin(Refusal):
    """A server answers, and lets this role with this password not into this database."""


@dataclass(frozen=True)
class Deadline:
    """When a query has to be done, its rows read: after so many seconds, at `end` by the monotonic
    clock.
    """

    seconds: int
    end: float

    def has_passed(self) -> bool:
        """Whether it is too late."""
        return time.monotonic() >= self.end
