"""What a worker does from its start on: imports while the orchestrator is still starting, and comes
back to a scheduler that it has lost.

`dask worker ADDRESS --preload tasks.preload`; local workers have the imports from the start
(`tasks/warm.py`).
"""

import logging
import threading
from collections.abc import Awaitable
from typing import Any

LOST = ("worker-handle-scheduler-connection-broken", "worker-heartbeat-missing")
"""Why Dask closes a worker that has heard nothing of its scheduler for `comm.timeouts.tcp`, or that
its scheduler has given up.
"""


def dask_setup(worker: Any) -> None:
    """Import in the background: a worker that does not answer meanwhile would be given up. Leave
    the nanny alive when the scheduler is lost: it starts the worker anew, which waits for the
    scheduler; else a host whose network fails for a minute would not come back.

    Workers of a cluster on this machine, whose names are numbers, end with their scheduler: that a
    last heartbeat found none, they would tell with all frames after a run that has succeeded.
    """
    if isinstance(worker.name, int):
        logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)

    def warm() -> None:
        from tasks import warm as _  # noqa: F401 - the import is it

    threading.Thread(target=warm, daemon=True).start()
    close = worker.close

    def close_or_come_back(
        *arguments: Any, nanny: bool = True, reason: str = "worker-close", **options: Any
    ) -> Awaitable[Any]:
        ends = nanny and reason not in LOST
        return close(*arguments, nanny=ends, reason=reason, **options)

    worker.close = close_or_come_back
