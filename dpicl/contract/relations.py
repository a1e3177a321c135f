"""What is publicly known of several columns of one row: that one is below another, that one is the
sum of others, that some categories never stand together. Released rows keep it.

A private row that breaks one is that row's affair: its columns of the relation are taken for
missing, where they may be, and nothing is told of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from dpicl.contract.base import CategoryName, Frozen, Name, Problems
from dpicl.contract.columns import Column
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.number import NumberColumn


class Order(Frozen):
    """Numbers or dates of which each is below the next."""

    rising: Annotated[tuple[Name, ...], Field(min_length=2)]
    """Columns: `[checkin, checkout]`."""
    or_equal: bool = False
    """Whether two may be equal."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it is about."""
        return self.rising

    def __str__(self) -> str:
        """As a contract has it."""
        return f"rising: [{', '.join(self.rising)}]"

    def problems(self, columns: dict[str, Column], key: str) -> Problems:
        """Why no row can keep it."""
        some = _numbers(columns, self.rising)
        kinds = {"number" if column.plain else column.type for column in some}
        if len(some) < len(self.rising) or len(kinds) > 1:
            yield key, "names columns of different types", "numbers, or dates of one type"
            return
        least = -math.inf
        for name, column in zip(self.rising, some, strict=True):
            low, high = column.bounds
            if high < least or (high == least and not self.or_equal):
                yield key, f"cannot hold within the bounds of {name}", "bounds that a row can keep"
                return
            least = max(least, low)


class Sum(Frozen):
    """A number that is the sum of others, or a date that is whole days after another one."""

    total: Name
    """The column of the sum: `paid`, `checkout`."""
    parts: Annotated[tuple[Name, ...], Field(min_length=2)]
    """What is added: `[room, extras]`, `[checkin, nights]`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it is about."""
        return (self.total, *self.parts)

    def __str__(self) -> str:
        """As a contract has it."""
        return f"total: {self.total}, parts: [{', '.join(self.parts)}]"

    def problems(self, columns: dict[str, Column], key: str) -> Problems:
        """Why no row can keep it."""
        some = _numbers(columns, self.columns)
        if len(some) < len(self.columns):
            yield (
                key,
                "names a column that is no number",
                "numbers; or a date and whole days after it",
            )
            return
        total, *parts = some
        if not all(column.plain for column in some):
            types = sorted(column.type for column in parts)
            if types != sorted([total.type, *["integer"] * (len(parts) - 1)]):
                expected = (
                    "numbers of numbers; of a date another date and whole numbers of days, of a "
                    "datetime another one and whole numbers of seconds"
                )
                yield key, f"adds up {' and '.join(types)} to the type {total.type}", expected
                return
        low, high = (math.fsum(column.bounds[end] for column in parts) for end in (0, 1))
        if low > total.bounds[1] or high < total.bounds[0]:
            expected = "bounds that a row can keep"
            yield key, f"cannot hold within the bounds of {self.total}", expected


class Never(Frozen):
    """Categories of several columns that never stand in one row."""

    never: Annotated[dict[Name, CategoryName], Field(min_length=2)]
    """{column: category}: `{sex: male, pregnant: yes}`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it is about."""
        return tuple(self.never)

    def __str__(self) -> str:
        """As a contract has it."""
        return f"never: {{{', '.join(f'{name}: {word}' for name, word in self.never.items())}}}"

    def problems(self, columns: dict[str, Column], key: str) -> Problems:
        """Why no row can keep it."""
        sizes = []
        for name, category in self.never.items():
            column = columns[name]
            if not isinstance(column, CategoryColumn) or category not in column.categories:
                yield key, f"has no such category of {name}", "categories as they are listed"
                return
            sizes.append(len(column.categories))
        if max(sizes) == 1:
            yield key, "cannot hold: no other categories are listed", "what a row can keep"


def _numbers(columns: dict[str, Column], names: tuple[str, ...]) -> list[NumberColumn]:
    """Those of these columns that hold numbers or dates."""
    some = (columns[name] for name in names)
    return [column for column in some if isinstance(column, NumberColumn)]


def _kind(stated: Any) -> str:
    """What is stated, by its keys."""
    names = stated if isinstance(stated, dict) else getattr(stated, "__dict__", ())
    return "sum" if "total" in names else "exclusion" if "never" in names else "order"


Relation = Annotated[
    Annotated[Order, Tag("order")]
    | Annotated[Sum, Tag("sum")]
    | Annotated[Never, Tag("exclusion")],
    Discriminator(_kind),
]


def sums_of(relations: Iterable[Relation]) -> list[Sum]:
    """Those that are sums, each after the sums that it adds up; none that adds up itself."""
    left = {relation.total: relation for relation in relations if isinstance(relation, Sum)}
    ordered: list[Sum] = []
    while ready := [
        total for total, relation in left.items() if not {*relation.parts} & left.keys()
    ]:
        ordered += [left.pop(total) for total in ready]
    return ordered


def check_relations(relations: tuple[Relation, ...], columns: dict[str, Column]) -> Problems:
    """Each is about columns that there are, and some row within the bounds keeps it."""
    for index, relation in enumerate(relations):
        key = f"relations.{index}"
        unknown = [name for name in relation.columns if name not in columns]
        if unknown:
            yield key, f"names {unknown[0]}, which is no column", "columns of this contract"
        elif len(set(relation.columns)) < len(relation.columns):
            yield key, "names a column twice", "distinct columns"
        else:
            yield from relation.problems(columns, key)
            totals = [other.total for other in relations[:index] if isinstance(other, Sum)]
            if isinstance(relation, Sum) and relation.total in totals:
                yield key, f"states {relation.total} as a sum again", "one sum for each total"
    sums = [relation for relation in relations if isinstance(relation, Sum)]
    if len({each.total for each in sums}) == len(sums) > len(sums_of(relations)):
        expected = "no total among the parts of its own sum, or of theirs"
        yield "relations", "has sums that add up each other", expected
