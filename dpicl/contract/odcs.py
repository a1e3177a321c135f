"""A contract of a table as an Open Data Contract Standard data contract, for catalogues and tools
that read these.

Columns become properties with their public bounds and categories. What ODCS has no key for is in
custom properties: unit of protection, neighbours and budget each under a name of its own, and the
rest as the contract has it. `contract new --schema` makes the same contract of it, but for where
its rows are, or refuses the file: a cap or a unit that were lost would be other ones in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from dpicl.contract.base import IN_FULL
from dpicl.contract.columns import Column
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import CategoryColumn, value_of
from dpicl.contract.columns.date import DateColumn
from dpicl.contract.declared import Privacy, Releases
from dpicl.contract.draft import GROUPS, typed_groups
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.ground.errors import DeclarationError, one_of
from dpicl.ground.validation import validate

MORE = "dpiclColumn"
"""The custom property of a column that holds those of its keys that ODCS has none for."""
_REST = "dpiclContract"
"""The custom property that holds the contract's other keys."""
_FACTS = {
    "privacyUnit": ("privacy", "unit"),
    "privacyPersonColumn": ("privacy", "person", "id_column"),
    "privacyMaxRowsPerPerson": ("privacy", "person", "max_rows"),
    "privacyMaxRowsPerPersonInHorizon": ("privacy", "person", "max_rows_in_horizon"),
    "privacyNeighbours": ("privacy", "neighbours"),
    "privacySamplingRate": ("privacy", "sampling_rate"),
    "privacyReleasesEvery": ("releases", "every"),
    "privacyHorizon": ("releases", "horizon"),
    "privacyHorizonFirst": ("releases", "first"),
    "privacyPublicBenchmark": ("privacy", "budget", "benchmark"),
    "privacyEpsilonCap": ("privacy", "budget", "epsilon"),
    "privacyDeltaCap": ("privacy", "budget", "delta"),
    "privacyEpsilonByUser": ("privacy", "budget", "by"),
    "predictedColumn": ("label", "column"),
    "licence": ("source", "licence"),
}
"""{custom property: where a contract has it}."""
_ALL = "dpiclHolds"
"""The custom property that names all the others, of the contract and of columns, as one text: a
catalogue that keeps only some of them would change the contract."""
_NEEDED = (_ALL, "privacyUnit", "privacyNeighbours", "privacyReleasesEvery")
_CAPS = ("privacyEpsilonCap", "privacyPublicBenchmark")
_ELSEWHERE = {"name", "description", "draft", "columns"}
"""Keys of a contract that ODCS has keys for."""
_PLACES = {
    *("bundled", "file", "folder", "deliveries", "undelivered", "moved_from"),
    *("query", "frame", "openml", "uci"),
}
"""Keys of `source` that say where the rows are, which whoever reads the file back says anew."""

_VERSION = "v3.1.0"
_FORMATS = {"date": "yyyy-MM-dd", "datetime": "yyyy-MM-dd'T'HH:mm:ss"}
_LIKE_NUMBER = re.compile(r"[-+]?[._]*\d[\d._]*([eE][-+]?\d+)?")
_LOGICAL = {"category": "string", "real": "number", "datetime": "timestamp"}
"""{type, as a contract has it: a logical type}, where the two have other names."""


def odcs_text(contract: Contract) -> str:
    """The data contract as YAML; its version has the digest of ours, and changes with it."""
    facts = _facts(contract)
    columns = [_property(name, column) for name, column in contract.columns.items()]
    facts[_ALL] = json.dumps([*facts, *held_by(columns)], ensure_ascii=False)
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
                "properties": columns,
            }
        ],
        "customProperties": _named(facts),
    }
    return yaml.dump(content, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=100)


