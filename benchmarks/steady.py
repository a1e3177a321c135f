"""One sweep on an orchestrator and workers that are up: `python -m benchmarks.steady [WORKERS]` prints its wall time."""

from __future__ import annotations

import sys
import time

from flows.runtime import runtime

MEASURED = {"datasets": ["blood", "heart"], "seeds": [0, 1]}
BEFORE = {"datasets": ["blood"], "seeds": [2], "epsilons": [1.0], "shots": [1, 2]}


def main() -> None:
    """A small run first, so that every worker has imported what it needs."""
    with runtime(int(sys.argv[1]) if len(sys.argv) > 1 else None):
        from flows.sweep import sweep

        sweep("table-3", BEFORE, "before")
        started = time.perf_counter()
        sweep("table-3", MEASURED, "measured")
        print(f"{time.perf_counter() - started:.3f}")


if __name__ == "__main__":
    main()
