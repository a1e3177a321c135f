"""DP-ICL's figures: the published accounting, audits, what the embedder chooses, prompts together against a loop, faults and kills while queries are answered."""

from __future__ import annotations

from benchmarks.answers import embedder_choice, ensemble_sets
from benchmarks.figures import Figures
from benchmarks.guarantees import ensemble_accounting
from benchmarks.installation import ensemble_faults
from benchmarks.speed import ensemble_engine


def main() -> None:
    """Measure everything; the slow parts last."""
    figures = Figures()
    for part in (ensemble_accounting, embedder_choice, ensemble_engine, ensemble_faults, ensemble_sets):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
