"""What is said is so: a figure for each row of what was false around the mechanism, 0 inputs of it
failing. `make bench TOPIC=truth`.

rows        `tests/truth` and `tests/lab/truth` whole: a file `test_a1_….py` is of row a1,
            `test_d_witness_….py` of d-witness. A test whose name holds `mutant` brings a fault
            back. A row without a test is short
borders     the claims of `dpicl audit end-to-end` on worlds at borders, and on spellings of assets;
            what they see that no list has
mutants     of `dpicl audit end-to-end`: all are caught, as `make bench TOPIC=machine` has them
checklist   every row of the papers' checklist by its command, as `make bench TOPIC=papers` has them
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from lab.audit.end_to_end.leaves import UNLISTED
from lab.audit.end_to_end.spellings import SPELLINGS
from lab.audit.end_to_end.suite import BORDERS
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.machine import mutants
from lab.benchmarks.papers.__main__ import checklist

ROOT = Path(__file__).parents[2]
TESTS = sized(("tests/truth", "tests/lab/truth"), ("tests/lab/truth/test_c6_release_check.py",))
"""In smoke size some that run no topic: else this one would run itself."""
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


def read_results(report: Path) -> dict[str, Counter[str]]:
    """By row how many tests are inputs and mutants, and how many of both failed, from pytest's own
    XML.
    """
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name") or ""
        counts = found.setdefault(row_of(case.get("classname") or name) or "?", Counter())
        if case.find("skipped") is None:
            counts["mutants" if "mutant" in name else "inputs"] += 1
            counts["failed"] += any(case.find(kind) is not None for kind in ("failure", "error"))
    return found


def rows(figures: Figures, tests: Sequence[str] = TESTS, expected: tuple[str, ...] = ROWS) -> None:
    """The tests in two processes of their own; which of them fail, by row."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "results.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *("-n", "2", "--dist", "loadfile"),
            "-m",
            "",
            "--continue-on-collection-errors",
            f"--junitxml={report}",
            *tests,
        ]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(told.stdout[-6000:], told.stderr[-1000:], flush=True)
        found = read_results(report) if report.exists() else {}
    for row in (*expected, *sorted(set(found).difference(expected))):
        counts = found.get(row, Counter())
        tried = counts["inputs"] + counts["mutants"]
        beside = f" of {counts['inputs']} inputs and {counts['mutants']} mutants" if tried else ""
        figures.exactly(f"{row}-open", counts["failed"] if tried else "no test", 0, beside)


def borders(figures: Figures) -> None:
    """Worlds at the borders, and spellings of assets; and how much of what leaves there is on no
    list.
    """
    unlisted = set[str]()
    for figure, claims in (("border-worlds-open", BORDERS), ("spellings-open", SPELLINGS)):
        claims = sized(dict(claims), dict(list(claims.items())[:1]))
        broken = {name: found for name, claim in claims.items() if (found := claim())}
        print(
            f"{len(claims)} claims",
            *(f"{name}: {found[:2]}" for name, found in broken.items()),
            sep="\n",
        )
        figures.exactly(figure, len(broken), 0, f" of {len(claims)} claims")
        unlisted |= {
            sentence for found in broken.values() for sentence in found if UNLISTED in sentence
        }
    figures.exactly("unlisted", len(unlisted), 0)


PARTS = (rows, borders, mutants, checklist)

if __name__ == "__main__":
    bench(PARTS)
