"""DP-ICL's figures: the published accounting, audits, what the embedder chooses, prompts together
against a loop, faults and kills while queries are answered.
"""

from __future__ import annotations

from lab.benchmarks.answers import embedder_choice, ensemble_sets
from lab.benchmarks.figures import bench
from lab.benchmarks.guarantees import ensemble_accounting
from lab.benchmarks.installation import ensemble_faults
from lab.benchmarks.speed import ensemble_engine

PARTS = (
    ensemble_accounting.measure,
    embedder_choice.measure,
    ensemble_engine.measure,
    ensemble_faults.measure,
    ensemble_sets.measure,
)

if __name__ == "__main__":
    bench(PARTS)
