"""dpicl: in-context learning on private data with a differential-privacy guarantee.

The library is framework-free: no orchestrator, no cluster, no validation suite. Those
stand in `tasks/` and `flows/`, which call it.
"""

__version__ = "0.1.0"
