"""One paper, one page: each module reads like the method it implements. Methods of other packages
register by the entry-point group `dpicl.methods`.

The registry is imported when a name of it is first used: it loads the methods of other packages,
which import the modules that are here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl.methods.registry import (
        DEFAULTS,
        METHODS,
        Options,
        Registry,
        on_texts,
        tabular,
        unit_of,
    )

__all__ = ["DEFAULTS", "METHODS", "Options", "Registry", "on_texts", "tabular", "unit_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dpicl.methods.registry"), name)
