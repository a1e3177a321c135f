"""A run of the command line on Prefect: what is needed is started, and failures are told in one sentence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dpicl.errors import DpiclError, RunError
from flows.environment import prepare_environment


def prepared() -> Callable[..., None]:
    """Set what Prefect goes by, before anything imports it; gives `run_on_prefect`."""
    prepare_environment(console_level="CRITICAL")
    return run_on_prefect


def run_on_prefect(folder: Path, pipeline: str, changes: dict[str, Any], workers: int, show: Callable[[str], object]) -> None:
    """Start what is needed, and do a planned run there.

    Raises:
        DpiclError: something was refused or failed, told in one sentence.
    """
    from flows.runtime import runtime

    show("starting the orchestrator and the workers")
    with _one_sentence(folder.name), runtime(workers):
        from flows.sweep import sweep

        show("running")
        sweep(pipeline, changes, folder.name, True)


@contextmanager
def _one_sentence(run_id: str) -> Iterator[None]:
    """What the orchestrator or the cluster could not do, without their tracebacks.

    An interrupt reaches server and workers too, so that their failures may be told first: it stays an interrupt.
    """
    interrupted, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.set()  # whoever swallows the exception
        signal.default_int_handler(number, frame)

    if before is signal.default_int_handler:  # a job in the background ignores it
        signal.signal(signal.SIGINT, note)
    from prefect.exceptions import TerminationSignal

    try:
        yield
    except TerminationSignal:
        raise KeyboardInterrupt from None
    except Exception as error:
        if interrupted.is_set():
            raise KeyboardInterrupt from None
        if isinstance(error, DpiclError):
            raise
        raise RunError(f"run {run_id}: stopped by {type(error).__name__}; `dpicl run --resume {run_id}` does what is missing") from None
    finally:
        signal.signal(signal.SIGINT, before)
