"""The stages of a run in a process that dies before or after one step of the release protocol."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpicl.ledger import Ledger
from tests.tasks.stages import work

STEPS = ("reserve", "draft", "publish", "rename")
Death = tuple[str, int, str]
"""(step, how many of them are let through, `before` or `after`)."""


def dying(function: Callable[..., Any], death: Death) -> Callable[..., Any]:
    """The function, in a process that dies before or after one of its calls."""
    left = [death[1]]

    def deadly(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0 and death[2] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = function(*arguments, **options)
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return deadly


def _arm(death: Death) -> None:
    step = death[0]
    if step in ("reserve", "publish"):
        setattr(Ledger, step, dying(getattr(Ledger, step), death))
    elif step == "draft":
        import dpicl.release.releases

        dpicl.release.releases.publish = dying(dpicl.release.releases.publish, death)
    else:
        Path.replace = dying(Path.replace, death)  # type: ignore[method-assign]


def attempt(
    environment: Mapping[str, str], changes: Mapping[str, Any], run_id: str, death: Death | None
) -> None:
    """One try at the run, which may die on the way."""
    os.environ.update(environment)
    if death is not None:
        _arm(death)
    work(environment, "private", changes, run_id, "finished")


def start(*arguments: Any) -> Any:
    """`attempt` in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=attempt, args=arguments)
    process.start()
    return process


def join(process: Any) -> int:
    """Its exit code."""
    process.join(90)
    # the stages hang
    assert process.exitcode is not None
    return int(process.exitcode)
