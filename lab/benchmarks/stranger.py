"""A stranger's day: the command line's words, files as they come, what tests say of conventions
and pages, pages in a browser, installations and a first release in one, stops at random moments,
and what a year leaves behind.

make bench TOPIC=stranger
"""

from __future__ import annotations

from lab.benchmarks.figures import bench
from lab.benchmarks.stranger_parts import checks, commands, files, pages, sizes, stops, year

PARTS = (
    commands.measure,
    files.measure,
    checks.measure,
    pages.measure,
    sizes.measure,
    stops.measure,
    year.measure,
)

if __name__ == "__main__":
    bench(PARTS)
