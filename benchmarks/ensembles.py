"""DP-ICL's figures: the published accounting, audits, prompts together against a loop, faults and kills while queries are answered."""

from __future__ import annotations

from benchmarks import ensemble_accounting, ensemble_engine, ensemble_faults, ensemble_sets
from benchmarks.figures import Figures


def main() -> None:
    """Measure everything; the slow parts last."""
    figures = Figures()
    for part in (ensemble_accounting, ensemble_engine, ensemble_faults, ensemble_sets):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
