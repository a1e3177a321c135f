"""`dpicl audit --target`: what audits of other libraries found, as a table and in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpicl.cli.terminal import console, counted, new_table, say
from lab.audit.others.run import Finding, audit_target
from lab.audit.others.targets import TARGETS, find_target
from lab.audit.results import write_json

_RUNS = 100_000


def audit_targets(name: str, *, runs: int | None, seed: int, folder: Path) -> bool:
    """Audit one target or `all`, print and write the results; whether known faults were found, and
    nothing else.

    Raises:
        ParameterError: no target has this name, or its environment is not there.
    """
    targets = tuple(TARGETS.values()) if name == "all" else (find_target(name),)
    findings = list[Finding]()
    with counted("auditing", "mechanisms") as count:
        total = sum(len(target.mechanisms) for target in targets)
        for target in targets:
            for finding in audit_target(target, runs=runs or _RUNS, seed=seed):
                findings.append(finding)
                count.update(len(findings), total)
    _show(findings)
    write_json(folder / "targets.json", [record(finding) for finding in findings])
    return all(finding.passed for finding in findings)


def _show(findings: Sequence[Finding]) -> None:
    table = new_table("mechanism", "stated epsilon", "delta", "at least", "")
    for finding in findings:
        numbers: tuple[str, ...] = ("", "", "")
        if finding.result is not None:
            case = finding.result.case
            bounds = case.stated_epsilon, case.trial.delta, finding.result.epsilon_at_least
            numbers = f"{bounds[0]:.3f}", f"{bounds[1]:g}", f"{bounds[2]:.3f}"
        table.add_row(f"{finding.target} {finding.mechanism}", *numbers, finding.verdict)
    say(*dict.fromkeys(finding.versions for finding in findings))
    console.print(table)
    found = faults_found(findings)
    for fault, was_found in found.items():
        say(f"{'found' if was_found else 'NOT FOUND'}: {fault}")


def faults_found(findings: Iterable[Finding]) -> Mapping[str, bool]:
    """Every known fault, with its source, and whether all mechanisms that have it were caught."""
    found: dict[str, bool] = {}
    for finding in findings:
        if finding.fault is not None:
            name = f"{finding.target}: {finding.fault.what_is_wrong} ({finding.fault.source})"
            found[name] = found.get(name, True) and finding.exceeded
    return found


def record(finding: Finding) -> dict[str, Any]:
    """A finding for programs: epsilons in nats, runs on each neighbour."""
    fault, result = finding.fault, finding.result
    found: dict[str, Any] = {
        "target": finding.target,
        "versions": finding.versions,
        "mechanism": finding.mechanism,
        "verdict": finding.verdict,
        "passed": finding.passed,
        "known_fault": fault.what_is_wrong if fault else None,
        "source": fault.source if fault else None,
    }
    if result is not None:
        found |= {
            "neighbours": result.case.neighbours,
            "stated_epsilon": result.case.stated_epsilon,
            "delta": result.case.trial.delta,
            "epsilon_at_least": result.epsilon_at_least,
            "runs": result.runs,
            "seed": result.seed,
        }
    return found
