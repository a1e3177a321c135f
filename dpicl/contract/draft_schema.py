"""Columns of a draft from a published schema: no row is read.

    Table Schema, Data Package    `fields`; `resources`, each with a schema
    JSON Schema of one row        `properties`
    dbt properties                `models`, `seeds`, `snapshots`, `sources`: types, tests
    ODCS data contract, v3        `kind: DataContract`, `schema`: logical types, options, quality
    Parquet                       names and types in the footer; its statistics are not read, since
                                  they are computed from rows

Which of these a file is follows from its content. Each is read into the same form (`_Told`), and
that into columns; what it does not say of a column is left to be filled in. A value may be missing
where a schema says so, and not where it says nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpicl.contract.base import as_written
from dpicl.contract.columns import TYPES
from dpicl.contract.columns.category import BOOLEANS, FALSE, TRUE, type_of
from dpicl.contract.columns.date import moment
from dpicl.contract.draft import GROUPS, UNNAMED, DraftColumn, can_be_named
from dpicl.contract.odcs import MORE, held_by, stated_in
from dpicl.ground.errors import DataError, DeclarationError, ParameterError
from dpicl.ground.nouns import many
from dpicl.ground.records import read_bytes
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import parse_yaml

_SHAPES = (
    "`fields` of a Table Schema, `resources` of a Data Package, `properties` of a JSON Schema, "
    "`models` or `sources` of dbt, or `kind: DataContract` of ODCS version 3"
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
    "timestamp": "datetime",
}
"""A schema's name of a type, or of a JSON Schema's format, and that of a contract."""
_SQL_TYPES = (
    (r"bool(ean)?", "boolean"),
    (r"u?(tiny|small|medium|big|huge)?int(eger)?\d*|(big|small)?serial|long|short", "integer"),
    (r"(big)?(numeric|decimal|number|dec)\(\d+(,0)?\)", "integer"),
    (r"(big)?(numeric|decimal|number|dec)(\(.*\))?|float\d*|double( precision)?|real", "number"),
    (r"n?(var)?char2?|character( varying)?|n?text|string", "string"),
    (r"date", "date"),
    (r"(timestamp|datetime)\w*( with(out)? time zone)?", "datetime"),
)
"""(pattern of a database's type, the same of a Table Schema)."""
_ARROW_TYPES = {
    "boolean": (pa.types.is_boolean,),
    "integer": (pa.types.is_integer,),
    "number": (pa.types.is_floating, pa.types.is_decimal),
    "string": (pa.types.is_string, pa.types.is_large_string),
    "date": (pa.types.is_date,),
    "datetime": (pa.types.is_timestamp,),
}
"""A Table Schema's name of a type, and what recognises it in a Parquet file."""
ODCS = "the ODCS data contract"
_LONGEST_NOTE = 120
_UNIQUE = "a value of its own in every row, as an identifier has"


def _as_values(value: Any) -> Any:
    """Values as a row has them; null is no value."""
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise ValueError(
            f"got {str(value)[:60]!r}; expected a list of numbers, texts or truth values"
        )
    return tuple(item for item in value if item is not None)


_Values = Annotated[tuple[Any, ...], BeforeValidator(_as_values)]


class _Open(BaseModel):
    """Part of a schema, of which most keys do not matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, content: Any) -> Any:
        """A key with nothing behind it is not there."""
        is_mapping = isinstance(content, dict)
        return {k: v for k, v in content.items() if v is not None} if is_mapping else content


class _Limits(_Open):
    """What a value may be."""

    enum: _Values = ()
    required: Any = True
    unique: Any = False
    minimum: float | str | None = None  # text of a date, and of a number where a Table Schema likes
    maximum: float | str | None = None


class _Told(_Open):
    """A column as its schema tells of it, which is how a Table Schema has it."""

    name: str
    type: str = "string"
    format: str = "default"
    constraints: _Limits = _Limits()
    true_values: _Values = Field((TRUE,), alias="trueValues")
    false_values: _Values = Field((FALSE,), alias="falseValues")
    title: str = ""
    description: str = ""
    groups: dict[str, Any] = {}
    more: dict[str, Any] | None = None


class _TableSchema(_Open):
    """Columns in their order."""

    fields: tuple[_Told, ...]


class _Resource(_Open):
    """A file of a Data Package, perhaps of a table."""

    name: str = ""
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
    if isinstance(content, bool):  # of any kind, or of none
        return {}
    if not isinstance(content, dict):
        return content
    choices = content.get("anyOf") or content.get("oneOf")
    choices = choices if isinstance(choices, list) else []
    some = [
        choice for choice in choices if isinstance(choice, dict) and choice.get("type") != "null"
    ]
    branch = {**content, **some[0], "required": False} if len(some) == 1 < len(choices) else content
    kinds, values = branch.get("type"), branch.get("enum")
    gaps = (isinstance(kinds, list) and "null" in kinds) or (
        isinstance(values, list) and None in values
    )
    return {**branch, "required": False} if gaps else branch


class _JsonSchema(_Open):
    """Columns by name."""

    properties: dict[str, Annotated[_Property, BeforeValidator(_without_null)]]


class _DbtColumn(_Open):
    """A column of dbt: each test is a name, or {name: its arguments}."""

    name: str
    description: str = ""
    data_type: str = ""
    constraints: tuple[dict[str, Any], ...] = ()
    tests: tuple[str | dict[str, Any], ...] = ()
    data_tests: tuple[str | dict[str, Any], ...] = ()


class _DbtTable(_Open):
    """A model, seed, snapshot or table of a source."""

    name: str
    columns: tuple[_DbtColumn, ...] = ()


class _DbtSource(_Open):
    """Tables of a database."""

    tables: tuple[_DbtTable, ...] = ()


class _DbtFile(_Open):
    """A file of properties."""

    models: tuple[_DbtTable, ...] = ()
    seeds: tuple[_DbtTable, ...] = ()
    snapshots: tuple[_DbtTable, ...] = ()
    sources: tuple[_DbtSource, ...] = ()


class _OdcsProperty(_Open):
    """A column of an ODCS data contract."""

    name: str
    physical_name: str = Field("", alias="physicalName")
    business_name: str = Field("", alias="businessName")
    description: str = ""
    logical_type: str = Field("", alias="logicalType")
    physical_type: str = Field("", alias="physicalType")
    options: dict[str, Any] = Field({}, alias="logicalTypeOptions")
    required: bool | None = None
    unique: bool = False
    quality: tuple[dict[str, Any], ...] = ()
    custom: tuple[dict[str, Any], ...] = Field((), alias="customProperties")


class _OdcsTable(_Open):
    """A table of an ODCS data contract."""

    name: str
    physical_name: str = Field("", alias="physicalName")
    properties: tuple[_OdcsProperty, ...] = ()


class _Odcs(_Open):
    """An ODCS data contract."""

    tables: Annotated[tuple[_OdcsTable, ...], Field(min_length=1, alias="schema")]
    status: Any = None
    description: Any = None
    custom: tuple[dict[str, Any], ...] = Field((), alias="customProperties")

    def stated(self, where: str) -> dict[str, Any]:
        """What it states of a contract of ours, if it is one."""
        columns = [
            {"name": column.name, "customProperties": column.custom}
            for table in self.tables
            for column in table.properties
        ]
        content = stated_in(self.custom, held_by(columns), where)
        if not content:
            return {}
        if isinstance(self.description, dict) and self.description.get("purpose"):
            content["description"] = self.description["purpose"]
        return content | ({"draft": True} if self.status == "draft" else {})


@dataclass(frozen=True)
class PublishedSchema:
    """What a schema says of a table."""

    origin: str
    """Which kind of schema, of which file and table, in words."""
    columns: tuple[DraftColumn, ...]
    """Those that a contract can describe, as far as the schema says."""
    ignored: dict[str, str]
    """{column that a contract cannot describe: why}."""
    stated: dict[str, Any]
    """All other keys of a contract, if it is one of ours that was written as an ODCS data
    contract.
    """


def read_schema(path: Path, file: str, table: str | None = None) -> PublishedSchema:
    """Columns of a table, as a schema tells of them.

    Args:
        path: the schema: `.parquet`, JSON or YAML.
        file: name of the file of rows.
        table: of a schema of several tables, the name of one; that of the file of rows if None.

    Raises:
        DeclarationError: it is none of the kinds, breaks a rule of its kind, or has not one table
            of that name.
        ParameterError: `table` is given for a schema of one table without a name.
        DataError: it cannot be read.
    """
    kind, name, told, stated = (
        _parquet(path) if path.suffix == ".parquet" else _text(path, file, table)
    )
    if table is not None and not name:
        raise ParameterError("table", table, f"no such option: {path.name} is of one table")
    twice = len(told) - len({column.name for column in told})
    if twice:
        raise DeclarationError(
            path.name, "", f"names {many(twice, 'column')} twice", "distinct names"
        )
    drafted = {column.name: _column(column) for column in told}
    return PublishedSchema(
        f"{kind} {path.name}" + (f", table {name}" if name else ""),
        tuple(column for column in drafted.values() if isinstance(column, DraftColumn)),
        {name: column for name, column in drafted.items() if isinstance(column, str)},
        stated,
    )


_Table = tuple[tuple[str, ...], Callable[[], Sequence[_Told]]]
"""Names of a table, none where it is the only one, and its columns."""
_Read = tuple[str, str, Sequence[_Told], dict[str, Any]]
"""Kind of a schema, name of the table, columns, and other keys of a contract."""


def _parquet(path: Path) -> _Read:
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
    told = []
    for field in schema:
        stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        kinds = (
            name for name, tests in _ARROW_TYPES.items() if any(test(stored) for test in tests)
        )
        told.append(_Told(name=field.name, type=next(kinds, "")))
    return "the footer of", "", told, {}


def _text(path: Path, file: str, table: str | None) -> _Read:
    raw = read_bytes(path)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        if raw.lstrip()[:1] in (b"{", b"["):
            expected = f"a .parquet file, or JSON or YAML with {_SHAPES}"
            raise DeclarationError(path.name, "", "is not JSON", expected) from None
        content = parse_yaml(raw, path.name)
    kind, key, tables, stated = _tables(content, path.name)
    wanted = table or file.split(".")[0]
    named = [one for one in tables if wanted in one[0] or not one[0]]
    if table is None and len(tables) == 1:
        named = tables
    if len(named) != 1:
        few = ", ".join(_printable(names[0]) for names, _ in tables[:10])
        raise DeclarationError(
            path.name,
            key,
            f"has {len(named)} tables of the name {wanted[:60]!r} among {len(tables)}",
            f"one; name it with --table, of: {few}",
        )
    ((names, columns),) = named
    return kind, names[0] if names else "", columns(), stated


def _tables(content: Any, where: str) -> tuple[str, str, list[_Table], dict[str, Any]]:
    """Which kind of schema it is, where its tables are, these, and other keys of a contract."""
    keys = content.keys() if isinstance(content, dict) else set()
    tables: list[_Table]
    if keys >= {"kind", "schema"} and content["kind"] == "DataContract":
        odcs = validate(_Odcs, content, where)
        stated = odcs.stated(where)
        tables = [
            (
                (one.name, one.physical_name.rpartition(".")[2]),
                partial(_of_odcs, one, where, of_ours=bool(stated)),
            )
            for one in odcs.tables
        ]
        return ODCS, "schema", tables, stated
    if keys & {"models", "seeds", "snapshots", "sources"}:
        dbt = validate(_DbtFile, content, where)
        some = [*dbt.models, *dbt.seeds, *dbt.snapshots]
        some += [table for source in dbt.sources for table in source.tables]
        tables = [((one.name,), partial(_of_dbt, one, where)) for one in some]
        return "the dbt properties", "models", tables, {}
    if "properties" in keys:
        return "the JSON Schema", "properties", [((), partial(_of_json, content, where))], {}
    if "fields" in keys:
        return "the Table Schema", "fields", [((), partial(_of_fields, content, where))], {}
    if "resources" in keys:
        resources = validate(_DataPackage, content, where).resources
        tables = [(_names(one), partial(_of_fields, one.table, where)) for one in resources]
        return "the Data Package", "resources", tables, {}
    raise DeclarationError(where, "", "is no schema of a table", _SHAPES)


def _of_fields(content: Any, where: str) -> Sequence[_Told]:
    """Columns of a Table Schema."""
    if not isinstance(content, dict):
        raise DeclarationError(
            where,
            "resources",
            "the table's schema is not written out",
            "its `fields` in this file, or the file that it names",
        )
    return validate(_TableSchema, content, where).fields


def _names(resource: _Resource) -> tuple[str, ...]:
    """What a file of a Data Package is called: by itself, and by its path."""
    path = resource.path if isinstance(resource.path, str) else ""
    stem = path.rpartition("/")[2].split(".")[0]
    return tuple(name for name in (resource.name, stem) if name) or ("",)


def _of_json(content: Any, where: str) -> list[_Told]:
    """Columns of a JSON Schema."""
    told = []
    for name, column in validate(_JsonSchema, content, where).properties.items():
        kinds = [column.type] if isinstance(column.type, str) else [*column.type]
        kinds = [kind for kind in kinds if kind != "null"]
        kind = kinds[0] if len(kinds) == 1 else ""
        is_date = kind == "string" and column.format in ("date", "date-time")
        told.append(
            _Told(
                name=name,
                type=column.format if is_date else kind,
                constraints=column,
                title=column.title,
                description=column.description,
            )
        )
    return told


def _sql_type(kind: str) -> str:
    """A database's type, as a Table Schema names it; as it is where that is not known."""
    plain = re.sub(r"\s*([(,)])\s*", r"\1", " ".join(kind.lower().split()))
    short = re.sub(r"\(.*?\)", "", plain)
    known = (
        name
        for pattern, name in _SQL_TYPES
        if re.fullmatch(pattern, plain) or (r"\(" not in pattern and re.fullmatch(pattern, short))
    )
    return next(known, kind)


def _of_dbt(table: _DbtTable, where: str) -> list[_Told]:
    """Columns of dbt. What is tested of some rows only (`where`, `row_condition`) is said of none.
    Where some column is tested to be there in every row, others may be missing.
    """
    told, present = [], set()
    for column in table.columns:
        limits: dict[str, Any] = {}
        for test in (*column.constraints, *column.tests, *column.data_tests):
            name, stated = _dbt_test(test)
            if stated.get("where") or stated.get("row_condition"):
                continue
            match name:
                case "not_null" | "expect_column_values_to_not_be_null":
                    present.add(column.name)
                case "unique" | "primary_key" | "expect_column_values_to_be_unique":
                    limits["unique"] = True
                case "accepted_values" | "expect_column_values_to_be_in_set":
                    listed = stated.get("values", stated.get("value_set"))
                    limits["enum"] = listed if isinstance(listed, list) else []
                case "accepted_range" | "expect_column_values_to_be_between":
                    ends = {"minimum": stated.get("min_value"), "maximum": stated.get("max_value")}
                    limits |= {key: end for key, end in ends.items() if end is not None}
        ranged = limits.keys() & {"minimum", "maximum"}
        told.append((column, _sql_type(column.data_type) or ("number" if ranged else ""), limits))
    return [
        _told(
            column.name,
            kind,
            {**limits, "required": not present or column.name in present},
            column.description,
            where,
        )
        for column, kind, limits in told
    ]


def _dbt_test(test: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name of a test or constraint, without its package, and what it states."""
    if isinstance(test, str):
        return test.rpartition(".")[2], {}
    name = test.get("test_name", test.get("type"))
    stated: Any = test
    if name is None:
        name, stated = next(iter(test.items()), ("", {}))
    stated = stated if isinstance(stated, dict) else {}
    inner = [stated.get(key) for key in ("config", "arguments")]
    for part in inner:
        stated = {**stated, **(part if isinstance(part, dict) else {})}
    return str(name).rpartition(".")[2], stated


def _of_odcs(table: _OdcsTable, where: str, *, of_ours: bool) -> list[_Told]:
    """Columns of an ODCS data contract. A check that some values may fail lists none."""
    told = []
    for column in table.properties:
        options = column.options
        limits: dict[str, Any] = {
            key: options.get(key, options.get(f"exclusive{key.title()}"))
            for key in ("minimum", "maximum")
        }
        limits |= {"unique": column.unique, "required": column.required is not False}
        for check in column.quality:
            allowed = {key: value for key, value in check.items() if key.startswith("must")}
            arguments = check.get("arguments")
            stated = {**check, **(arguments if isinstance(arguments, dict) else {})}
            if allowed in ({}, {"mustBe": 0}) and isinstance(stated.get("validValues"), list):
                limits["enum"] = stated["validValues"]
        physical = _sql_type(column.physical_type)
        kind = column.logical_type or physical
        if kind == "date" and physical == "datetime":  # before version 3.1 there was no other
            kind = physical
        pattern = re.sub(r"[^A-Za-z-]", "", str(options.get("format", "")))[:10]
        form = "default" if pattern in ("", "yyyy-MM-dd") else pattern
        custom = {one.get("property"): one.get("value") for one in column.custom}
        more = custom.get(MORE) or {} if of_ours else None
        if isinstance(more, dict) and "categories" in more:
            limits["enum"], kind = more["categories"], "string"
            more = {key: value for key, value in more.items() if key != "categories"}
        meaning = column.description or column.business_name
        named = column.physical_name or column.name
        told.append(_told(named, kind, limits, meaning, where, custom.get(GROUPS), form, more))
    return told


def _told(
    name: str,
    kind: str,
    limits: dict[str, Any],
    meaning: str,
    where: str,
    groups: Any = None,
    form: str = "default",
    more: dict[str, Any] | None = None,
) -> _Told:
    content: dict[str, Any] = {"name": name, "type": kind, "constraints": limits}
    content |= {"description": meaning, "format": form, "groups": groups or {}, "more": more}
    return validate(_Told, content, f"{where}: column {name}")


def _column(told: _Told) -> DraftColumn | str:
    """A column of a listed set of values is one of categories, whatever they are; as text, why a
    contract cannot describe it.
    """
    name, limits, kind = told.name, told.constraints, told.type
    if not can_be_named(name):
        return UNNAMED
    if kind in ("date", "datetime", "timestamp") and told.format not in ("default", "any"):
        kind = f"{kind} in another format"
    if not (limits.enum or kind in _TYPES):
        return f"values of type {_printable(kind)}" if kind else "values of no type, or of several"
    if limits.unique is True and not limits.enum:
        return _UNIQUE
    note, nullable = _printable(told.description or told.title), limits.required is False
    groups = {code: str(as_written(group)) for code, group in told.groups.items()}
    made = partial(DraftColumn, name, nullable=nullable, note=note, more=told.more)
    if limits.enum or kind in ("string", "boolean"):
        truth = told.false_values + told.true_values if kind == "boolean" else ()
        stated = limits.enum or tuple(dict.fromkeys(told.groups.values())) or truth
        if kind == "boolean" and all(str(as_written(value)) in BOOLEANS for value in stated):
            return made("boolean", categories=(FALSE, TRUE))
        kinds, texts = type_of(stated), tuple(str(as_written(value)) for value in stated)
        return made("category", categories=texts, value_type=kinds, groups=groups)
    low, high = (
        _bound(stated, is_date=not TYPES[_TYPES[kind]].plain)
        for stated in (limits.minimum, limits.maximum)
    )
    return made(_TYPES[kind], (low, high))


def _printable(text: str) -> str:
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())[
        :_LONGEST_NOTE
    ]


def _bound(stated: float | str | None, *, is_date: bool) -> float | str | None:
    """A number or date; what is none, such as an expression of SQL, has to be filled in."""
    try:
        if is_date:
            plain = str(stated).strip("'\"")
            moment(plain, "datetime")
            return plain
        number = math.nan if stated is None else float(stated)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
