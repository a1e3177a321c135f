"""dpicl: in-context learning on private data with a differential-privacy guarantee.

    import dpicl
    release = dpicl.Session().protect("customers", epsilon=1)
    release.table(10_000)

The product is framework-free, its report and command line too: no orchestrator, no cluster, no
validation suite. Those stand in `tasks/` and `flows/`, which call it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.contract import load_contract
    from dpicl.methods import METHODS
    from dpicl.release import Release
    from dpicl.session import Session

__version__ = "0.1.0"
__all__ = ["METHODS", "Release", "Session", "__version__", "load_contract"]
_PLACES = {"METHODS": "dpicl.methods", "Release": "dpicl.release", "Session": "dpicl.session", "load_contract": "dpicl.contract"}


def __getattr__(name: str) -> Any:
    """Import what is used when it is used: `import dpicl` alone costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'dpicl' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
