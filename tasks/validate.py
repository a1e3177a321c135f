"""Validation: the contract's rules on the private table, told in counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dpicl.checks import Rule, Violation
from dpicl.contract import Contract, Declared, TextContract
from dpicl.errors import DataError
from dpicl.tabular.batches import merged_violations
from dpicl.tabular.checks import rules_of, violations
from dpicl.text.checks import text_rules, text_violations
from tasks.artefacts import table_folder
from tasks.batches import Batches
from tasks.doorway import doorway, timed
from tasks.expectations import evaluate
from tasks.files import read_table, write_json
from tasks.settings import Settings

Checked = tuple[tuple[Rule, ...], dict[Rule, int], list[bool]]
"""The contract's rules, how many values break those that are broken, and whether each holds."""


def _validate(run: str, dataset: str) -> str:
    settings = Settings.from_environment()
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
    """Counted by us, and evaluated by the validation framework."""
    table, contract = read_table(table_folder(settings, dataset, run) / "private_table.parquet"), settings.declared(dataset)
    rules, violated = _checked(table, contract)
    return rules, {violation.rule: violation.count for violation in violated}, evaluate(table, rules, contract)


def _in_batches(batches: Batches) -> Checked:
    """Counted by us in every batch; the framework would want all rows in one frame."""
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


validate = doorway("validate", "validate {dataset}", _validate)
