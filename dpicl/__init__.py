"""dpicl: in-context learning on private data with a differential-privacy guarantee.

    import dpicl
    table, schema = dpicl.example()  # made-up customers, and what is publicly known of them
    release = dpicl.protect(table, schema, epsilon=1, account="shop")
    release.table(10_000)

The product is framework-free, its report and command line too: no orchestrator, no cluster, no
validation suite. Those stand in `tasks/` and `flows/`, which call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.contract import load_contract
    from dpicl.data.drafted import DraftSchema, draft
    from dpicl.data.example import Example, example
    from dpicl.methods import METHODS
    from dpicl.release import Release
    from dpicl.release.door import Query
    from dpicl.session import Session, protect

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "DraftSchema",
    "Example",
    "Query",
    "Release",
    "Session",
    "__version__",
    "draft",
    "example",
    "load_contract",
    "protect",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what is used when it is used: `import dpicl` alone costs nothing."""
    if name == "METHODS":
        from dpicl import methods as place
    elif name == "Query":
        from dpicl.release import door as place  # type: ignore[no-redef]
    elif name == "Release":
        from dpicl import release as place  # type: ignore[no-redef]
    elif name in ("DraftSchema", "draft"):
        from dpicl.data import drafted as place  # type: ignore[no-redef]
    elif name in ("Example", "example"):
        from dpicl.data import example as place  # type: ignore[no-redef]
    elif name == "load_contract":
        from dpicl import contract as place  # type: ignore[no-redef]
    elif name in ("Session", "protect"):
        from dpicl import session as place  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'dpicl' has no attribute {name!r}")
    return getattr(place, name)
