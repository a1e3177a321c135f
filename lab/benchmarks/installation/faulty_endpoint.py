"""A served model at a port, one request in ten of which meets a fault:
`python -m lab.benchmarks.installation.faulty_endpoint PORT`.
"""

from __future__ import annotations

import sys
import threading

from tests.library.endpoint_server import Habits, serving

FAULTS = ("429", "500", "503", "truncate", "cut", "close")


def main() -> None:
    """Serve until killed."""
    with serving(Habits(fault_every=10, faults=FAULTS), port=int(sys.argv[1])):
        threading.Event().wait()


if __name__ == "__main__":
    main()
