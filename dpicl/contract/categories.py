"""Columns of categories: their public list, of which type their values are, and the texts by which
a value comes.

A category is known by its text. The type of its values follows from how the list is written, and
from nothing else: of `[0, 1]` they are whole numbers, of `[0.5, 1]` real ones, of `[false, true]`
and of `type: boolean` booleans, of `["0", "1"]` and `[red, blue]` texts. Names of releases are made
of the texts, so that they are the same whatever leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    field_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from dpicl.contract.base import IN_FULL, Category, CategoryName, Text, as_written
from dpicl.contract.column_base import AnyColumn

MISSING = "(missing)"
"""The last category of a nullable column of categories: no value."""
ValueType = Literal["category", "boolean", "integer", "real"]
"""Of the values of a column of categories; `category` is text."""
_Listed = Annotated[
    Category,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 200},
                {"type": "number"},
                {"type": "boolean"},
            ]
        }
    ),
]
FALSE, TRUE = "false", "true"
_SPELLED = {
    FALSE: ("false", "False", "FALSE", "0", "0.0"),
    TRUE: ("true", "True", "TRUE", "1", "1.0"),
}
BOOLEANS = {spelled: truth for truth, some in _SPELLED.items() for spelled in some}
"""{text by which a boolean comes: its category}."""
_AS_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
_ZERO_OF_EXPONENT = re.compile(r"(?<=e)([+-]?)0(?=\d)")
"""Which Python writes in 1e-07, and Arrow does not."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d*?[1-9])?(?:\.?0*)", re.ASCII)
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


