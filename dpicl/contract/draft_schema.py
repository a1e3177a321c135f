"""Columns of a draft from a published schema: no row is read.

Three kinds: Frictionless Table Schema (alone, or of a resource of a Data Package), JSON Schema of
one row, and the names and types in the footer of a Parquet file, whose statistics are not read,
since they are computed from rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dpicl.contract.base import as_written
from dpicl.contract.columns import TYPES
from dpicl.contract.columns.category import BOOLEANS, FALSE, TRUE, type_of
from dpicl.contract.columns.date import moment
from dpicl.contract.draft import UNNAMED, DraftColumn, can_be_named
from dpicl.errors import DataError, DeclarationError
from dpicl.files.bounded import read_bytes
from dpicl.yaml_file import validate

_SHAPES = (
    "`fields` of a Table Schema, `resources` of a Data Package, or `properties` of a JSON Schema"
)
_TYPES = {
    "integer": "integer",
    "year": "integer",
    "number": "real",
    "string": "category",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "date-time": "datetime",
}
"""A schema's name of a type, or of a JSON Schema's format, and that of a contract."""
_ARROW_TYPES = {
    "boolean": (pa.types.is_boolean,),
    "integer": (pa.types.is_integer,),
    "number": (pa.types.is_floating, pa.types.is_decimal),
    "string": (pa.types.is_string, pa.types.is_large_string),
    "date": (pa.types.is_date,),
    "datetime": (pa.types.is_timestamp,),
}
"""A Table Schema's name of a type, and what recognises it in a Parquet file."""
_LONGEST_NOTE = 120


def _as_values(value: Any) -> Any:
    """Values as a row has them; null is no value."""
    if not isinstance(value, list) or any(isinstance(one, dict | list) for one in value):
        raise ValueError(
            f"got {str(value)[:60]!r}; expected a list of numbers, texts or truth values"
        )
    return tuple(one for one in value if one is not None)


_Values = Annotated[tuple[Any, ...], BeforeValidator(_as_values)]


