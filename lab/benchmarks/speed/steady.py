"""One sweep on an orchestrator and workers that are up:
`python -m lab.benchmarks.speed.steady [WORKERS [MODEL]]` prints its wall time.
"""

from __future__ import annotations

import sys
import time

from flows.runtime import runtime
from lab.benchmarks.figures import sized

MEASURED = {
    "datasets": ["blood", "heart"],
    "seeds": [0, 1],
    **sized({}, {"seeds": [0], "epsilons": [1.0], "shots": [1]}),
}
BEFORE = {"datasets": ["blood"], "seeds": [2], "epsilons": [1.0], "shots": sized([1, 2], [1])}
QUERIES = sized(30, 3)
"""Of a model that takes longer than the one with random weights."""


def main() -> None:
    """A small run first, so that every worker has imported what it needs."""
    with runtime(int(sys.argv[1]) if len(sys.argv) > 1 else None):
        from flows.tabicl import sweep

        asked = {"model": sys.argv[2], "queries": QUERIES} if len(sys.argv) > 2 else {}
        sweep("table-3", BEFORE | asked, "before")
        started = time.perf_counter()
        sweep("table-3", MEASURED | asked, "measured")
        print(f"{time.perf_counter() - started:.3f}")


if __name__ == "__main__":
    main()
