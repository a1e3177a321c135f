"""What tests say of a stranger's way: conventions of Python packages, and README and the pages,
followed as they are printed in an empty folder. How many of their checks hold.
"""

from __future__ import annotations

import re
import subprocess
import sys

from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.installation.new_user import REPOSITORY

CHECKS = {
    "conventions kept": ("tests/packaging/test_conventions.py",),
    "README and pages followed in an empty folder": sized(
        ("tests/docs/test_readme.py", "tests/docs/test_pages.py", "tests/docs/test_typed.py"),
        ("tests/docs/test_readme.py",),
    ),
}


def measure(figures: Figures) -> None:
    """All of them, whatever fails."""
    for name, files in CHECKS.items():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", *files],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout[-2000:], flush=True)
        ended = {
            end: int(count)
            for count, end in re.findall(r"(\d+) (passed|failed|error)", done.stdout)
        }
        figures.exactly(name, ended.get("passed", 0), sum(ended.values()) or "some")
