"""The referee on other libraries: known public faults that it finds, mechanisms without one that it
leaves alone, public suites on dpicl's mechanisms, and others' attacks on its releases.

Needs `make peers`; public suites need DPICL_SUITES. What is not there is said and has no figure.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dpicl.ground.errors import DpiclError
from lab.audit.others.attackers import audit_attackers
from lab.audit.others.report import faults_found
from lab.audit.others.run import Finding, audit_target
from lab.audit.others.suites import VARIABLE, audit_suites
from lab.audit.others.targets import TARGETS
from lab.benchmarks.figures import Figures, sized

RUNS = sized(100_000, 2_000)
SUITE_SAMPLES = sized(100_000, 10_000)


def measure(figures: Figures) -> None:
    """All targets that are installed, then suites and attackers."""
    findings = list[Finding]()
    for target in TARGETS.values():
        try:
            findings += audit_target(target, runs=RUNS, seed=0)
        except DpiclError as error:
            print(f"missing: {error}", flush=True)
    for finding in findings:
        print(f"{finding.versions}: {finding.mechanism}: {finding.verdict}", flush=True)
    found = faults_found(findings)
    figures.exactly(
        "others' known faults found",
        f"{sum(found.values())} of {len(found)}",
        f"{len(found)} of {len(found)}",
    )
    sound = [finding for finding in findings if finding.fault is None]
    held = sum(finding.passed for finding in sound)
    figures.exactly(
        "others' mechanisms without a known fault that hold",
        f"{held} of {len(sound)}",
        f"{len(sound)} of {len(sound)}",
    )
    with tempfile.TemporaryDirectory() as folder:
        if os.environ.get(VARIABLE):
            passed = audit_suites(runs=SUITE_SAMPLES, seed=0, folder=Path(folder))
            figures.exactly("public suites passed", passed, True)
        else:
            print(f"missing: {VARIABLE} names no folder of public suites", flush=True)
        try:
            passed = audit_attackers(runs=None, seed=0, folder=Path(folder))
        except DpiclError as error:
            print(f"missing: {error}", flush=True)
            return
    figures.exactly("others' attacks within what epsilon allows", passed, True)
