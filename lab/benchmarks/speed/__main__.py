"""Speed of every step beside what a user would do, in one run: `make bench TOPIC=speed`. Goals are
ratios where there is something beside it.
"""

from __future__ import annotations

from lab.benchmarks.figures import bench
from lab.benchmarks.speed import (
    command_speed,
    file_speed,
    group_speed,
    history,
    ledger_size,
    ledger_speed,
    local_speed,
    query_speed,
)

PARTS = (
    command_speed.measure,
    ledger_speed.measure,
    ledger_size.measure,
    file_speed.measure,
    query_speed.measure,
    local_speed.measure,
    group_speed.measure,
)

if __name__ == "__main__":
    bench(PARTS, history.add, alone=True)
