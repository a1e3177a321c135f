"""The JSON schemas of contract files, for editors and other tools."""

from __future__ import annotations

import json
from typing import Any

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract


def json_schema(kind: type[Declared] = Contract) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of what `data_contracts/*.yaml` may say, or `data_contracts/texts/*.yaml`.

    Cross-references (a template's fields, the product of groups) are beyond a schema and are
    checked on loading.
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **kind.model_json_schema()}


def schema_text(kind: type[Declared] = Contract) -> str:
    """A schema as it stands in the repository."""
    return json.dumps(json_schema(kind), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text(TextContract if sys.argv[1:] == ["text"] else Contract))