class _Open(BaseModel):
    """Part of a schema, of which most keys do not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Limits(_Open):
    """What a value may be. A value may be missing where that is said, and not where nothing is."""

    enum: _Values = ()
    required: Any = True
    minimum: float | str | None = None  # text of a date, and of a number where a Table Schema likes
    maximum: float | str | None = None


class _Field(_Open):
    """A column of a Table Schema."""

    name: str
    type: str = "string"
    format: str = "default"
    constraints: _Limits = _Limits()
    true_values: _Values = Field((TRUE,), alias="trueValues")
    false_values: _Values = Field((FALSE,), alias="falseValues")
    title: str = ""
    description: str = ""


class _TableSchema(_Open):
    """Columns in their order."""

    fields: tuple[_Field, ...]


class _Resource(_Open):
    """A file of a Data Package, perhaps of a table."""

    path: str | tuple[str, ...] = ""
    table: Any = Field(None, alias="schema")


class _DataPackage(_Open):
    """Files that are published together."""

    resources: Annotated[tuple[_Resource, ...], Field(min_length=1)]


class _Property(_Limits):
    """A column of a JSON Schema."""

    type: str | tuple[str, ...] = ()
    format: str = ""
    title: str = ""
    description: str = ""


def _without_null(content: Any) -> Any:
    """A choice between null and something else as that, which is not required."""
    if not isinstance(content, dict):
        return content
    choices = content.get("anyOf") or content.get("oneOf")
    choices = choices if isinstance(choices, list) else []
    some = [one for one in choices if isinstance(one, dict) and one.get("type") != "null"]
    one = {**content, **some[0], "required": False} if len(some) == 1 < len(choices) else content
    kinds, values = one.get("type"), one.get("enum")
    gaps = (isinstance(kinds, list) and "null" in kinds) or (
        isinstance(values, list) and None in values
    )
    return {**one, "required": False} if gaps else one


class _JsonSchema(_Open):
    """Columns by name."""

    properties: dict[str, Annotated[_Property, BeforeValidator(_without_null)]]


def columns_of_schema(path: Path, file: str) -> tuple[list[DraftColumn], dict[str, str]]:
    """Columns that a contract can describe, as far as the schema says, and {column that it leaves
    out: why}.

    Args:
        path: the schema: `.parquet`, or JSON.
        file: name of the file of rows, which picks the resource of a Data Package.

    Raises:
        DeclarationError: it is none of the three kinds, or breaks a rule of its kind.
        DataError: it cannot be read.
    """
    columns = list(_of_parquet(path) if path.suffix == ".parquet" else _of_json(path, file))
    twice = len(columns) - len({name for name, _ in columns})
    if twice:
        raise DeclarationError(path.name, "", f"names {twice} columns twice", "distinct names")
    described = [column for _, column in columns if isinstance(column, DraftColumn)]
    return described, {name: column for name, column in columns if isinstance(column, str)}


def _of_parquet(path: Path) -> Iterator[tuple[str, DraftColumn | str]]:
    try:
        with path.open("rb") as file:
            schema = pa_parquet.read_schema(file)
    except OSError as error:
        raise DataError(
            path.name,
            f"cannot be read ({error.strerror})"
            if error.strerror
            else "is not a complete Parquet file",
        ) from None
    except (pa.ArrowException, ValueError):
        raise DataError(path.name, "is not a complete Parquet file") from None
    # a field that may be null is no evidence: most programs write all of them so
    for field in schema:
        stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        kind = next(
            (name for name, tests in _ARROW_TYPES.items() if any(test(stored) for test in tests)),
            "",
        )
        yield field.name, _column(field.name, kind, _Limits(), (FALSE, TRUE), "")


def _of_json(path: Path, file: str) -> Iterator[tuple[str, DraftColumn | str]]:
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        raise DeclarationError(
            path.name, "", "is not JSON", f"a .parquet file, or JSON with {_SHAPES}"
        ) from None
    keys = content.keys() if isinstance(content, dict) else ()
    if "properties" in keys:
        for name, one in validate(_JsonSchema, content, path.name).properties.items():
            kinds = (
                [one.type]
                if isinstance(one.type, str)
                else [kind for kind in one.type if kind != "null"]
            )
            kind = (
                one.format
                if kinds == ["string"] and one.format in ("date", "date-time")
                else kinds[0]
                if len(kinds) == 1
                else ""
            )
            yield name, _column(name, kind, one, (FALSE, TRUE), one.description or one.title)
    elif "fields" in keys or "resources" in keys:
        table = (
            validate(_TableSchema, content, path.name)
            if "fields" in keys
            else _resource(content, path.name, file)
        )
        for field in table.fields:
            truth = field.false_values + field.true_values
            kind = (
                f"{field.type} in another format"
                if field.type in ("date", "datetime") and field.format not in ("default", "any")
                else field.type
            )
            yield (
                field.name,
                _column(
                    field.name, kind, field.constraints, truth, field.description or field.title
                ),
            )
    else:
        raise DeclarationError(path.name, "", "is no schema of a table", _SHAPES)


def _resource(content: Any, where: str, file: str) -> _TableSchema:
    """The table whose path ends in the file's name, or the only one."""
    resources = validate(_DataPackage, content, where).resources
    named = [
        one
        for one in resources
        if isinstance(one.path, str) and one.path.rpartition("/")[2] == file
    ]
    (chosen, *more) = resources if len(resources) == 1 else named or (None,)
    if chosen is None or more:
        raise DeclarationError(
            where,
            "resources",
            f"{len(named)} of {len(resources)} have a path that ends in {file}",
            "one",
        )
    if not isinstance(chosen.table, dict):
        raise DeclarationError(
            where,
            "resources",
            "the table's schema is not written out",
            "its `fields` in this file, or the file that it names",
        )
    return validate(_TableSchema, chosen.table, where)


def _column(
    name: str, kind: str, limits: _Limits, truth: tuple[str, ...], meaning: str
) -> DraftColumn | str:
    """A column of a listed set of values is one of categories, whatever they are; as text, why a
    contract cannot describe it.
    """
    if not can_be_named(name):
        return UNNAMED
    if not (limits.enum or kind in _TYPES):
        return f"values of type {_printable(kind)}" if kind else "values of no type, or of several"
    note, nullable = _printable(meaning), limits.required is False
    if limits.enum or kind in ("string", "boolean"):
        stated = limits.enum or (truth if kind == "boolean" else ())
        if kind == "boolean" and all(str(as_written(one)) in BOOLEANS for one in stated):
            return DraftColumn(
                name, "boolean", categories=(FALSE, TRUE), nullable=nullable, note=note
            )
        kinds, texts = type_of(stated), tuple(str(as_written(one)) for one in stated)
        return DraftColumn(
            name, "category", categories=texts, value_type=kinds, nullable=nullable, note=note
        )
    low, high = (
        _bound(stated, is_date=not TYPES[_TYPES[kind]].plain)
        for stated in (limits.minimum, limits.maximum)
    )
    return DraftColumn(name, _TYPES[kind], (low, high), nullable=nullable, note=note)


def _printable(text: str) -> str:
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())[
        :_LONGEST_NOTE
    ]


def _bound(stated: float | str | None, *, is_date: bool) -> float | str | None:
    """A number or date; what is none has to be filled in."""
    try:
        if is_date:
            moment(str(stated), "datetime")
            return str(stated)
        number = math.nan if stated is None else float(stated)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
