"""Validation: the contract's rules on the private table, reported in counts."""

from __future__ import annotations

from pathlib import Path

from dpicl.checks import Rule, Violation
from dpicl.contract import Contract, Declared, TextContract
from dpicl.engine.artefacts import TABLE, kept_rows, table_folder
from dpicl.engine.batches import Batches
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage, timed
from dpicl.engine.verdicts import Verdicts, validation_file
from dpicl.errors import DataError
from dpicl.holder import tell_holder
from dpicl.tabular.reading.batches import merged_violations
from dpicl.tabular.reading.checks import rules_of, violations
from dpicl.text.checks import text_rules, text_violations


def check_rules(run: str, dataset: str) -> str:
    """Write whether every rule of the contract holds, and refuse rows that break one. Which rules
    only warn of private rows is told to their holder and decides nothing. Raises DataError: names
    column, rule and count.
    """
    settings = Settings.current()
    contract = settings.declared(dataset)
    with timed(Path(run), dataset, "validate"):
        rules, violated = _checked(settings, contract, Path(run))
        counts = {violation.rule: violation.count for violation in violated}
        rows = [
            {
                "rule": rule.rule,
                "column": rule.column,
                "expected": rule.description,
                "severity": rule.severity,
                "holds": rule not in counts,
                # how many break it
                **({"values": counts.get(rule, 0)} if contract.privacy.budget.benchmark else {}),
            }
            for rule in rules
        ]
        verdicts = Verdicts.of(Path(run), contract, settings)
        verdicts.write(validation_file(dataset), rows)
    failed = [rule for rule in rules if rule in counts and rule.severity == "fail"]
    if failed:
        more = f"and {len(failed) - 1} more rules fail" if len(failed) > 1 else ""
        broken = f"breaks {failed[0].rule}: expected {failed[0].description}"
        raise DataError(
            contract.name,
            broken,
            column=failed[0].column or "",
            count=counts[failed[0]],
            detail=more,
        )
    if verdicts.is_public:
        return f"{len(rules)} rules, {len(counts)} warnings"
    if counts:
        warned = ", ".join(
            f"{' '.join(filter(None, (rule.rule, rule.column)))} ({count})"
            for rule, count in counts.items()
        )
        tell_holder(
            f"{dataset}: of {len(rules)} rules these do not hold, and only warn: {warned}; all "
            f"verdicts are in {verdicts.folder}"
        )
    return f"{len(rules)} rules checked"


def _checked(
    settings: Settings, contract: Declared, run: Path
) -> tuple[tuple[Rule, ...], tuple[Violation, ...]]:
    """The contract's rules, and those that the rows break: a function of its own, since the frame
    that refuses must not hold the rows.
    """
    batches = Batches.find(settings, contract.name, run)
    if batches is not None:
        return rules_of(batches.contract), merged_violations(batches.facts(), batches.contract)
    table = kept_rows(table_folder(settings, contract.name, run) / TABLE)
    if isinstance(contract, TextContract):
        return text_rules(contract), text_violations(table, contract)
    assert isinstance(contract, Contract)
    return rules_of(contract), violations(table, contract)


validate = stage("validate")(check_rules)
