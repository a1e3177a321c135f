"""The session's installation for tests of this folder, and one run that met an obstacle."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.stages import TASKS
from tests.cli.conftest import cli
from tests.harness import SMALL, World, place, until, world

__all__ = ["RETRIED", "cli", "place", "retried", "world"]

RETRIED = {**SMALL, "methods": ["ldp_tabicl"]}


@pytest.fixture(scope="session")
def retried(world: World) -> Path:
    """A run whose validation found a file in the way of its folder, twice; gives its folder."""
    run = world.run("retried")
    obstacle = run / "validation"
    run.mkdir(parents=True)
    obstacle.write_text("in the way")
    sweeping = threading.Thread(target=world.sweep, args=("retried", RETRIED))

    def failed_twice() -> bool:
        validations = [task for task in _tasks(world) if task["name"].startswith("validate")]
        return any(
            task["run_count"] == 2 and task["state_name"] == "AwaitingRetry" for task in validations
        )

    with pytest.MonkeyPatch.context() as patch:
        # long enough for a busy server to tell that it failed
        slow = TASKS["validate"].with_options(retry_delay_seconds=[1, 12])
        patch.setitem(TASKS, "validate", slow)
        sweeping.start()
        until(failed_twice, 60, "two failures")
        obstacle.unlink()
        sweeping.join(120)
    return run


def _tasks(world: World) -> list[dict[str, object]]:
    try:
        return world.task_runs("retried")
    except StopIteration:  # the flow run is not there yet
        return []
