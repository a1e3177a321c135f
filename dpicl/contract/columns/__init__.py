"""The types of columns, each in a file of its own: how its cells are read, which codes its values
have, how they are averaged, worded and checked, and as what they leave.

All bounds and categories are public knowledge: they are written by somebody who knows the field,
never read from the private table. A new type is a file beside these, of a class that extends one of
theirs, and its name below.
"""

from functools import cache
from typing import Annotated, get_args

from pydantic import Field

from dpicl.contract.columns.boolean import BooleanColumn
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.date import DateColumn
from dpicl.contract.columns.integer import IntegerColumn
from dpicl.contract.columns.real import RealColumn

AnyNumber = IntegerColumn | RealColumn
AnyOf = IntegerColumn | RealColumn | DateColumn | CategoryColumn | BooleanColumn
Column = Annotated[AnyOf, Field(discriminator="type")]
TYPES: dict[str, type[AnyOf]] = {
    name: kind
    for kind in get_args(AnyOf)
    for name in get_args(kind.model_fields["type"].annotation)
}
"""{type in a contract: its class}."""


@cache
def number_like(name: str) -> AnyNumber:
    """Some column of this type of numbers, for what does not depend on bounds."""
    column = TYPES[name].model_validate({"type": name, "bounds": (0, 1), "nullable": True})
    assert not isinstance(column, CategoryColumn)
    return column
