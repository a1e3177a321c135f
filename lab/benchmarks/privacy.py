"""What the guarantee rests on: audits, hostile input, concurrent spenders,
crashes.
"""

from __future__ import annotations

from lab.benchmarks import hostile
from lab.benchmarks.crash import matrix as crashes
from lab.benchmarks.figures import bench
from lab.benchmarks.guarantees import audits, spenders

PARTS = (
    audits.measure,
    hostile.measure,
    spenders.measure,
    crashes.measure,
)

if __name__ == "__main__":
    bench(PARTS)
