"""A stranger's day: the command line's words, files as they come, conventions of packages, the
pages in a browser, installations, stops at random moments, and what a year leaves behind.

make bench TOPIC=stranger
"""

from __future__ import annotations

from lab.benchmarks.figures import bench
from lab.benchmarks.stranger_parts import commands, conventions, files, pages, sizes, stops, year

PARTS = (
    commands.measure,
    files.measure,
    conventions.measure,
    pages.measure,
    sizes.measure,
    stops.measure,
    year.measure,
)

if __name__ == "__main__":
    bench(PARTS)
