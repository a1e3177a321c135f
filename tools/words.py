"""Words and tables of the pages of docs/reference."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTHING = "–"
Schema = Mapping[str, Any]


def cell(text: str) -> str:
    """Text that keeps to one cell of a table; a dash for none."""
    return " ".join(text.split()).replace("|", "\\|") or NOTHING


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    lines = [[cell(text) for text in row] for row in ([*head], *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def code(value: object) -> str:
    """As a computer has it."""
    return f"`{value}`"


def prose(docstring: str | None) -> str:
    """A docstring with its paragraphs, one line each."""
    return "\n\n".join(
        " ".join(part.split()) for part in inspect.cleandoc(docstring or "").split("\n\n")
    )


def _bounded(kind: str, schema: Schema) -> str:
    """A number or text with its limits."""
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    limits = [f"{sign} {schema[key]}" for key, sign in signs.items() if key in schema]
    length = f" of at most {schema['maxLength']} characters" if "maxLength" in schema else ""
    form = f" of the form {code(schema['pattern'])}" if "pattern" in schema else ""
    return " ".join([kind, " and ".join(limits)]).strip() + length + form


def kind_of(schema: Schema) -> str:
    """What a JSON schema takes, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(kind_of(choice) for choice in schema[key]))
    if "const" in schema or "enum" in schema:
        return ", ".join(
            code(json.dumps(value).strip('"'))
            for value in schema.get("enum", [schema.get("const")])
        )
    if schema.get("format") == "fraction":
        return "fraction"
    if schema.get("type") == "array":
        items = (
            "[" + ", ".join(map(kind_of, schema["prefixItems"])) + "]"
            if "prefixItems" in schema
            else f"list of {kind_of(schema['items'])}"
        )
        return items + (
            f", {schema['minItems']} at least"
            if "minItems" in schema and "prefixItems" not in schema
            else ""
        )
    if schema.get("type") == "object":
        values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        inner = next((value for value in values if isinstance(value, Mapping)), {})
        return f"mapping to {kind_of(inner)}" if inner else "mapping"
    kinds = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "null": "null",
    }
    return _bounded(kinds[schema["type"]], schema) if "type" in schema else "any value"
