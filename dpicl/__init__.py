"""dpicl: in-context learning on private data with a differential-privacy guarantee.

    import dpicl
    session = dpicl.Session()
    released = session.protect("customers", method=NAME, epsilon=1, shots=8)  # of dpicl.methods.METHODS

The product is framework-free, its report and command line too: no orchestrator, no cluster, no
validation suite. Those stand in `tasks/` and `flows/`, which call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.session import Session

__version__ = "0.1.0"
__all__ = ["Session", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the session when it is asked for: `import dpicl` alone costs nothing."""
    if name != "Session":
        raise AttributeError(f"module 'dpicl' has no attribute {name!r}")
    from dpicl.session import Session

    return Session
