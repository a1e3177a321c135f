"""Truth values."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import ModelWrapValidatorHandler, model_validator
from pydantic.json_schema import SkipJsonSchema

from dpicl.contract.base import Category, as_written
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import FALSE, TRUE, CategoryColumn


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
                as_written(value) for value in stated if value != MISSING
            ] != [FALSE, TRUE]:
                raise ValueError(
                    "a boolean has other categories than false and true; expected no "
                    "`categories`, or `type: category`"
                )
            content = {**content, "categories": (FALSE, TRUE)}
        column = handler(content)
        column._value_type = "boolean"
        return column
