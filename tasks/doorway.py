"""What every stage has in common: retries, skipping what is done, timing, clean errors.

A stage is a function of references. Its exception text reaches the orchestrator's database,
so anything but our own one-sentence errors is rewritten to the kind of error and where it
arose; no message of a library, which may quote a value, gets out. Counts of private rows in
our own are for the person at the terminal.
"""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from dpicl.errors import DataError, DpiclError, RunError
from tasks.files import write_json
from tasks.logs import stage_log
from tasks.run_folder import UnitFolder, open_unit

RETRIES = 2


@contextmanager
def timed(run: Path, owner: str, stage: str, part: str = "") -> Iterator[None]:
    """Keep how long a stage (or a part of it) of a unit or data set took; the last attempt counts."""
    started, worked = time.perf_counter(), time.process_time()
    yield
    taken = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - worked}
    write_json(run / "timings" / owner / f"{stage}{part}.json", {"owner": owner, "stage": stage, **taken}, replace=True)


class StageFailed(Exception):
    """An unforeseen failure, told without any value: worth a retry."""


def clean_errors(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let our own errors through; rewrite all others."""

    @functools.wraps(function)
    def clean(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except DataError as error:
            raise error.without_counts() from None
        except DpiclError:
            raise
        except OSError as error:
            raise StageFailed(f"{stage}: {error.strerror or type(error).__name__} (errno {error.errno})") from None
        except MemoryError:
            raise RunError(f"{stage}: out of memory") from None
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise StageFailed(f"{stage}: {type(error).__name__} at {frame.name}:{frame.lineno}") from None

    return clean


def _worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """A broken rule stays broken; only unforeseen failures are tried again."""
    error = state.result(raise_on_failure=False)
    return not isinstance(error, DpiclError)


def _told(stage: str, function: Callable[..., str]) -> Callable[..., str]:
    """Log the line of counts that a stage ends with."""

    @functools.wraps(function)
    def telling(*arguments: Any, **options: Any) -> str:
        with stage_log(stage, arguments) as told:
            told.append(function(*arguments, **options))
        return told[0]

    return telling


def doorway(stage: str, run_name: str, function: Callable[..., str]) -> Task[..., Any]:
    """A function of references as a retryable task that logs its line of counts and keeps nothing of it."""
    return task(
        _told(stage, clean_errors(stage, function)),  # what is told of a failure is clean
        name=stage,
        task_run_name=run_name,
        retries=RETRIES,
        retry_delay_seconds=[1, 5],
        retry_jitter_factor=0.5,
        retry_condition_fn=_worth_retrying,
        persist_result=False,
        cache_policy=NO_CACHE,
        log_prints=False,
    )


def unit_stage(stage: str, output: str, *, private: bool = False) -> Callable[[Callable[[UnitFolder], str]], Task[..., Any]]:
    """Make a stage of a unit: done once `output` stands in its (private) folder.

    The function gets the unit's folder and returns one line of counts for the log.
    """

    def decorate(function: Callable[[UnitFolder], str]) -> Task[..., Any]:
        def door(run: str, unit_key: str) -> str:
            folder = open_unit(run, unit_key)
            if ((folder.private if private else folder.path) / output).exists():
                return "already done"
            with timed(folder.run, unit_key, stage):
                return function(folder)

        door.__doc__ = function.__doc__
        return doorway(stage, stage + " {unit_key}", door)

    return decorate
