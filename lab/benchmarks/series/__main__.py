"""A year of nightly releases inside one budget: `make bench TOPIC=series`.

What its counters' noise is, what that costs in AUC and in averages of groups, a night's time,
nights that are killed, and a million clients' reports. `python -m lab.benchmarks.series answers`
measures one part.
"""

from __future__ import annotations

from lab.benchmarks.figures import bench
from lab.benchmarks.series import answers, averages, commands, counters, kills, nights, reports

PARTS = (
    counters.measure,
    nights.measure,
    reports.measure,
    averages.measure,
    commands.measure,
    answers.measure,
    kills.measure,
)

if __name__ == "__main__":
    bench(PARTS)