def held_by(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Custom properties of the columns, as `column.property`."""
    return [
        f"{column['name']}.{one.get('property')}"
        for column in columns
        for one in column.get("customProperties", ())
    ]


class _Quoting(yaml.SafeDumper):
    """Text that some reader takes for a number, as 1E30, is in quotes."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _LIKE_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoting.add_representer(str, _quoted)


def _facts(contract: Contract) -> dict[str, Any]:
    """What is protected and what it may cost, stated or not, and the rest as it is stated."""
    full = contract.model_dump(mode="json", context=IN_FULL)
    rest = contract.model_dump(
        mode="json",
        context=IN_FULL,
        exclude_unset=True,
        exclude={**dict.fromkeys(_ELSEWHERE, True), "source": _PLACES},
    )
    said = {*_NEEDED, "licence"}
    said |= set() if contract.releases.horizon is not None else {"privacySamplingRate"}
    said |= set() if contract.is_benchmark else {"privacyDeltaCap"}
    facts = {}
    for name, path in _FACTS.items():
        stated = _taken(rest, path)
        value = _taken(full, path) if stated is None and name in said else stated
        if value is not None and value is not False:
            facts[name] = value
    rest = {key: value for key, value in rest.items() if value not in ({}, None)}
    return facts | ({_REST: rest} if rest else {})


def _taken(content: dict[str, Any], path: Sequence[str]) -> Any:
    """The value of a path, which the content no longer has; None where there is none. What is
    empty then goes with it.
    """
    first, *below = path
    value = content.get(first)
    if not below or not isinstance(value, dict):
        return None if below else content.pop(first, None)
    inner = _taken(value, below)
    if not value:
        del content[first]
    return inner


def stated_in(
    custom: Sequence[Mapping[str, Any]], of_columns: Collection[str], where: str
) -> dict[str, Any]:
    """Keys of a contract, without columns, that custom properties state; none where no property is
    of a contract.

    Args:
        of_columns: `held_by` the columns.

    Raises:
        DeclarationError: some of what a contract needs is missing, unknown, or stated twice.
    """
    pairs = [(str(one.get("property")), one.get("value")) for one in custom]
    names = [name for name, _ in pairs]
    known = {*_FACTS, _REST, _ALL}
    if not any(name in known for name in names if name.startswith(("privacy", "dpicl"))):
        return {}
    for name in names:
        if name.startswith(("privacy", "dpicl")) and name not in known:
            raise _wrong(where, name, "unknown property", one_of(name, sorted(known)))
        if name in known and names.count(name) > 1:
            raise _wrong(where, name, "is stated twice", "each property once")
    facts = dict(pairs)
    if lacking := _lacking(facts, of_columns, where):
        raise _wrong(
            where,
            lacking[0],
            "missing beside other properties of a contract",
            "all of them, as `dpicl contract show NAME --as odcs` writes them; export it again",
        )
    content = deepcopy(facts.get(_REST, {}))
    keys = Contract.model_fields.keys() - _ELSEWHERE
    if not isinstance(content, dict) or content.keys() - keys:
        raise _wrong(where, _REST, "is no part of a contract", f"keys of {', '.join(sorted(keys))}")
    for name, path in _FACTS.items():
        if name in facts:
            _put(content, path, facts[name], where, name)
    _check(content, where)
    return content


def _lacking(facts: Mapping[str, Any], of_columns: Collection[str], where: str) -> list[str]:
    """Properties that are not here: of those that a contract needs, and of those it was written
    with.
    """
    lacking = [name for name in _NEEDED if name not in facts]
    if not {*_CAPS} & {*facts}:
        lacking.append(" or ".join(_CAPS))
    try:
        held = TypeAdapter(list[str]).validate_json(str(facts.get(_ALL, "[]")))
    except ValidationError:
        raise _wrong(where, _ALL, "is no list of names", "what was written there") from None
    return lacking + [name for name in held if name not in {*facts, *of_columns}]


def _put(content: dict[str, Any], path: Sequence[str], value: Any, where: str, name: str) -> None:
    for key in path[:-1]:
        content = content.setdefault(key, {})
        if not isinstance(content, dict):
            raise _wrong(where, _REST, f"has something else than a mapping as {key}", "a mapping")
    if path[-1] in content:
        raise _wrong(where, name, f"is stated by {_REST} too", "one of the two")
    content[path[-1]] = value


def _check(content: Mapping[str, Any], where: str) -> None:
    """A property that breaks a rule is refused by its own name."""
    named = {path: name for name, path in _FACTS.items()}
    parts: dict[str, type[Privacy | Releases]] = {"privacy": Privacy, "releases": Releases}
    for key, part in parts.items():
        try:
            validate(part, content[key], where)
        except DeclarationError as error:
            name = named.get((key, *error.key.split(".")), "")
            raise _wrong(where, name, error.rule, error.expected) from None


def _wrong(where: str, name: str, rule: str, expected: str) -> DeclarationError:
    return DeclarationError(where, f"customProperties.{name}".rstrip("."), rule, expected)


def _property(name: str, column: Column) -> dict[str, Any]:
    """A column: bounds as options of its type, categories as the values that all rows have."""
    told: dict[str, Any] = {"name": name, "required": not column.nullable}
    custom = {}
    if isinstance(column, CategoryColumn):
        kind = column.value_type
        told["logicalType"] = "string" if column.groups else _LOGICAL.get(kind, kind)
        if column.groups:
            custom[GROUPS] = typed_groups(column.groups, kind)
        elif kind != "boolean":
            arguments = {"validValues": _listed(column)}
            told["quality"] = [{"metric": "invalidValues", "arguments": arguments, "mustBe": 0}]
    else:
        low, high = column.bounds
        told["logicalType"] = _LOGICAL.get(column.type, column.type)
        told["logicalTypeOptions"] = {"minimum": low, "maximum": high}
        if isinstance(column, DateColumn):
            told["logicalTypeOptions"] = {
                "format": _FORMATS[column.type],
                "minimum": column.text(low),
                "maximum": column.text(high),
            }
    if more := _more(column):
        custom[MORE] = more
    return told | ({"customProperties": _named(custom)} if custom else {})


def _listed(column: CategoryColumn) -> list[Any]:
    """Categories in the type of the column's values."""
    kind = column.value_type
    return [value_of(category, kind) for category in column.categories if category != MISSING]


def _more(column: Column) -> dict[str, Any]:
    """Keys of a column that do not follow from its other properties."""
    more = column.model_dump(
        mode="json",
        context=IN_FULL,
        exclude_unset=True,
        exclude={"type", "bounds", "nullable", "categories", "groups"},
    )
    if isinstance(column, DateColumn) and column.bins:
        more["bins"] = [column.text(edge) for edge in column.bins]
    if isinstance(column, CategoryColumn):
        if more.get("texts") == {MISSING: "unknown"}:  # of every nullable one
            del more["texts"]
        groups = [*dict.fromkeys(typed_groups(column.groups, column.value_type).values())]
        truths = column.value_type == "boolean" and column.type == "category"
        if truths or (groups and groups != _listed(column)):
            more["categories"] = _listed(column)
    return {key: value for key, value in more.items() if value is not None}


def _named(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in facts.items()]
