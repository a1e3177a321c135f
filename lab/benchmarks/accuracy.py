"""Beyond the papers: accuracy for an epsilon."""

from __future__ import annotations

from lab.benchmarks.answers import (
    averaged_draws,
    central_accuracy,
    chosen_counts,
    default_family,
    demonstrations,
    evolved_rows,
    gaussian_noise,
    local_accuracy,
    stated_quality,
    strangers,
    voted_labels,
    wide_local,
)
from lab.benchmarks.figures import bench

PARTS = (
    demonstrations.measure,
    averaged_draws.measure,
    central_accuracy.measure,
    chosen_counts.measure,
    gaussian_noise.measure,
    voted_labels.measure,
    evolved_rows.measure,
    local_accuracy.measure,
    wide_local.measure,
    chosen_counts.measure_floor,
    chosen_counts.measure_time,
    strangers.bins,
    strangers.predictor,
    strangers.floor,
    strangers.wide,
    strangers.plan,
    strangers.plan_time,
    stated_quality.measure,
    default_family.measure,
)

if __name__ == "__main__":
    bench(PARTS)
