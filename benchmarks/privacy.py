"""What the guarantee rests on: audits, sensitivities, hostile input, concurrent spenders, crashes."""

from __future__ import annotations

from benchmarks import hostile
from benchmarks.crash import matrix as crashes
from benchmarks.figures import Figures
from benchmarks.guarantees import audits, neighbour_pairs, spenders


def main() -> None:
    """Measure everything; the slow parts last."""
    figures = Figures()
    for part in (audits, neighbour_pairs, hostile, spenders, crashes):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
