"""The JSON schemas of contract files, for editors and other tools."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract


def json_schema(kind: type[Declared] = Contract) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of what `data_contracts/*.yaml` may say, or
    `data_contracts/texts/*.yaml`.

    Cross-references (a template's fields, the product of groups) are beyond a schema and are
    checked on loading. Editors show each key's docstring beside it.
    """
    schema, known = kind.model_json_schema(), models()
    for name, part in {kind.__name__: schema, **schema["$defs"]}.items():
        descriptions = meanings(known[name])
        for key, content in part.get("properties", {}).items():
            content |= {"description": descriptions[key]} if key in descriptions else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def models(kind: type[BaseModel] = BaseModel) -> dict[str, type[BaseModel]]:
    """Our frozen types by name."""
    by_name = {kind.__name__: kind} if kind.__module__.startswith("dpicl.") else {}
    for subclass in kind.__subclasses__():
        by_name |= models(subclass)
    return by_name


def meanings(kind: type) -> dict[str, str]:
    """Docstrings of a type's keys, those that it inherits too, one line each."""
    described: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one in (object, BaseModel):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        for line, after in pairwise(cast(ast.ClassDef, tree).body):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                described[ast.unparse(line.target)] = " ".join(str(after.value.value).split())
    return described


def schema_text(kind: type[Declared] = Contract) -> str:
    """A schema as it stands in the repository."""
    return json.dumps(json_schema(kind), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text(TextContract if sys.argv[1:] == ["text"] else Contract))
