"""Bring mutants back one by one, and say which test notices each.

    python -m tools.mutants [--only ID ...] [--jobs N] [--first] [--anew]

A test counts only if it passes without the mutant. That a mutant was caught is kept in
`.dpicl/mutants.json`, and holds as long as the product and that test's file stay as they are;
`--anew` drops it. `--first` tries no other test than the one that caught it before.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.mutants.checkout import (
    CAUGHT,
    NOT_BEGUN,
    PASSED,
    ROOT,
    TOO_LONG,
    Checkout,
    digest,
    digest_of,
    files,
)
from tools.mutants.places import PACKAGES, Mutant, Product, listed, with_heir

NET = ROOT / "tests" / "net"
LIST, HINTS = NET / "mutants.yaml", NET / "caught_by.json"
HEIRS = ROOT / "tools" / "mutants" / "heirs.yaml"
RESULTS = ROOT / ".dpicl" / "mutants.json"
AREAS = {
    "mechanisms": ("tests/library/mechanisms", "tests/oracles", "tests/statistical"),
    "accounting": ("tests/oracles", "tests/library/mechanisms", "tests/ledger"),
    "ledger": ("tests/ledger", "tests/upgrades", "tests/tasks"),
    "readers": ("tests/library/tabular", "tests/library/text", "tests/truth"),
    "names": ("tests/library/contract", "tests/upgrades", "tests/methods", "tests/tasks"),
    "methods": ("tests/library/methods", "tests/methods"),
    "models": ("tests/library/lm", "tests/library/text", "tests/library/tabular"),
    "commands": ("tests/cli",),
    "report": ("tests/flows", "tests/library/quality", "tests/cli"),
    "series": ("tests/tasks", "tests/library/methods", "tests/library/mechanisms", "tests/cli"),
    "flow": ("tests/flows", "tests/cli"),
}
"""Where a mutant of each area is looked for after its own test; then comes all of `make test`."""
_ALL = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
_SECONDS, _SECONDS_OF_ALL = 900, 3600
Step = tuple[tuple[str, ...], int]
"""Tests to be run, and the seconds that they may take."""
_MOST_ALIKE = 5
"""So many tests may fail without any mutant before a step is given up."""


@dataclass
class Known:
    """What was found out about this product, and the tests to be tried first."""

    product: str
    caught: dict[str, dict[str, Any]]
    hints: dict[str, str]
    passing: dict[str, bool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def read(product: str, anew: bool) -> Known:
        """What earlier runs have kept."""
        stored = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() and not anew else {}
        return Known(
            product, stored, json.loads(HINTS.read_text("utf-8")) if HINTS.exists() else {}
        )

    def add(self, mutant: Mutant, test: str) -> None:
        """Keep that this test caught it; it counts once it is known to pass without it."""
        with self.lock:
            self.caught[mutant.id] = {"by": test, "of": self._of(mutant, test)}
            self._write()

    def check(self, copy: Checkout) -> None:
        """Find out which of the tests that caught a mutant pass without it."""
        doubtful = {stored["by"] for stored in self.caught.values() if not stored.get("passes")}
        tests = sorted(test for test in doubtful - self.passing.keys() if _is_there(test))
        while tests:
            outcome = copy.test(tests, _SECONDS_OF_ALL)
            if outcome.code in (PASSED, CAUGHT):
                self.passing |= {test: test not in outcome.failed for test in tests}
            tests = [test for test in tests if test not in outcome.missing and outcome.missing]
        for stored in self.caught.values():
            stored["passes"] = stored.get("passes") or self.passing.get(stored["by"], False)
        self._write()

    def _write(self) -> None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(self.caught), "utf-8")
        hints = self.hints | {name: stored["by"] for name, stored in self.caught.items()}
        if hints != self.hints:
            self.hints = hints
            HINTS.write_text(json.dumps(hints, indent=1, sort_keys=True) + "\n", "utf-8")

    def before(self, mutant: Mutant) -> str:
        """The test that caught it before; empty: none is known to do so now."""
        stored = self.caught.get(mutant.id, {})
        test = str(stored["by"]) if stored.get("passes") else ""
        return test if test and _is_there(test) and stored["of"] == self._of(mutant, test) else ""

    def misled(self, mutant: Mutant) -> bool:
        """Whether the test that caught it fails without it, too."""
        return self.passing.get(self.hints.get(mutant.id, "")) is False

    def _of(self, mutant: Mutant, test: str) -> str:
        of_test = digest([test.split("::")[0]])
        return digest_of([self.product, json.dumps(asdict(mutant)), of_test])


def _is_there(test: str) -> bool:
    return (ROOT / test.split("::")[0]).is_file()


def _steps(mutant: Mutant, known: Known, *, only_first: bool) -> Iterator[Step]:
    """Tests to be run, the likeliest first, and the seconds that they may take."""
    hint = known.hints.get(mutant.id, "")
    tried = dict.fromkeys([hint, hint.split("::")[0]] if hint else [])
    yield from (((test,), _SECONDS) for test in tried if _is_there(test))
    if only_first:
        return
    folders = tuple(folder for folder in AREAS[mutant.area] if (ROOT / folder).is_dir())
    if folders:
        yield (*_ALL, *folders), _SECONDS_OF_ALL
    yield _ALL, _SECONDS_OF_ALL


def _catcher(copy: Checkout, known: Known, made: tuple[str, bytes], steps: Iterator[Step]) -> str:
    """The test that fails with the mutant and passes without it; empty: there is none."""
    for tests, seconds in steps:
        left_out: list[str] = []
        while len(left_out) <= _MOST_ALIKE:
            copy.put(*made)
            outcome = copy.test([*tests, "-x", *left_out], seconds)
            failed = [test for test in outcome.failed if f"--deselect={test}" not in left_out]
            own = next((test for test in failed if known.passing.get(test, True)), None)
            if own is not None:
                return own
            # the program cannot even be imported, or hangs
            if outcome.code == NOT_BEGUN and _is_there(tests[0]) and not outcome.missing:
                return tests[0]
            if outcome.code == TOO_LONG and known.passing.get(tests[0]):
                return tests[0]
            if not failed:
                break
            left_out += [f"--deselect={test}" for test in failed]
    return ""


@dataclass(frozen=True)
class Hunt:
    """One run of this program: the copies that are free, and what is looked for in them."""

    product: Product
    known: Known
    copies: queue.Queue[Checkout]
    only_first: bool

    def catch_all(self, mutants: Sequence[Mutant], jobs: int) -> int:
        """How many are caught. What seemed to catch one and fails anyway is not asked again."""
        self._check()
        left = list(mutants)
        while left:
            with ThreadPoolExecutor(jobs) as pool:
                found = list(pool.map(self.catches, left))
            self._check()
            left = [
                mutant
                for mutant, is_caught in zip(left, found, strict=True)
                if is_caught and self.known.misled(mutant)
            ]
        return sum(bool(self.known.before(mutant)) for mutant in mutants)

    def _check(self) -> None:
        copy = self.copies.get()
        self.known.check(copy)
        self.copies.put(copy)

    def catches(self, mutant: Mutant) -> bool:
        """Whether a test catches it; says which."""
        if test := self.known.before(mutant):
            print(f"{mutant.id}: caught before by {test}", flush=True)  # noqa: T201
            return True
        made = self.product.mutated(mutant)
        assert made is not None, mutant.id
        copy, start = self.copies.get(), time.monotonic()
        try:
            steps = _steps(mutant, self.known, only_first=self.only_first)
            test = _catcher(copy, self.known, made, steps)
        finally:
            copy.restore()
            self.copies.put(copy)
        if test:
            self.known.add(mutant, test)
        seconds = f"in {time.monotonic() - start:.0f} s"
        told = f"caught by {test} {seconds}" if test else f"LIVED {seconds}: {mutant.says}"
        print(f"{mutant.id}: {told}", flush=True)  # noqa: T201
        return bool(test)


def standing(product: Product, mutants: Sequence[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
    """Those whose piece stands once, or whose heir's does; and those that are gone."""
    heirs = (yaml.safe_load(HEIRS.read_text("utf-8")) or {}) if HEIRS.exists() else {}
    there: list[Mutant] = []
    gone: list[Mutant] = []
    for mutant in mutants:
        now = [mutant, *([with_heir(mutant, heirs)] if mutant.id in heirs else [])]
        found = next((version for version in now if len(product.places(version)) == 1), None)
        (gone if found is None else there).append(found or mutant)
    return there, gone


