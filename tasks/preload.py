"""What a local worker imports while the orchestrator is still starting."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from dpicl.lm.models import import_backend


def dask_setup(_worker: Any) -> None:
    """Import in the background."""
    threading.Thread(target=_import, daemon=True).start()


def _import() -> None:
    for name in ("tasks.score", "tasks.fit_baselines"):
        importlib.import_module(name)
    import_backend()
