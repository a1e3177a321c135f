"""What people and their tools look for in a Python package, as tests/packaging/test_conventions.py
has it: how many of its checks hold.
"""

from __future__ import annotations

import re
import subprocess
import sys

from lab.benchmarks.figures import Figures
from lab.benchmarks.installation.new_user import REPOSITORY

CHECKS = "tests/packaging/test_conventions.py"


def measure(figures: Figures) -> None:
    """All of them, whatever fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", CHECKS],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-2000:])
    ended = {
        end: int(count) for count, end in re.findall(r"(\d+) (passed|failed|error)", done.stdout)
    }
    figures.exactly("conventions kept", ended.get("passed", 0), sum(ended.values()) or "some")
