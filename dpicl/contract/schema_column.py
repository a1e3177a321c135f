"""A column as a published schema of any kind tells of it, and what a draft makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from dpicl.contract.base import DateForm, as_written
from dpicl.contract.columns.category import BOOLEANS, FALSE, TRUE, type_of
from dpicl.contract.columns.date import moment
from dpicl.contract.draft import UNNAMED, DraftColumn, can_be_named

_TYPES = {
    "integer": "integer",
    "year": "integer",
    "number": "real",
    "string": "category",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "date-time": "datetime",
    "timestamp": "datetime",
}
"""A schema's name of a type, or of a JSON Schema's format, and that of a contract."""
_LONGEST_NOTE = 120
_FORM: TypeAdapter[str] = TypeAdapter(DateForm)
_USUAL = ("default", "any")
"""Forms of dates: ISO 8601, and what a reader may guess."""
_UNIQUE = "a value of its own in every row, as an identifier has"


def _as_values(value: Any) -> Any:
    """Values as a row has them; null is no value."""
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise ValueError(
            f"got {str(value)[:60]!r}; expected a list of numbers, texts or truth values"
        )
    return tuple(item for item in value if item is not None)


_Values = Annotated[tuple[Any, ...], BeforeValidator(_as_values)]


def _as_words(value: Any) -> Any:
    """Words as they stand in a file; since version 2 of Table Schema each may have a label."""
    if not isinstance(value, list):
        told = f"got {str(value)[:60]!r}; expected a list of texts"
        raise ValueError(told)  # noqa: TRY004 - of a validator
    words = (item.get("value") if isinstance(item, dict) else item for item in value)
    return tuple(str(as_written(word)) for word in words if word is not None)


MissingWords = Annotated[tuple[str, ...] | None, BeforeValidator(_as_words)]


class Open(BaseModel):
    """Part of a schema, of which most keys do not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, content: Any) -> Any:
        """A key with nothing behind it is not there."""
        is_mapping = isinstance(content, dict)
        return {k: v for k, v in content.items() if v is not None} if is_mapping else content


class Limits(Open):
    """What a value may be."""

    enum: _Values = ()
    required: Any = True
    unique: Any = False
    minimum: float | str | None = None  # text of a date, and of a number where a Table Schema likes
    maximum: float | str | None = None


class Told(Open):
    """A column as its schema tells of it, which is how a Table Schema has it."""

    name: str
    type: str = "string"
    format: str = "default"
    constraints: Limits = Limits()
    true_values: _Values = Field((TRUE,), alias="trueValues")
    false_values: _Values = Field((FALSE,), alias="falseValues")
    missing: MissingWords = Field(None, alias="missingValues")
    decimal_mark: str = Field(".", alias="decimalChar")
    group_mark: str = Field("", alias="groupChar")
    is_bare: bool = Field(True, alias="bareNumber")
    title: str = ""
    description: str = ""
    groups: dict[str, Any] = {}
    more: dict[str, Any] | None = None

    @property
    def is_date(self) -> bool:
        """Whether it holds days or times of days."""
        kinds = ("date", "datetime", "date-time", "timestamp")
        return self.type in kinds and not self.constraints.enum

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers that may have decimals."""
        return self.type == "number" and not self.constraints.enum


def written_by(columns: Sequence[Told]) -> dict[str, Any]:
    """{key of `source`: value} of a file of these columns, where that is not the usual way: the
    form of its dates, one for all or by column, and a decimal comma that all its numbers have.
    """
    dates = [one for one in columns if one.is_date and can_be_named(one.name)]
    dates = [one for one in dates if one.constraints.unique is not True]
    forms = {column.name: column.format for column in dates if is_form(column.format)}
    is_one = len(set(forms.values())) == 1 and len(forms) == len(dates)
    marks = {column.decimal_mark for column in columns if column.is_number}
    return {
        **({"dates": next(iter(forms.values())) if is_one else forms} if forms else {}),
        **({"decimal": ","} if marks == {","} else {}),
    }


def is_form(text: str) -> bool:
    """Whether a contract can state it of dates."""
    try:
        _FORM.validate_python(text)
    except ValidationError:
        return False
    return "%" in text


def _unreadable(told: Told, written: Mapping[str, Any]) -> str:
    """Why no contract can say how its values are written, in a file written like this; empty where
    one can.
    """
    if told.is_date:
        dates = written.get("dates")
        form = dates.get(told.name) if isinstance(dates, Mapping) else dates
        if told.format not in _USUAL and not form:
            return (
                f"values of type {told.type} in another format; say how they are written, as "
                "--dates %d.%m.%Y of 25.11.2026"
            )
    if told.is_number or told.type == "integer":
        if told.group_mark:
            return "numbers whose thousands are separated; export them without"
        if not told.is_bare:
            return "numbers with a unit; export them without"
    if told.is_number and told.decimal_mark not in (".", written.get("decimal")):
        return "numbers with another decimal mark than others; export all with one mark"
    return ""


def column_of(told: Told, written: Mapping[str, Any]) -> DraftColumn | str:
    """A column of a listed set of values is one of categories, whatever they are; as text, why a
    contract cannot describe it.

    Args:
        written: {key of `source`: how the file is written}.
    """
    name, limits, kind = told.name, told.constraints, told.type
    if not can_be_named(name):
        return UNNAMED
    if (why := _unreadable(told, written)) and not limits.enum:
        return why
    if not (limits.enum or kind in _TYPES):
        return f"values of type {printable(kind)}" if kind else "values of no type, or of several"
    if limits.unique is True and not limits.enum:
        return _UNIQUE
    words = tuple(word for word in told.missing or () if word)
    # by the standard every column is one without values that does not say otherwise
    nullable = limits.required is False or (
        bool(words) and "required" not in limits.model_fields_set
    )
    note, missing = printable(told.description or told.title), words if nullable else ()
    groups = {code: str(as_written(group)) for code, group in told.groups.items()}
    made = partial(DraftColumn, name, nullable=nullable, missing=missing, note=note, more=told.more)
    if limits.enum or kind in ("string", "boolean"):
        truth = told.false_values + told.true_values if kind == "boolean" else ()
        stated = limits.enum or tuple(dict.fromkeys(told.groups.values())) or truth
        if kind == "boolean" and all(str(as_written(value)) in BOOLEANS for value in stated):
            return made("boolean", categories=(FALSE, TRUE))
        texts = tuple(text for value in stated if (text := str(as_written(value))) not in missing)
        kinds = type_of([value for value in stated if str(as_written(value)) in texts])
        return made("category", categories=texts, value_type=kinds, groups=groups)
    low, high = (
        _bound(stated, is_date=told.is_date, form=told.format)
        for stated in (limits.minimum, limits.maximum)
    )
    return made(_TYPES[kind], (low, high))


def printable(text: str) -> str:
    """A beginning of what somebody else has written, in one line."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())[
        :_LONGEST_NOTE
    ]


def _bound(stated: float | str | None, *, is_date: bool, form: str) -> float | str | None:
    """A number or date; what is none, such as an expression of SQL, has to be filled in."""
    try:
        if is_date:
            plain = str(stated).strip("'\"")
            if is_form(form):  # as the rows have it, or as a date of the schema
                with suppress(ValueError):
                    plain = datetime.strptime(plain, form).isoformat().removesuffix("T00:00:00")
            moment(plain, "datetime")
            return plain
        number = math.nan if stated is None else float(stated)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
