"""A stranger's day: the command line's words, the pages in a browser, installations, stops at random moments, and what a year leaves behind.

make bench TOPIC=stranger
"""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.stranger_parts import commands, pages, sizes, stops, year

if __name__ == "__main__":
    figures = Figures()
    for part in (commands, pages, sizes, stops, year):
        part.measure(figures)
    figures.finish()
