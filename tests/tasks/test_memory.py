"""A worker's allocator: freed buffers are used again, whatever Dask has asked of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
if sys.argv[1] == "kept":
    import tasks.warm
np.ones(1 << 17)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    np.ones(1 << 17)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""How many pages are cleared for 200 buffers of 1 MiB, one after another."""


def faults(how: str) -> int:
    asked = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(
        subprocess.run(
            [sys.executable, "-c", FAULTS, how],
            env=asked,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_buffers_that_are_freed_are_not_cleared_again() -> None:
    assert faults("kept") < 10_000 < faults("as Dask starts it")
