"""What a worker that was started by hand imports while the orchestrator is still starting.

`dask worker ADDRESS --preload tasks.preload`; local workers have it from the start
(`tasks/warm.py`).
"""

import threading
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Import in the background: a worker that does not answer meanwhile would be given up."""

    def warm() -> None:
        from tasks import warm as _  # noqa: F401 - the import is it

    threading.Thread(target=warm, daemon=True).start()
