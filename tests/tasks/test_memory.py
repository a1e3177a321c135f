"""A worker's allocator: freed buffers are used again, whatever Dask has asked of it."""

from __future__ import annotations

import platform

import pytest

from tests.harness import python

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_buffers_that_are_freed_are_not_cleared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    kept, as_dask_starts_it = (int(python(FAULTS, how)) for how in ("kept", "as Dask starts it"))
    assert kept < 10_000 < as_dask_starts_it
