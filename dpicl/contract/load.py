"""From a YAML file to a checked contract."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from dpicl.contract.models import Contract
from dpicl.contract.rules import check_references
from dpicl.errors import DeclarationError
from dpicl.yaml_file import read_yaml, validate


def parse_contract(content: Any, file: str) -> Contract:
    """Check parsed YAML against the schema and the cross-references.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    contract = validate(Contract, content, file)
    check_references(contract, file)
    return contract


def load_contract(path: Path) -> Contract:
    """Read `<name>.yaml`; the file is called after the contract.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    contract = parse_contract(read_yaml(path), path.name)
    if path.stem != contract.name:
        raise DeclarationError(path.name, "name", f"is {contract.name!r}", f"{path.stem!r}, the file's own name")
    return contract


def contract_digest(contract: Contract) -> str:
    """SHA-256 of the contract's content, whatever the order and spelling of its YAML."""
    return hashlib.sha256(contract.model_dump_json().encode()).hexdigest()
