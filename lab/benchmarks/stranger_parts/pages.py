"""Pages in a real browser: which have text that is hard to read, or something that a keyboard does
not reach.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.benchmarks.figures import Figures
from tests.browser import CHROMIUM, faults, open_tab
from tests.pages import written_pages


def measure(figures: Figures, given: Mapping[str, Path] | None = None) -> None:
    """Of these pages, or of one of every kind, written by small real runs."""
    if CHROMIUM is None:
        print("no Chromium is here: pages are not looked at")
        return
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        open_tab(Path(folder) / "profile") as tab,
    ):
        pages = given or written_pages(Path(folder) / "place")
        found = {name: faults(tab, page) for name, page in pages.items()}
    for name, wrong in found.items():
        print(f"{name}: {len(wrong)} faults", *wrong[:20], sep="\n  ")
    figures.exactly("pages with a contrast or keyboard fault", sum(map(bool, found.values())), 0)


if __name__ == "__main__":
    _figures = Figures()
    measure(_figures, {path: Path(path) for path in sys.argv[1:]})
    _figures.finish()
