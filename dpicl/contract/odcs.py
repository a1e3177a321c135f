"""A contract of a table as an Open Data Contract Standard data contract, for catalogues and tools
that read these.

Columns become properties with their public bounds and categories, by which `contract new --schema`
makes the same columns of it. What ODCS has no key for, the unit of protection, neighbours and
budget among it, are custom properties.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from dpicl.contract.columns import Column
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import CategoryColumn, value_of
from dpicl.contract.columns.date import DateColumn
from dpicl.contract.draft import GROUPS, typed_groups
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract

_VERSION = "v3.1.0"
_FORMATS = {"date": "yyyy-MM-dd", "datetime": "yyyy-MM-dd'T'HH:mm:ss"}
_LIKE_NUMBER = re.compile(r"[-+]?[._]*\d[\d._]*([eE][-+]?\d+)?")
_LOGICAL = {"category": "string", "real": "number", "datetime": "timestamp"}
"""{type, as a contract has it: a logical type}, where the two have other names."""


def odcs_text(contract: Contract) -> str:
    """The data contract as YAML; its version has the digest of ours, and changes with it."""
    content = {
        "apiVersion": _VERSION,
        "kind": "DataContract",
        "id": contract.name,
        "name": contract.name,
        "version": f"1.0.0+{contract_digest(contract)[:12]}",
        "status": "draft" if contract.draft else "active",
        "description": {"purpose": contract.description},
        "schema": [
            {
                "name": contract.name,
                "logicalType": "object",
                "properties": [
                    _property(name, column) for name, column in contract.columns.items()
                ],
            }
        ],
        "customProperties": _named(_facts(contract)),
    }
    return yaml.dump(content, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=100)


class _Quoting(yaml.SafeDumper):
    """Text that some reader takes for a number, as 1E30, is in quotes."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _LIKE_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoting.add_representer(str, _quoted)


def _facts(contract: Contract) -> dict[str, Any]:
    """What is protected, and what it may cost."""
    privacy, budget = contract.privacy, contract.privacy.budget
    facts: dict[str, Any] = {"privacyUnit": privacy.unit}
    if contract.person is not None:
        facts |= {
            "privacyPersonColumn": contract.person.id_column,
            "privacyMaxRowsPerPerson": contract.person.max_rows,
        }
    facts |= {
        "privacyNeighbours": privacy.neighbours,
        "privacySamplingRate": str(privacy.sampling_rate),
        "privacyReleasesEvery": contract.releases.every,
    }
    if budget.epsilon is None:
        facts["privacyPublicBenchmark"] = True
    else:
        facts |= {"privacyEpsilonCap": budget.epsilon, "privacyDeltaCap": budget.delta}
    if contract.label_column is not None:
        facts["predictedColumn"] = contract.label_column
    return facts | {"licence": contract.source.licence}


def _property(name: str, column: Column) -> dict[str, Any]:
    """A column: bounds as options of its type, categories as the values that all rows have."""
    told: dict[str, Any] = {"name": name, "required": not column.nullable}
    if isinstance(column, CategoryColumn):
        kind = column.value_type
        listed = [value_of(category, kind) for category in column.categories if category != MISSING]
        told["logicalType"] = _LOGICAL.get(kind, kind)
        if column.groups:
            told["logicalType"] = "string"
            told["customProperties"] = _named({GROUPS: _all_groups(column)})
        elif kind != "boolean":
            arguments = {"validValues": listed}
            told["quality"] = [{"metric": "invalidValues", "arguments": arguments, "mustBe": 0}]
        return told
    low, high = column.bounds
    told["logicalType"] = _LOGICAL.get(column.type, column.type)
    told["logicalTypeOptions"] = {"minimum": low, "maximum": high}
    if isinstance(column, DateColumn):
        told["logicalTypeOptions"] = {
            "format": _FORMATS[column.type],
            "minimum": column.text(low),
            "maximum": column.text(high),
        }
    return told


def _all_groups(column: CategoryColumn) -> dict[str, Any]:
    """Groups in the type of the column's values; a category that no code has, or in another order,
    as a code of itself.
    """
    groups, kind = dict(column.groups), column.value_type
    listed = [category for category in column.categories if category != MISSING]
    if listed != list(dict.fromkeys(groups.values())):
        groups = {category: category for category in listed} | groups
    return typed_groups(groups, kind)


def _named(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in facts.items()]
