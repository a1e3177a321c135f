"""Validation: the contract's rules on the private table, told in counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dpicl.checks import Rule, Violation
from dpicl.contract import Contract, Declared, TextContract
from dpicl.engine.artefacts import table_folder
from dpicl.engine.batches import Batches
from dpicl.engine.files import read_table, write_json
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.errors import DataError
from dpicl.tabular.reading.batches import merged_violations
from dpicl.tabular.reading.checks import rules_of, violations
from dpicl.text.checks import text_rules, text_violations

Checked = tuple[tuple[Rule, ...], dict[Rule, int], list[bool]]
"""The contract's rules, how many values break those that are broken, and whether each holds."""


def check_rules(run: str, dataset: str) -> str:
    """Write whether every rule of the contract holds, and refuse rows that break one.

    Raises:
        DataError: names column, rule and count.
    """
    settings = Settings.current()
    contract = settings.declared(dataset)
    with timed(Path(run), dataset, "validate"):
        batches = Batches.find(settings, dataset, Path(run))
        rules, counts, holds = _whole(settings, dataset, Path(run)) if batches is None else _in_batches(batches)
        broken = [(rule, counts.get(rule, 0)) for rule, held in zip(rules, holds, strict=True) if not held]
        write_json(
            Path(run) / "validation" / f"{dataset}.json",
            [_row(rule, held, counts, contract) for rule, held in zip(rules, holds, strict=True)],
        )
    _refuse(contract, [(rule, count) for rule, count in broken if rule.severity == "fail"])
    return f"{len(rules)} rules, {len(broken)} warnings"


def _whole(settings: Settings, dataset: str, run: Path) -> Checked:
    table, contract = read_table(table_folder(settings, dataset, run) / "private_table.parquet"), settings.declared(dataset)
    rules, violated = _checked(table, contract)
    counts = {violation.rule: violation.count for violation in violated}
    return rules, counts, [rule not in counts for rule in rules]


def _in_batches(batches: Batches) -> Checked:
    rules, facts = rules_of(batches.contract), batches.facts()
    counts = {violation.rule: violation.count for violation in merged_violations(facts, batches.contract)}
    return rules, counts, [rule not in counts for rule in rules]


def _checked(table: pa.Table, contract: Declared) -> tuple[tuple[Rule, ...], tuple[Violation, ...]]:
    """The contract's rules, and those of them that are broken."""
    if isinstance(contract, TextContract):
        return text_rules(contract), text_violations(table, contract)
    assert isinstance(contract, Contract)
    return rules_of(contract), violations(table, contract)


def _row(rule: Rule, held: bool, counts: dict[Rule, int], contract: Declared) -> dict[str, object]:
    """Whether a rule holds; of a benchmark also how many values break it."""
    told = {"rule": rule.rule, "column": rule.column, "expected": rule.description, "severity": rule.severity, "holds": held}
    return told | ({"values": 0 if held else counts.get(rule, 0)} if contract.privacy.budget.benchmark else {})


def _refuse(contract: Declared, failed: list[tuple[Rule, int]]) -> None:
    if failed:
        rule, count = failed[0]
        more = f" (and {len(failed) - 1} more rules fail)" if len(failed) > 1 else ""
        raise DataError(contract.name, f"breaks {rule.rule}: expected {rule.description}{more}", column=rule.column or "", count=count)


validate = stage("validate", "validate {dataset}", check_rules)