class CategoryColumn(AnyColumn):
    """Categories from a public list; `texts` gives their wording in prompts."""

    unsaid: ClassVar[tuple[str, ...]] = (*AnyColumn.unsaid, "nullable")

    type: Literal["category"]
    """Categories."""
    nullable: bool = False
    """Whether a value may be missing: the last category is then `(missing)`, and reads as `unknown`
    unless `texts` words it.
    """
    categories: Annotated[tuple[_Listed, ...], Field(min_length=1, max_length=256)]
    """All possible values, at most 256, from public knowledge: including those that no row has.
    Released values are of the type in which these are written: numbers, booleans, or texts.
    """
    texts: dict[CategoryName, Text] = {}
    """{category: its wording in prompts}; the category itself where none is given."""
    _value_type: ValueType = PrivateAttr("category")

    @property
    def value_type(self) -> ValueType:
        """Of the values."""
        return self._value_type

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_type(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """A list of one type as texts, and the type beside it."""
        kind: ValueType = "category"
        if isinstance(content, dict) and isinstance(
            stated := content.get("categories"), list | tuple
        ):
            kind = type_of([one for one in stated if one != MISSING])
            if kind != "category":
                content = {**content, "categories": [as_written(one) for one in stated]}
        column = handler(content)
        if isinstance(content, dict):
            column._value_type = kind
        return column

    @model_validator(mode="before")
    @classmethod
    def _with_missing(cls, content: Any) -> Any:
        """`(missing)` after the categories of a nullable column."""
        if (
            isinstance(content, dict)
            and content.get("nullable") is True
            and isinstance(stated := content.get("categories"), list | tuple)
        ):
            texts = content.get("texts") or {}
            worded = {MISSING: "unknown", **texts} if isinstance(texts, dict) else texts
            return {
                **content,
                "categories": [*(one for one in stated if one != MISSING), MISSING],
                "texts": worded,
            }
        return content

    @model_validator(mode="after")
    def _consistent(self) -> CategoryColumn:
        if MISSING in self.categories and not self.nullable:
            raise ValueError(
                f"{MISSING!r} stands for a missing value; expected `nullable: true`, or another "
                f"category"
            )
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category is repeated; expected distinct categories")
        unknown = sorted(set(self.texts) - set(self.categories))
        if unknown:
            raise ValueError(f"texts names {unknown[0]!r}; expected only listed categories")
        return self

    @field_serializer("categories")
    def _as_stated(self, categories: tuple[str, ...], info: SerializationInfo) -> tuple[Any, ...]:
        """As texts, of which names are made; for people in their type."""
        if info.context != IN_FULL:
            return categories
        return tuple(
            one if one == MISSING else value_of(one, self.value_type) for one in categories
        )


class BooleanColumn(CategoryColumn):
    """Truth values, with `false` and `true` as categories."""

    type: Literal["boolean"]  # type: ignore[assignment]  # so that booleans are categories to everything that counts them
    """True or false; values may come as `true`, `True`, `TRUE`, 1 and the same of false."""
    categories: SkipJsonSchema[tuple[Category, ...]] = (FALSE, TRUE)

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_type(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(content, dict):
            stated = content.get("categories", (FALSE, TRUE))
            if isinstance(stated, list | tuple) and [
                as_written(one) for one in stated if one != MISSING
            ] != [FALSE, TRUE]:
                raise ValueError(
                    "a boolean has other categories than false and true; expected no "
                    "`categories`, or `type: category`"
                )
            content = {**content, "categories": (FALSE, TRUE)}
        column = handler(content)
        column._value_type = "boolean"
        return column


def type_of(stated: Sequence[Any]) -> ValueType:
    """That in which all of them are written; text where there are several."""
    kinds = {type(one) for one in stated}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "integer"
    return "real" if kinds and kinds <= {int, float} else "category"


def written_type(texts: Sequence[str]) -> ValueType:
    """Of a list that nobody has written yet: whole numbers, where each text is one and stays as it
    is; else text.
    """
    return "integer" if texts and all(map(_AS_INTEGER.fullmatch, texts)) else "category"


def value_of(category: str, kind: ValueType) -> str | bool | int | float:
    """A category, by its text, in the type of its values."""
    if kind == "boolean":
        return category == TRUE
    return (
        category if kind == "category" else int(category) if kind == "integer" else float(category)
    )


def category_of(text: str, categories: tuple[str, ...], kind: ValueType) -> str | None:
    """The category that is meant by another text than its own; None if none is.

    A number is meant by every way of writing it, but for leading zeros, which a number loses; a day
    by its midnight, as a column of times has it. A boolean is meant by `true`, `True`, `TRUE`, 1
    and the same of false; and so are two categories that are such words, one for true and one for
    false.
    """
    if kind == "boolean":
        return BOOLEANS.get(text)
    if kind == "integer" and (whole := _WHOLE.fullmatch(text)):
        return as_category("0" if whole[1] == "-0" else whole[1], categories)
    if kind == "real" and NUMBER.fullmatch(text):
        number = as_written(float(text))
        return as_category(number, categories) or _others(categories).get(number)
    # of which a column of times has zeros, however many
    if kind == "category" and (time := _TIME.fullmatch(text)):
        spelled = (f"{time[1]}{between}{time[2]}{time[3] or ''}" for between in (" ", "T"))
        day = time[1] if time[2] == "00:00:00" and not time[3] else None
        return next((one for one in (*spelled, day) if one in categories), None)
    return _others(categories).get(text)


def as_category(text: str, categories: tuple[str, ...]) -> str | None:
    """The text, if it is a category."""
    return text if text in categories else None


def _of_32_bits(number: str) -> str:
    """As a column of 32 bits has a number, and still has it where a row has made it one of 64:
    0.10000000149011612 of 0.1.
    """
    with np.errstate(over="ignore"):
        narrow = float(np.float32(float(number)))
    # neither beyond 32 bits nor too small for them
    return str(as_written(narrow)) if narrow and isfinite(narrow) else number


@lru_cache(maxsize=1024)
def _others(categories: tuple[str, ...]) -> Mapping[str, str]:
    """{what a column of numbers or booleans has for a category that is written otherwise: the
    category}.
    """
    stated = [one for one in categories if one != MISSING]
    truths = {BOOLEANS[one]: one for one in stated if one in BOOLEANS}
    meant = (
        {text: truths[truth] for text, truth in BOOLEANS.items()}
        if len(stated) == len(truths) == 2
        else {}
    )
    floats = [(as_written(float(one)), one) for one in stated if NUMBER.fullmatch(one)]
    floats += [
        (text, one)
        for one in stated
        if NUMBER.fullmatch(one) and (text := _of_32_bits(one)) != as_written(float(one))
    ]
    numbers = floats + [
        (short, one)
        for text, one in floats
        if (short := _ZERO_OF_EXPONENT.sub(r"\1", text)) != text
    ]
    for text, category in numbers:
        if text not in categories and [other for other, _ in numbers].count(text) == 1:
            meant[text] = category
    return {text: category for text, category in meant.items() if text not in categories}
