"""What is publicly known of several columns of one row: that one is below another, that one is the
sum of others, that some categories never stand together. Released rows keep it.

A private row that breaks one is that row's affair: its columns of the relation are taken for
missing, where they may be, and how many rows do is told to their holder alone.
"""

from __future__ import annotations

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
        return f"rising: [{', '.join(self.rising)}]{', or_equal: true' * self.or_equal}"

    def problems(self, columns: dict[str, Column], key: str) -> Problems:
        """What in it has no meaning."""
        some = _numbers(columns, self.rising)
        kinds = {"number" if column.plain else column.type for column in some}
        if len(some) < len(self.rising) or len(kinds) > 1:
            yield key, f"names {_typed(columns, self.rising)}", "numbers, or dates of one type"


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
        """What in it has no meaning."""
        some = _numbers(columns, self.columns)
        if len(some) < len(self.columns):
            expected = "numbers; or a date and whole days after it"
            yield key, f"names {_typed(columns, self.columns)}", expected
            return
        total, *parts = some
        if not all(column.plain for column in some):
            types = sorted(column.type for column in parts)
            if types != sorted([total.type, *["integer"] * (len(parts) - 1)]):
                expected = (
                    "parts that are numbers of a total that is one; a date and whole numbers of "
                    "days of a date; a datetime and whole numbers of seconds of a datetime"
                )
                yield key, f"adds up {' and '.join(types)} to the type {total.type}", expected


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
        """What in it has no meaning."""
        for name, category in self.never.items():
            column = columns[name]
            if not isinstance(column, CategoryColumn):
                yield key, f"names {_typed(columns, (name,))}", "columns of categories"
            elif category not in column.categories:
                few = ", ".join(map(str, column.categories[:10]))
                yield key, f"names {category!r}, which is no category of {name}", f"one of: {few}"


def _typed(columns: dict[str, Column], names: Iterable[str]) -> str:
    """Columns with their types, in words."""
    return ", ".join(f"{name} (of the type {columns[name].type})" for name in names)


def _numbers(columns: dict[str, Column], names: tuple[str, ...]) -> list[NumberColumn]:
    """Those of these columns that hold numbers or dates."""
    some = (columns[name] for name in names)
    return [column for column in some if isinstance(column, NumberColumn)]


_ORDER, _SUM, _NEVER = "an order (rising)", "a sum (total)", "an exclusion (never)"
_KINDS = {"rising": _ORDER, "total": _SUM, "never": _NEVER}


def _kind(stated: Any) -> str:
    """What is stated, by its keys."""
    names = stated if isinstance(stated, dict) else getattr(stated, "__dict__", ())
    found = [kind for key, kind in _KINDS.items() if key in names]
    return found[0] if len(found) == 1 else " and ".join(found) or _ORDER


Relation = Annotated[
    Annotated[Order, Tag(_ORDER)] | Annotated[Sum, Tag(_SUM)] | Annotated[Never, Tag(_NEVER)],
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
