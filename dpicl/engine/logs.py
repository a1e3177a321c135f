"""Logs for machines: with DPICL_LOG_FORMAT=json every line of our loggers on standard error is one
JSON object.

    time, level, logger, message                          always
    run, stage, unit, dataset, method, seed, attempt      inside a stage, where its references say
    so
    seconds                                               on the line that a stage ends or fails
    with

Messages are the counts that the orchestrator gets too; of an exception only its kind is written.
Each process of a run turns this on by itself when it begins its first stage.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpicl.engine.settings import Settings
from dpicl.pipeline import parts_of

_PACKAGE = logging.getLogger("dpicl")
_log = logging.getLogger("dpicl.tasks")
# the orchestrator keeps what is logged here, but sets no level of its own
_log.setLevel(logging.INFO)
_at: ContextVar[Mapping[str, Any] | None] = ContextVar("at", default=None)
_attempt: ContextVar[int | None] = ContextVar("attempt", default=None)


class _JsonLines(logging.StreamHandler[Any]):
    """To what is standard error when a line comes."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        pass

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **(_at.get() or {}),
        }
        if hasattr(record, "seconds"):
            content["seconds"] = round(record.seconds, 3)
        if record.exc_info and record.exc_info[0]:
            content["error"] = record.exc_info[0].__name__  # its text may quote a value
        return json.dumps(content, ensure_ascii=True)


def set_up(log_format: str) -> bool:
    """Write logs as `text` or `json` in this process from now on; gives whether lines are JSON."""
    wanted, handlers = (
        log_format == "json",
        [handler for handler in _PACKAGE.handlers if isinstance(handler, _JsonLines)],
    )
    if wanted and not handlers:
        _PACKAGE.addHandler(_JsonLines())
    for handler in handlers if not wanted else ():
        _PACKAGE.removeHandler(handler)
    # no line twice: the orchestrator's console prints what reaches the root
    _PACKAGE.propagate = not wanted
    return wanted


@contextmanager
def stage_log(stage: str, references: Sequence[Any]) -> Iterator[list[str]]:
    """Log the line of counts that a stage ends with, which is put into the list; in JSON also how
    it failed. `references` are what the stage is called with: a run's folder, and the key of a unit
    or the name of a data set. Raises ParameterError: DPICL_LOG_FORMAT cannot be followed.
    """
    as_json, started = set_up(Settings.current().log_format), time.perf_counter()
    counts: list[str] = []
    which = _attempt.get()
    named = _named(references)
    token = _at.set({"stage": stage, **named, **({} if which is None else {"attempt": which})})
    # which a line of JSON says apart
    owner = None if as_json else named.get("unit", named.get("dataset"))
    try:
        yield counts
        _log.info(
            "%s: %s",
            " ".join(filter(None, (stage, owner))),
            *counts,
            extra={"seconds": time.perf_counter() - started},
        )
    except Exception as error:
        if as_json:
            _log.error(
                "%s: failed: %s", stage, error, extra={"seconds": time.perf_counter() - started}
            )
        raise
    finally:
        _at.reset(token)


def _named(references: Sequence[Any]) -> dict[str, Any]:
    """Run, unit or data set from a stage's references; other arguments are not looked at."""
    names: dict[str, Any] = {}
    if references and isinstance(references[0], str):
        names["run"] = Path(references[0]).name
    owner = references[1] if len(references) > 1 else None
    if isinstance(owner, tuple) and len(owner) == 1:
        (owner,) = owner
    if not isinstance(owner, str):
        return names
    parts = parts_of(owner)
    return names | (
        {"dataset": owner}
        if parts is None
        else {"unit": owner, **dict(zip(("method", "dataset", "seed"), parts, strict=True))}
    )


@contextmanager
def attempt(number: int | None) -> Iterator[None]:
    """While an orchestrator tries a stage: which try this is, from 1."""
    token = _attempt.set(number)
    try:
        yield
    finally:
        _attempt.reset(token)
