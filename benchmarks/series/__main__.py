"""A year of nightly releases inside one budget: what its counters' noise is, and a night's time: `make bench TOPIC=series`."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.series import counters, nights


def main() -> None:
    """Measure everything; the slow part last."""
    figures = Figures()
    for part in (counters, nights):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
