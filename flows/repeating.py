"""What a server's process does besides, every so often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

_END_SECONDS = 5.0


@contextmanager
def repeated(look: Callable[[], None], every: float) -> Iterator[None]:
    """While inside, something is done in a thread, at once and then every so many seconds; it
    handles its own errors.
    """
    stop = threading.Event()

    def work() -> None:
        while True:
            look()
            if stop.wait(every):
                return

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_END_SECONDS)
