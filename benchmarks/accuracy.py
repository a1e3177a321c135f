"""Beyond the papers: accuracy for an epsilon."""

from __future__ import annotations

from benchmarks.answers import (
    averaged_draws,
    central_accuracy,
    chosen_counts,
    demonstrations,
    evolved_rows,
    gaussian_noise,
    local_accuracy,
    voted_labels,
    wide_local,
)
from benchmarks.figures import Figures


def main() -> None:
    """Measure everything; the slow parts last."""
    figures = Figures()
    for part in (
        demonstrations,
        averaged_draws,
        central_accuracy,
        chosen_counts,
        gaussian_noise,
        voted_labels,
        evolved_rows,
        local_accuracy,
        wide_local,
    ):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    chosen_counts.measure_floor(figures)
    chosen_counts.measure_time(figures)
    figures.finish()


if __name__ == "__main__":
    main()
