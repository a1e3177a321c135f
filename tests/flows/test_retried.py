"""A task that met an obstacle twice succeeds at the third attempt, and the run shows it; how often
it is tried is what the file of tasks says.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness import REPOSITORY, SMALL_OPTIONS, World, until


def test_the_run_shows_two_retries_and_ends_well(world: World, retried: Path) -> None:
    assert world.flow_run("retried")["state_type"] == "COMPLETED"
    until(
        lambda: all(task["state_name"] == "Completed" for task in world.task_runs("retried")),
        60,
        "the last states",
    )
    counts = {task["name"]: task["run_count"] for task in world.task_runs("retried")}
    assert counts.pop("validate breast_cancer") == 3
    assert set(counts.values()) == {1}
    validation = world.task_run("retried", "validate breast_cancer")
    states = [
        state["name"] for state in world.ask(f"task_run_states/?task_run_id={validation['id']}")
    ]
    assert states.count("AwaitingRetry") == 2 and states[-1] == "Completed"


@pytest.mark.exhaustive
def test_an_edit_of_a_task_s_retries_is_seen_in_a_run(world: World, tmp_path: Path) -> None:
    """In a copy of `tasks/`: of a task that a worker does, which never succeeds."""
    shutil.copytree(REPOSITORY / "tasks", tmp_path / "tasks")
    file = tmp_path / "tasks" / "stages.py"
    before, was = file.read_text(), '@task(task_run_name="validate {dataset}", retries=2,'
    assert before.count(was) == 1
    file.write_text(before.replace(was, was.replace("2", "1")))
    world.run("edited").mkdir(parents=True)
    (world.run("edited") / "validation").write_text("in the way")
    finished = world.dpicl(
        *("run", "demo", *SMALL_OPTIONS, "--methods", "ldp_tabicl", "--run-id", "edited"),
        *("--workers", "1"),
        PYTHONPATH=str(tmp_path),
        DASK_SCHEDULER_ADDRESS="",
    )
    assert finished.returncode and "validate: " in finished.stderr
    validation = world.task_run("edited", "validate breast_cancer")
    assert (validation["run_count"], validation["state_type"]) == (2, "FAILED")
