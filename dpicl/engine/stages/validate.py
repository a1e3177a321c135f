"""Validation: the contract's rules on the private table, reported in counts."""

from __future__ import annotations

from pathlib import Path

from dpicl.engine.rows import check_rules, warnings_of
from dpicl.engine.run_folder import rows_of
from dpicl.engine.stage import stage, timed
from dpicl.engine.verdicts import Verdicts, validation_file
from dpicl.holder import tell_holder


def write_verdicts(run: str, dataset: str) -> str:
    """Write whether every rule of the contract holds, and refuse rows that break one. Which rules
    only warn of private rows is told to their holder and decides nothing. Raises DataError: names
    column, rule and count.
    """
    rows = rows_of(run, dataset)
    contract = rows.contract
    with timed(Path(run), dataset, "validate"):
        rules, violated = rows.verdicts()
        counts = {violation.rule: violation.count for violation in violated}
        content = [
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
        verdicts = Verdicts.of(Path(run), contract, rows.settings)
        verdicts.write(validation_file(dataset), content)
    check_rules(rules, violated, dataset)
    if verdicts.is_public:
        return f"{len(rules)} rules, {len(counts)} warnings"
    if counts:
        warned = warnings_of(rules, violated, dataset)
        tell_holder(f"{warned}; all verdicts are in {verdicts.folder}")
    return f"{len(rules)} rules checked"


validate = stage("validate")(write_verdicts)
