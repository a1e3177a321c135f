"""Attacks on what was released, as `dpicl audit membership` makes them: what holds, what is found
out, how long it takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.audit.membership.texts import INK, TEXT_WAYS
from lab.benchmarks.figures import Figures, bench, sized

RUNS = sized((), ("--runs", "60"))
Attack = dict[str, Any]


def measure(figures: Figures) -> None:
    """All methods at all epsilons with the default of releases; seconds are those of the clock."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [
                str(Path(sys.executable).with_name("dpicl")),
                "audit",
                "membership",
                *RUNS,
                "--out",
                folder,
            ],
            check=False,
        )
        seconds = time.perf_counter() - started
        attacks = json.loads((Path(folder) / "membership.json").read_text())["attacks"]
    figures.at_most("membership-seconds", seconds, 300, " s")
    tables, texts = (
        [attack for attack in attacks if (attack["way"] in TEXT_WAYS) is textual]
        for textual in (False, True)
    )
    mutants, methods = _parted(tables)
    figures.exactly(
        "membership-within-what-epsilon-allows",
        sum(method["passed"] for method in methods),
        len(methods),
    )
    figures.at_least(
        "membership-nearest-to-what-epsilon-allows",
        max(method["at_least"] / method["allowed"] for method in methods),
        0.75,
    )
    figures.exactly(
        "membership-mutants-caught", sum(mutant["passed"] for mutant in mutants), len(mutants)
    )
    of_texts(figures, texts)


def of_texts(figures: Figures, attacks: list[Attack]) -> None:
    """What is inferred of one planted text from released ones."""
    for attack in attacks:
        best = max(attack["attacks"], key=lambda each: each["area"])
        true, false = best["sharp_at_least"]
        print(
            f"{attack['way']}{', ' * bool(attack['mutant'])}{attack['mutant']}, epsilon "
            f"{attack['epsilon']:.2f}: by {best['attack']} advantage {best['seen']:.2f}, "
            f"at least {best['at_least']:.2f} (allowed {attack['allowed']:.2f}); area "
            f"{best['area']:.2f}, at least {best['area_at_least']:.2f} "
            f"(allowed {attack['area_allowed']:.2f}); true positives at least {true:.2f} where at "
            f"most {false:.2f} are false"
        )
    mutants, methods = _parted(attacks)
    figures.exactly(
        "membership-of-texts-within-what-epsilon-allows",
        sum(method["passed"] for method in methods),
        len(methods),
    )
    figures.at_least(
        "membership-of-texts-nearest-to-what-epsilon-allows",
        max(method["at_least"] / method["allowed"] for method in methods),
        0.5,
    )
    figures.exactly(
        "membership-of-texts-mutants-caught",
        sum(mutant["passed"] for mutant in mutants),
        len(mutants),
    )
    least = min(mutant["at_least"] for mutant in mutants if mutant["mutant"] == "no-noise")
    figures.at_least("membership-of-texts-advantage-without-noise", least, 0.9)
    without_clip = next(
        mutant["at_least"]
        for mutant in mutants
        if (mutant["way"], mutant["mutant"]) == (INK, "no-clip")
    )
    figures.at_least("membership-of-texts-advantage-without-clip", without_clip, 0.6)


def _parted(attacks: list[Attack]) -> list[list[Attack]]:
    """Mutants, and methods as they are."""
    return [
        [attack for attack in attacks if bool(attack["mutant"]) is broken]
        for broken in (True, False)
    ]


PARTS = (measure,)

if __name__ == "__main__":
    bench(PARTS)
