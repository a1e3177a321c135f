"""What all stages of a run have in common: skipping what is done, timing, a line for the log, and
errors that are clean. A stage is a function of references; its exception text reaches an
orchestrator's database.

What is noted of private rows without noise, which checks hold and how long stages took that read
them, is kept for their holder (`Verdicts`). With DPICL_LOG_FORMAT=json every line of our loggers on
standard error is one JSON object.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dpicl.contract.declared import Declared
from dpicl.contract.pipeline import parts_of
from dpicl.ground.errors import clean_errors
from dpicl.ground.files import PRIVATE_MODE, PUBLIC_MODE, read_json, write_json
from dpicl.home.settings import PRIVATE, Settings
from dpicl.runs.run_folder import UnitFolder, open_unit, settings_of_run

Place = Literal["owner", "worker", "model worker"]
"""Where a stage is done: in the process that holds the ledger, or on a worker; on one that may open
a model.
"""


@contextmanager
def timed(
    run: Path, owner: str, stage: str, part: str = "", *, reads_rows: bool = True
) -> Iterator[None]:
    """Store how long a stage (or a part of it) of a unit or data set took; the last attempt counts.
    Where it reads private rows, its time goes by them, and is stored for their holder alone.
    """
    started = time.perf_counter()
    worked = time.process_time()
    yield
    taken = {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - worked,
    }
    file = f"timings/{owner}/{stage}{part}.json"
    content = {"owner": owner, "stage": stage, **taken}
    if not reads_rows:
        write_json(run / file, content, replace=True)
        return
    settings = Settings.current()
    named = parts_of(owner)
    Verdicts.of(run, settings.declared(owner if named is None else named[1]), settings).write(
        file, content
    )


@dataclass(frozen=True)
class Stage:
    """A stage of a run: called with references, it does what is not yet done and gives one line of
    counts. `run` is the work, logged, its errors clean; only the owner of the ledger charges and
    publishes. Where several units of a data set are taken `together`, their keys come as a tuple in
    place of one.
    """

    name: str
    run: Callable[..., str]
    place: Place = "worker"
    together: bool = False

    def __call__(self, *references: Any) -> str:
        """Do it in this process."""
        return self.run(*references)


def stage(
    name: str, place: Place = "worker", *, together: bool = False
) -> Callable[[Callable[..., str]], Stage]:
    """Make a stage of a function of references; the arguments are `Stage`'s."""

    def decorate(function: Callable[..., str]) -> Stage:
        clean = clean_errors(name, function)  # what is logged of a failure is clean

        @functools.wraps(function)
        def logged(*arguments: Any, **options: Any) -> str:
            with settings_of_run(Path(str(arguments[0]))), stage_log(name, arguments) as lines:
                lines.append(clean(*arguments, **options))
            return lines[0]

        return Stage(name, logged, place, together)

    return decorate


def unit_stage(
    name: str,
    output: str | Callable[[UnitFolder], str],
    place: Place = "worker",
    *,
    private: bool = False,
    reads_rows: bool = True,
) -> Callable[[Callable[[UnitFolder], str]], Stage]:
    """Make a stage of a unit, a function of its folder that gives a line of counts: done once
    `output` stands in the (private) folder. One that reads no rows still may where held-out ones
    are queries.
    """

    def decorate(function: Callable[[UnitFolder], str]) -> Stage:
        def once(run: str, unit_key: str) -> str:
            folder = open_unit(run, unit_key)
            file = output if isinstance(output, str) else output(folder)
            if ((folder.private if private else folder.path) / file).exists():
                return "already done"
            with timed(
                folder.run,
                unit_key,
                name,
                reads_rows=reads_rows or folder.declared.evaluation == "charged",
            ):
                return function(folder)

        once.__doc__ = function.__doc__
        once.__module__ = function.__module__
        return stage(name, place)(once)

    return decorate


VERDICTS = "run-verdicts"
"""Beside folders that are called as data sets are, whose names have no dash."""


@dataclass(frozen=True)
class Verdicts:
    """Where a run's verdicts on one data set are written, and for whom."""

    folder: Path
    mode: int
    place: str
    """The folder, as it is told to those who may not look into it."""

    @staticmethod
    def of(run: Path, declared: Declared, settings: Settings) -> Verdicts:
        """Of a data set in a run."""
        if declared.is_benchmark:
            return Verdicts(run, PUBLIC_MODE, run.name)
        return Verdicts(
            settings.private(VERDICTS, run.name),
            PRIVATE_MODE,
            f"DPICL_HOME/{PRIVATE}/{VERDICTS}/{run.name}",
        )

    @property
    def is_public(self) -> bool:
        """Whether everybody may read them."""
        return self.mode == PUBLIC_MODE

    def write(self, name: str, content: Any) -> None:
        """Write a file of them, in place of one that an earlier try left."""
        write_json(self.folder / name, content, mode=self.mode, replace=True)

    def rules(self, dataset: str) -> list[dict[str, Any]] | None:
        """Every rule of a data set's contract, and whether it holds; None before they were
        checked.
        """
        path = self.folder / validation_file(dataset)
        return read_json(path) if path.exists() else None


def validation_file(dataset: str) -> str:
    """Below the folder of verdicts."""
    return f"validation/{dataset}.json"


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
    wanted = log_format == "json"
    handlers = [handler for handler in _PACKAGE.handlers if isinstance(handler, _JsonLines)]
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
    as_json = set_up(Settings.current().log_format)
    started = time.perf_counter()
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
