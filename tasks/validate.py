"""Validation: the contract's rules on the private table, told in counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dpicl.checks import Rule, Violation
from dpicl.contract import Contract, Declared, TextContract
from dpicl.errors import DataError
from dpicl.tabular.checks import rules_of, violations
from dpicl.text.checks import text_rules, text_violations
from tasks.artefacts import table_folder
from tasks.doorway import doorway, timed
from tasks.expectations import evaluate
from tasks.files import read_table, write_json
from tasks.settings import Settings


def _validate(run: str, dataset: str) -> str:
    settings = Settings.from_environment()
    contract = settings.declared(dataset)
    with timed(Path(run), dataset, "validate"):
        table = read_table(table_folder(settings, dataset, Path(run)) / "private_table.parquet")
        rules, violated = _checked(table, contract)
        holds = evaluate(table, rules, contract)
        counts = {violation.rule: violation.count for violation in violated}
        broken = [(rule, counts.get(rule, 0)) for rule, held in zip(rules, holds, strict=True) if not held]
        write_json(
            Path(run) / "validation" / f"{dataset}.json", [_row(rule, held, counts) for rule, held in zip(rules, holds, strict=True)]
        )
    _refuse(contract, [(rule, count) for rule, count in broken if rule.severity == "fail"])
    return f"{len(rules)} rules, {len(broken)} warnings"


def _checked(table: pa.Table, contract: Declared) -> tuple[tuple[Rule, ...], tuple[Violation, ...]]:
    """The contract's rules, and those of them that are broken."""
    if isinstance(contract, TextContract):
        return text_rules(contract), text_violations(table, contract)
    assert isinstance(contract, Contract)
    return rules_of(contract), violations(table, contract)


def _row(rule: Rule, held: bool, counts: dict[Rule, int]) -> dict[str, object]:
    return {
        "rule": rule.rule,
        "column": rule.column,
        "expected": rule.description,
        "severity": rule.severity,
        "holds": held,
        "values": 0 if held else counts.get(rule, 0),
    }


def _refuse(contract: Declared, failed: list[tuple[Rule, int]]) -> None:
    if failed:
        rule, count = failed[0]
        more = f" (and {len(failed) - 1} more rules fail)" if len(failed) > 1 else ""
        raise DataError(contract.name, f"breaks {rule.rule}: expected {rule.description}{more}", column=rule.column or "", count=count)


validate = doorway("validate", "validate {dataset}", _validate)
