"""What all declarations share: frozen models, and the types of names, texts and rates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isfinite
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    WithJsonSchema,
    model_serializer,
)
from pydantic_core import core_schema

_NAME = r"""[^\s{}\[\]!:,;"'\\/.\x00-\x1f-]"""
Key = Annotated[
    str,
    StringConstraints(
        pattern=rf"^{_NAME}([^{{}}\[\]!:\"\\\x00-\x1f]{{0,62}}[^\s{{}}\[\]!:\"\\\x00-\x1f])?$"
    ),
]
"""Of a model or a work pool: 1 to 64 characters of any script; none that a mapping would take for
its own.
"""
NAME = re.compile(r"^[^\s\x00-\x1f]([^\x00-\x1f]{0,253}[^\s\x00-\x1f])?$")


def _name(value: str) -> str:
    if not NAME.search(value) or value.endswith("\n"):
        raise ValueError(
            f"got the name {value[:60]!r}; expected 1 to 255 characters without a line break or "
            "tab, or a blank at either end: rename the column where the rows are, or by "
            "`source: {rename: {...}}`"
        )
    return value


Name = Annotated[
    str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME.pattern})
]
"""Of a column, attribute or word. One with braces, brackets, `:` or `!` in it has no place in a
stated template.
"""


def _is_nested(parts: Sequence[str]) -> bool:
    """Whether there are hours of a day, minutes of an hour and seconds of a minute only."""
    hours = bool({*parts} & {"H", "I"})
    return ("d" in parts) >= hours >= ("M" in parts) >= ("S" in parts)


def _date_form(value: str) -> str:
    """A date of two digits of a year has no century, a form without a year no day, and one with a
    day and no month, or with half of a day's hours, another date. Minutes without hours may be
    meant as months.
    """
    parts = re.findall("%(.?)", value)
    known = {*parts} <= {*"YmbBdHIMSfpz"} and len({*parts}) == len(parts)
    month, half = len({*parts} & {*"mbB"}), len({*parts} & {*"Ip"})
    if (
        not known
        or "Y" not in parts
        or month != ("d" in parts or bool(month))
        or half not in (0, 2)
        or {"H", "I"} <= {*parts}
        or not _is_nested(parts)
    ):
        raise ValueError(
            f"got {value[:40]!r}; expected a form such as %d.%m.%Y or %m/%d/%Y %H:%M, of %Y (four "
            "digits), %m (or %b: Nov), %d, %H (or %I and %p), %M, %S, %f, %z, each once"
        )
    return value


DateForm = Annotated[str, AfterValidator(_date_form)]
Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


def as_written(value: Any) -> Any:
    """A number or boolean as a category's text; anything else as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)
    return str(value) if isinstance(value, int) else value


def _whole_as_written(value: Any) -> Any:
    """A whole number as text, as `yaml_file` reads what is written; anything else as it is."""
    return value if isinstance(value, bool | float) else as_written(value)


_CATEGORY = StringConstraints(min_length=1, max_length=200)
Category = Annotated[str, BeforeValidator(_whole_as_written), _CATEGORY]
CategoryName = Annotated[str, BeforeValidator(as_written), _CATEGORY]
"""One of the categories that a column lists, in any type."""
Part = Annotated[
    str, BeforeValidator(as_written, json_schema_input_type=str | float | bool), _CATEGORY
]
"""The same in a list: `parts: [[0], [1]]`."""


_FRACTION = re.compile(r"-?\d+(?:/\d+|(?:\.\d+)?(?:[eE][+-]?\d+)?)", re.ASCII)


def _as_fraction(value: Any) -> Any:
    text = str(value)
    try:
        if not _FRACTION.fullmatch(text):
            raise ValueError
        # By way of a double, because Fraction("1e999999999") would write out every digit.
        return Fraction(text if "/" in text else str(float(text)))
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"got {text[:60]!r}; expected a number or a fraction such as 1/10"
        ) from None


Rate = Annotated[Fraction, BeforeValidator(_as_fraction)]


Problems = Iterator[tuple[str, str, str]]
"""What is wrong with a contract, the first of which is told: (key, rule that is broken, what is
expected).
"""
_MOST = 2**63


def _number(value: Any, expected: str = "a number as JSON writes it, without quotes") -> Any:
    """Neither a text nor `true`, which pydantic would take for numbers, as it would numpy's."""
    value = value.tolist() if hasattr(value, "dtype") else value
    if isinstance(value, str | bytes | bool):
        raise ValueError(f"got {str(value)[:40]!r}; expected {expected}")  # noqa: TRY004
    if isinstance(value, int) and not -_MOST <= value < _MOST:
        raise ValueError("got a number beyond 64 bits; expected a smaller one")
    return value


def _whole_number(value: Any) -> Any:
    return _number(value, "a whole number as JSON writes it, without quotes")


def _true_or_false(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError(f"got {str(value)[:40]!r}; expected true or false, without quotes")  # noqa: TRY004
    return value


_AS_THEY_ARE = ("keys_schema", "serialization", "metadata")
_CHECKS = {"int": _whole_number, "float": _number, "bool": _true_or_false}


def _strictly(schema: Any) -> Any:
    """A schema of pydantic in which numbers, true and false are written in one way each; the keys
    of a mapping are text in any case.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_strictly(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "function-before" and schema["function"].get("function") in _CHECKS.values():
        return schema
    if isinstance(kind, str) and kind in _CHECKS:
        return core_schema.no_info_before_validator_function(_CHECKS[kind], cast(Any, schema))
    return {
        name: part if name in _AS_THEY_ARE else _strictly(part) for name, part in schema.items()
    }


IN_FULL = {"keys": "all"}
"""Context of `model_dump` for people to read: every key, and each value as it was stated."""


class Frozen(BaseModel):
    """Base: immutable, and an unknown key is an error.

    Digests of contracts and names of releases are made of the serialised form, so it never changes:
    one of the keys in `unsaid` is left out where it has its default, so that a new key renames
    nothing, and a key may have a `serialization_alias`, which digests are made of.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        defer_build=True,
    )
    unsaid: ClassVar[tuple[str, ...]] = ()
    """Keys that are serialised only where they differ from their default: every new one."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return cast(core_schema.CoreSchema, _strictly(handler(source)))

    @model_serializer(mode="wrap")
    def _stable_form(
        self, serialise: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        if info.context == IN_FULL:
            return content
        for name in self.unsaid:
            field = type(self).model_fields[name]
            if getattr(self, name) == field.default:
                content.pop(name, None)
                content.pop(field.serialization_alias or name, None)
        return content
