"""A stage that met an obstacle twice succeeds at the third attempt, and the run shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flows.conftest import RETRIED
from tests.harness import World


def test_the_run_shows_two_retries_and_ends_well(world: World, retried: Path) -> None:
    assert world.flow_run("retried")["state_type"] == "COMPLETED"
    counts = {task["name"]: task["run_count"] for task in world.task_runs("retried")}
    assert counts.pop("validate breast_cancer") == 3
    assert set(counts.values()) == {1}
    (validation,) = [
        task for task in world.task_runs("retried") if task["name"] == "validate breast_cancer"
    ]
    states = [
        state["name"] for state in world.ask(f"task_run_states/?task_run_id={validation['id']}")
    ]
    assert states.count("AwaitingRetry") == 2 and states[-1] == "Completed"


@pytest.mark.exhaustive
def test_its_results_are_those_of_a_run_without_obstacles(world: World, retried: Path) -> None:
    smooth = world.sweep("smooth", RETRIED)
    assert (retried / "results.csv").read_bytes() == (smooth / "results.csv").read_bytes()
    assert json.loads((retried / "validation" / "breast_cancer.json").read_text())
