"""Columns of a draft from a published schema: no row is read.

    Table Schema, Data Package    `fields`; `resources`, each with a schema
    JSON Schema of one row        `properties`
    dbt properties                `models`, `seeds`, `snapshots`, `sources`: types, tests
    ODCS data contract, v3        `kind: DataContract`, `schema`: logical types, options, quality
    Parquet                       names and types in the footer; its statistics are not read, since
                                  they are computed from rows

Which of these a file is follows from its content. Each is read into the same form (`Told`), and
that into columns; what it does not say of a column is left to be filled in. A value may be missing
where a schema says so, and not where it says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from pydantic import BeforeValidator, Field

from dpicl.contract.declared import CSV, TSV
from dpicl.contract.draft import GROUPS, DraftColumn
from dpicl.contract.odcs import MORE, held_by, stated_in
from dpicl.contract.schema_column import Limits, Open, Told, column_of, printable, written_by
from dpicl.contract.table_schema import DataPackage, names_of, of_fields
from dpicl.ground.errors import DataError, DeclarationError, ParameterError
from dpicl.ground.nouns import many
from dpicl.ground.records import read_bytes
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import parse_yaml

_SHAPES = (
    "`fields` of a Table Schema, `resources` of a Data Package, `properties` of a JSON Schema, "
    "`models` or `sources` of dbt, or `kind: DataContract` of ODCS version 3"
)
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
_JAVA = {
    **dict.fromkeys(("yyyy", "uuuu"), "%Y"),
    **dict.fromkeys(("M", "MM"), "%m"),
    **dict.fromkeys(("d", "dd"), "%d"),
    **dict.fromkeys(("H", "HH"), "%H"),
    "MMM": "%b",
    **dict.fromkeys(("h", "hh"), "%I"),
    "a": "%p",
    "mm": "%M",
    "ss": "%S",
}
"""{field of a Java form of dates: the same of Python}."""
_ISO = re.compile(r"(yyyy|uuuu)-MM-dd(('T'|T| )HH:mm(:ss([.,]S+)?)?('Z'|Z+|X+|x+)?)?")
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


class _Property(Limits):
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


class _JsonSchema(Open):
    """Columns by name."""

    properties: dict[str, Annotated[_Property, BeforeValidator(_without_null)]]


class _DbtColumn(Open):
    """A column of dbt: each test is a name, or {name: its arguments}."""

    name: str
    description: str = ""
    data_type: str = ""
    constraints: tuple[dict[str, Any], ...] = ()
    tests: tuple[str | dict[str, Any], ...] = ()
    data_tests: tuple[str | dict[str, Any], ...] = ()


class _DbtTable(Open):
    """A model, seed, snapshot or table of a source."""

    name: str
    columns: tuple[_DbtColumn, ...] = ()


class _DbtSource(Open):
    """Tables of a database."""

    tables: tuple[_DbtTable, ...] = ()


class _DbtFile(Open):
    """A file of properties."""

    models: tuple[_DbtTable, ...] = ()
    seeds: tuple[_DbtTable, ...] = ()
    snapshots: tuple[_DbtTable, ...] = ()
    sources: tuple[_DbtSource, ...] = ()


class _OdcsProperty(Open):
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


class _OdcsTable(Open):
    """A table of an ODCS data contract."""

    name: str
    physical_name: str = Field("", alias="physicalName")
    properties: tuple[_OdcsProperty, ...] = ()


class _Odcs(Open):
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
    written: dict[str, Any]
    """{key of `source`: how a file of such columns is written}, where that is not the usual way."""


def read_schema(
    path: Path,
    file: str,
    table: str | None = None,
    stated: Mapping[str, Any] = MappingProxyType({}),
) -> PublishedSchema:
    """Columns of a table, as a schema tells of them.

    Args:
        path: the schema: `.parquet`, JSON or YAML.
        file: name of the file of rows.
        table: of a schema of several tables, the name of one; that of the file of rows if None.
        stated: {key of `source`: how the file is written}, where somebody has said so.

    Raises:
        DeclarationError: it is none of the kinds, breaks a rule of its kind, or has not one table
            of that name.
        ParameterError: `table` is given for a schema of one table without a name.
        DataError: it cannot be read.
    """
    kind, name, told, content, of_file = (
        _parquet(path) if path.suffix == ".parquet" else _text(path, file, table)
    )
    if table is not None and not name:
        raise ParameterError("table", table, f"no such option: {path.name} is of one table")
    twice = len(told) - len({column.name for column in told})
    if twice:
        raise DeclarationError(
            path.name, "", f"names {many(twice, 'column')} twice", "distinct names"
        )
    kinds = {"delimiter": CSV, "encoding": (*CSV, *TSV)}
    fits = {key: value for key, value in of_file.items() if file.endswith(kinds[key])}
    written = {**fits, **written_by(told), **stated}
    drafted = {column.name: column_of(column, written) for column in told}
    return PublishedSchema(
        f"{kind} {path.name}" + (f", table {name}" if name else ""),
        tuple(column for column in drafted.values() if isinstance(column, DraftColumn)),
        {name: column for name, column in drafted.items() if isinstance(column, str)},
        content,
        written,
    )


_Table = tuple[tuple[str, ...], Callable[[], Sequence[Told]], dict[str, str]]
"""Names of a table, none where it is the only one, its columns, and how its file is written."""
_Read = tuple[str, str, Sequence[Told], dict[str, Any], dict[str, str]]
"""Kind of a schema, name of the table, columns, other keys of a contract, and those of `source`."""


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
        told.append(Told(name=field.name, type=next(kinds, "")))
    return "the footer of", "", told, {}, {}


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
        few = ", ".join(printable(names[0]) for names, _, _ in tables[:10])
        raise DeclarationError(
            path.name,
            key,
            f"has {len(named)} tables of the name {wanted[:60]!r} among {len(tables)}",
            f"one; name it with --table, of: {few}",
        )
    ((names, columns, written),) = named
    return kind, names[0] if names else "", columns(), stated, written


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
                {},
            )
            for one in odcs.tables
        ]
        return ODCS, "schema", tables, stated
    if keys & {"models", "seeds", "snapshots", "sources"}:
        dbt = validate(_DbtFile, content, where)
        some = [*dbt.models, *dbt.seeds, *dbt.snapshots]
        some += [table for source in dbt.sources for table in source.tables]
        tables = [((one.name,), partial(_of_dbt, one, where), {}) for one in some]
        return "the dbt properties", "models", tables, {}
    if "properties" in keys:
        return "the JSON Schema", "properties", [((), partial(_of_json, content, where), {})], {}
    if "fields" in keys:
        return "the Table Schema", "fields", [((), partial(of_fields, content, where), {})], {}
    if "resources" in keys:
        package = validate(DataPackage, content, where)
        tables = [
            (
                names_of(one),
                partial(of_fields, one.table, where, one.missing, package.missing),
                one.written,
            )
            for one in package.resources
        ]
        return "the Data Package", "resources", tables, {}
    raise DeclarationError(where, "", "is no schema of a table", _SHAPES)


def _of_json(content: Any, where: str) -> list[Told]:
    """Columns of a JSON Schema."""
    told = []
    for name, column in validate(_JsonSchema, content, where).properties.items():
        kinds = [column.type] if isinstance(column.type, str) else [*column.type]
        kinds = [kind for kind in kinds if kind != "null"]
        kind = kinds[0] if len(kinds) == 1 else ""
        is_date = kind == "string" and column.format in ("date", "date-time")
        told.append(
            Told(
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


def _of_dbt(table: _DbtTable, where: str) -> list[Told]:
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


def _strptime(form: str) -> str:
    """A form of dates as Java writes it, as Python does; as it is where that has none, or a row
    might be read as another date: a number beside another, marks that Java keeps for itself.
    """
    if not form or _ISO.fullmatch(form):
        return "default"
    fields = re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", form)
    is_plain = not re.search(r"''|[][{}#%]", form) and form.count("'") % 2 == 0
    known = [_JAVA.get(field, "") for _, field, _, _ in fields if field]
    touching = any(one[1] and other[1] for one, other in pairwise(fields))
    if not is_plain or not all(known) or touching:
        return form
    return "".join(word or _JAVA.get(field, other) for word, field, _, other in fields)


def _of_odcs(table: _OdcsTable, where: str, *, of_ours: bool) -> list[Told]:
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
        custom = {one.get("property"): one.get("value") for one in column.custom}
        more = custom.get(MORE) or {} if of_ours else None
        if isinstance(more, dict) and "categories" in more:
            limits["enum"], kind = more["categories"], "string"
            more = {key: value for key, value in more.items() if key != "categories"}
        meaning = column.description or column.business_name
        named = column.physical_name or column.name
        form = _strptime(str(options.get("format") or ""))
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
) -> Told:
    content: dict[str, Any] = {"name": name, "type": kind, "constraints": limits}
    content |= {"description": meaning, "format": form, "groups": groups or {}, "more": more}
    return validate(Told, content, f"{where}: column {name}")
