"""What is said is so: a figure for each row of what was false around the mechanism, 0 inputs of it failing. `make bench TOPIC=truth`.

rows        `tests/truth` whole: a file `test_a1_….py` is of row a1, `test_d_witness_….py` of d-witness. A test whose name holds `mutant`
            brings a fault back. A row without a test is short
borders     the claims of `dpicl audit end-to-end` on worlds of 0, 1 and 2 rows and at thresholds
mutants     of `dpicl audit end-to-end`: all are caught
checklist   every row of the papers' checklist by its command
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.figures import Figures, bench
from dpicl.audit.end_to_end.mutants import MUTANTS, caught
from dpicl.audit.end_to_end.suite import CLAIMS

ROOT = Path(__file__).parents[1]
ROWS = (
    *(f"a{number}" for number in range(1, 8)),
    "net",
    *(f"b{number}" for number in range(1, 9)),
    *(f"c{number}" for number in range(1, 7)),
    *(f"d-{name}" for name in ("witness", "terminal", "collect", "numbers", "formulas", "infra")),
)
"""All that must have a test, and so a figure."""
_FILE = re.compile(r"\btest_(?:([abc]\d+)|(d)_([a-z]+)|(net|leaves))(?=_|\b)")


def row_of(file: str) -> str | None:
    """Row of a test's file or module, by the beginning of its name; None where it names none."""
    found = _FILE.search(file)
    if found is None:
        return None
    numbered, _, named, net = found.groups()
    return numbered or ("net" if net or named in ("net", "leaves") else f"d-{named}")


def read_results(report: Path) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Inputs and mutants of each row, and how many of both failed, from pytest's own XML."""
    inputs, mutants, failures = Counter[str](), Counter[str](), Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        row = row_of(case.get("classname") or case.get("name") or "") or "?"
        if case.find("skipped") is None:
            (mutants if "mutant" in (case.get("name") or "") else inputs)[row] += 1
            failures[row] += any(case.find(kind) is not None for kind in ("failure", "error"))
    return inputs, mutants, failures


def rows(figures: Figures, tests: Path = ROOT / "tests" / "truth", expected: tuple[str, ...] = ROWS) -> None:
    """The tests in a process of their own; which of them fail, by row."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", "--continue-on-collection-errors", f"--junitxml={report}", str(tests)]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(told.stdout[-6000:], told.stderr[-1000:], flush=True)
        inputs, mutants, failures = read_results(report) if report.exists() else (Counter[str](), Counter[str](), Counter[str]())
    for row in (*expected, *sorted({*inputs, *mutants, *failures}.difference(expected))):
        tried = inputs[row] + mutants[row]
        beside = f" of {inputs[row]} inputs and {mutants[row]} mutants" if tried else ""
        figures.exactly(f"{row}-open", failures[row] if tried else "no test", 0, beside)


def borders(figures: Figures) -> None:
    """Worlds at the borders, as far as `dpicl audit end-to-end` has them."""
    claims = {name: claim for name, claim in CLAIMS.items() if "border" in name}
    broken = {name: found for name, claim in claims.items() if (found := claim())}
    print(f"{len(claims)} claims on border worlds", *(f"{name}: {found[:2]}" for name, found in broken.items()), sep="\n")
    figures.exactly("border-worlds-open", len(broken) if claims else "no claim", 0)


def mutants(figures: Figures) -> None:
    """Each mistake of the whole machine is seen by its claim."""
    missed = [name for name, mutant in MUTANTS.items() if not caught(mutant)]
    print(f"{len(MUTANTS)} mutants of the machine", *missed, sep="\n")
    figures.exactly("end-to-end-mutants-missed", len(missed), 0)


def checklist(figures: Figures) -> None:
    """As `make bench TOPIC=papers` has it."""
    from benchmarks.papers.__main__ import checklist as of_papers

    of_papers(figures)


PARTS = (rows, borders, mutants, checklist)

if __name__ == "__main__":
    bench(PARTS)
