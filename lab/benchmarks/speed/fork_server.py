"""A fork server with imports of one's own, beside the one that this process may have: that one's
children live on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any


@contextmanager
def own_fork_server(preload: Sequence[str]) -> Iterator[None]:
    """Children that are started inside are forks of a process that has imported this; they must
    have ended when it ends.
    """
    server: Any = forkserver._forkserver
    before = {name: value for name, value in vars(server).items() if name != "_lock"}
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    server.set_forkserver_preload(list(preload))
    server.ensure_running()
    try:
        yield
    finally:
        server._stop()
        server.__dict__.update(before)
