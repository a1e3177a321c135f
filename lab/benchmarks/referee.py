"""What others can check: exact transcripts of every method, prices computed again by another
program, and the same attacks on other libraries.

make bench TOPIC=referee
"""

from __future__ import annotations

from lab.benchmarks.figures import bench
from lab.benchmarks.referee_parts import recompute, targets, transcripts

PARTS = (transcripts.measure, recompute.measure, targets.measure)

if __name__ == "__main__":
    bench(PARTS)
