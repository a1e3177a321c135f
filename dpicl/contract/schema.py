"""The JSON schema of a contract file, for editors and other tools."""

from __future__ import annotations

import json
from typing import Any

from dpicl.contract.models import Contract


def json_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of what `data_contracts/*.yaml` may say.

    Cross-references (a template's fields, the product of groups) are beyond a schema and are
    checked on loading.
    """
    schema = Contract.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """The schema as it stands in the repository."""
    return json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text())
