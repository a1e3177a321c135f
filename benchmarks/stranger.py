"""A stranger's day: the command line's words, the pages in a browser, and stops at random moments.

make bench TOPIC=stranger
"""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.stranger_parts import commands, pages, stops

if __name__ == "__main__":
    figures = Figures()
    for part in (commands, pages, stops):
        part.measure(figures)
    figures.finish()
