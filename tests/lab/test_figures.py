"""What is timed beside other work has no verdict."""

from __future__ import annotations

import subprocess
import sys

import pytest

TOPIC = """
import os, subprocess, sys, time
from lab.benchmarks.figures import Figures, bench

def part(figures: Figures) -> None:
    for _ in range(os.cpu_count() // 4 + 1):
        others.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    time.sleep(2)
    figures.at_most("seconds", 1, 2, " s")

others = []
try:
    bench([part], alone={alone})
finally:
    [other.kill() for other in others]
"""


@pytest.mark.parametrize(("alone", "verdict", "code"), [(True, "disturbed", 1), (False, "ok", 0)])
def test_a_figure_that_was_timed_beside_other_work_has_no_verdict(
    alone: bool, verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a process that is not the bench's own: it has not been waited for."""
    monkeypatch.delenv("BENCH_SIZE", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", TOPIC.format(alone=alone)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"figure seconds: 1 s (goal <= 2 s) {verdict}" in done.stdout, done.stderr
    assert done.returncode == code and ("others that used" in done.stdout) is alone
