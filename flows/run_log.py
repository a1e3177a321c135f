"""What is said of a run: on the terminal of `dpicl serve` when it begins and ends, and in Prefect's
log a refusal as one sentence.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings

log = logging.getLogger("dpicl.serve")
_ENGINE = ("prefect.flow_runs", "prefect.task_runs", "prefect.engine")
"""Loggers by which Prefect tells of an error, with all its frames."""


class _OneSentence(logging.Filter):
    """Of an error that is one sentence, the sentence, once for a process; its frames say nothing of
    what to do about it. Other errors stay as they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if not isinstance(error, DpiclError):
            return True
        is_new = error is not self._told
        self._told = error
        record.msg, record.args, record.exc_info = "%s", (str(error),), None
        return is_new


def tell_refusals_in_one_sentence() -> None:
    """From now on, in this process."""
    one_sentence = _OneSentence()
    for name in _ENGINE:
        logger = logging.getLogger(name)
        if not any(isinstance(known, _OneSentence) for known in logger.filters):
            logger.addFilter(one_sentence)


@contextmanager
def announced(run: str, settings: Settings, *, goes_on: bool) -> Iterator[None]:
    """Say that a scheduled run begins, or goes on where it had begun before, and how it ended after
    which time.
    """
    handler = logging.StreamHandler() if settings.logs != "json" else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    began = time.monotonic()
    log.info("run %s %s", run, "goes on" if goes_on else "begins")
    outcome = "completed"
    try:
        yield
    except BaseException as error:
        outcome = f"failed by {type(error).__name__}"
        raise
    finally:
        log.info("run %s %s after %.0f s", run, outcome, time.monotonic() - began)
        log.removeHandler(handler)
