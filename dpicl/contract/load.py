"""From a YAML file to a checked contract."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpicl.contract.declared import Declared
from dpicl.contract.derive import VERSION
from dpicl.contract.models import Contract
from dpicl.contract.rules import check_references
from dpicl.contract.text import TextContract
from dpicl.contract.text_rules import check_text_references
from dpicl.errors import DeclarationError
from dpicl.yaml_file import parse_yaml, read_declaration, validate


def parse_contract(content: Any, file: str) -> Contract | TextContract:
    """Check parsed YAML against the schema and the cross-references; `kind: text` tells texts from a table.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind is None:
        table = validate(Contract, content, file)
        check_references(table, file)
        return table
    if kind != "text":
        raise DeclarationError(file, "kind", f"got {str(kind)[:60]!r}", "text, or no such key for a table")
    texts = validate(TextContract, content, file)
    check_text_references(texts, file)
    return texts


def load_contract(path: Path) -> Contract | TextContract:
    """Read `<name>.yaml`; the file is called after the contract.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    contract = _parsed(read_declaration(path), path.name)
    if path.stem != contract.name:
        raise DeclarationError(path.name, "name", f"is {contract.name!r}", f"{path.stem!r}, the file's own name")
    return contract


@lru_cache(maxsize=256)  # every stage reads its own contract again
def _parsed(content: bytes, file: str) -> Contract | TextContract:
    return parse_contract(parse_yaml(content, file), file)


def contract_digest(contract: Declared) -> str:
    """SHA-256 of the contract's content, whatever the order and spelling of its YAML; who pays, where and when is no part of it."""
    excluded: Any = {"account": True, "releases": True, "ledger": True}
    if contract.version > 1:
        excluded |= {"population": True, "privacy": {"budget": {"epsilon", "delta"}}}
    content = contract.model_dump_json(exclude=excluded)
    return hashlib.sha256((content if contract.version == 1 else f"{content} derived {VERSION}").encode()).hexdigest()
