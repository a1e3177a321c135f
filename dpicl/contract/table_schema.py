"""Columns as a Table Schema or a Data Package tells of them."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from dpicl.contract.schema_column import MissingWords, Open, Told
from dpicl.ground.errors import DeclarationError
from dpicl.ground.validation import validate


class TableSchema(Open):
    """Columns in their order."""

    fields: tuple[Told, ...]
    missing: MissingWords = Field(None, alias="missingValues")


class Resource(Open):
    """A file of a Data Package, perhaps of a table."""

    name: str = ""
    path: str | tuple[str, ...] = ""
    table: Any = Field(None, alias="schema")
    missing: MissingWords = Field(None, alias="missingValues")
    encoding: str = ""
    dialect: Any = None

    @property
    def written(self) -> dict[str, str]:
        """{key of `source`: how the file is written}, where that is not the usual way."""
        dialect = self.dialect if isinstance(self.dialect, dict) else {}
        dialect = dialect | (dialect["csv"] if isinstance(dialect.get("csv"), dict) else {})
        mark, encoding = dialect.get("delimiter"), _encoding(self.encoding)
        return {
            **({"delimiter": mark} if mark in (";", "\t", "|") else {}),
            **({"encoding": encoding} if encoding else {}),
        }


class DataPackage(Open):
    """Files that are published together."""

    resources: Annotated[tuple[Resource, ...], Field(min_length=1)]
    missing: MissingWords = Field(None, alias="missingValues")


def _encoding(name: str) -> str:
    """As a contract names it; empty of UTF-8, and of what no contract can name."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    names = {"iso8859-1": "latin-1", "cp1252": "windows-1252", "utf-16": "utf-16"}
    return names.get(known, "")


def of_fields(content: Any, where: str, *around: MissingWords) -> Sequence[Told]:
    """Columns of a Table Schema.

    Args:
        around: words for a missing value of what the schema stands in, the nearest first: each
            column has its own, or those of the schema, or the nearest of these.
    """
    if not isinstance(content, dict):
        raise DeclarationError(
            where,
            "resources",
            "the table's schema is not written out",
            "its `fields` in this file, or the file that it names",
        )
    schema = validate(TableSchema, content, where)
    words = next((words for words in (schema.missing, *around) if words is not None), None)
    return [
        column if column.missing is not None else column.model_copy(update={"missing": words})
        for column in schema.fields
    ]


def names_of(resource: Resource) -> tuple[str, ...]:
    """What a file of a Data Package is called: by itself, and by its path."""
    path = resource.path if isinstance(resource.path, str) else ""
    stem = path.rpartition("/")[2].split(".")[0]
    return tuple(name for name in (resource.name, stem) if name) or ("",)