def main() -> None:
    """Try all, or those that are named; leave with 1 if one lives or is gone."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ID", help="these alone")
    parser.add_argument("--jobs", type=int, default=1, help="so many beside each other")
    parser.add_argument(
        "--first", action="store_true", help="no test but the one known to catch it"
    )
    parser.add_argument("--anew", action="store_true", help="keep nothing of earlier runs")
    given = parser.parse_args()
    mutants = listed(LIST)
    if unknown := set(given.only or ()) - {mutant.id for mutant in mutants}:
        parser.error(f"--only {min(unknown)}: no such mutant; expected an id of {LIST}")
    product = Product(ROOT)
    chosen = [mutant for mutant in mutants if not given.only or mutant.id in given.only]
    there, gone = standing(product, chosen)
    names = files()
    of_product = digest([name for name in names if name.startswith(PACKAGES)])
    known = Known.read(of_product, given.anew)
    hunt = Hunt(product, known, queue.Queue(), given.first)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies = [Checkout(Path(scratch, str(job)), names) for job in range(given.jobs)]
        for copy in copies:
            hunt.copies.put(copy)
        caught = hunt.catch_all(there, given.jobs)
    for mutant in gone:
        print(f"{mutant.id}: gone: {mutant.says}")  # noqa: T201
    for name, value, goal in (
        ("mutants caught", f"{caught} of {len(there)}", "all"),
        ("mutants gone", str(len(gone)), "0"),
    ):
        good = caught == len(there) if goal == "all" else not gone
        print(f"figure {name}: {value} (goal {goal}) {'ok' if good else 'short'}")  # noqa: T201
    sys.exit(0 if caught == len(there) and not gone else 1)


if __name__ == "__main__":
    main()
