"""A year of nightly releases inside one budget: `make bench TOPIC=series`.

What its counters' noise is, what that costs in AUC and in averages of groups, a night's time, nights that are killed, and a million clients' reports. `python -m benchmarks.series answers` measures
one part.
"""

from __future__ import annotations

import sys

from benchmarks.figures import Figures
from benchmarks.series import answers, averages, commands, counters, kills, nights, reports

PARTS = {
    "counters": counters,
    "nights": nights,
    "reports": reports,
    "averages": averages,
    "commands": commands,
    "answers": answers,
    "kills": kills,
}


def main() -> None:
    """Measure everything, the slow parts last; or the parts that are named."""
    figures = Figures()
    for part in (PARTS[name] for name in sys.argv[1:] or PARTS):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
