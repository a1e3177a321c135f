"""`dpicl serve` registers every pipeline with its schedule, runs what is due, and stops when told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.harness import World, end, until

EVERY_MINUTE = {
    "title": "Both methods, every minute",
    "methods": ["ldp_tabicl", "gdp_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1],
    "shots": [2],
    "model": "fake",
    "schedule": {"cron": "* * * * *", "timezone": "Europe/Paris"},
}


@pytest.fixture(scope="module")
def declared(world: World) -> dict[str, Any]:
    """The shipped pipelines and one that is due every minute."""
    content: dict[str, Any] = yaml.safe_load((world.root / "pipelines.yaml").read_text())
    content["pipelines"]["every-minute"] = EVERY_MINUTE
    (world.root / "served.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return dict(content["pipelines"])


@pytest.fixture(scope="module")
def serving(world: World, declared: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own."""
    process = world.start("serve", DPICL_PIPELINES=str(world.root / "served.yaml"))
    yield process
    end(process)


def deployments(world: World) -> dict[str, dict[str, Any]]:
    """Deployments of the server by name."""
    return {found["name"]: found for found in world.ask("deployments/filter", {"limit": 100})}


def test_every_pipeline_is_a_deployment_with_its_schedule(world: World, declared: dict[str, Any], serving: subprocess.Popen[str]) -> None:
    until(lambda: set(declared) <= set(deployments(world)), 60, "the deployments")
    for name, pipeline in declared.items():
        found = deployments(world)[name]
        assert found["parameters"] == {"pipeline": name} and found["description"] == pipeline["title"] and not found["paused"]
        schedules = [(item["schedule"]["cron"], item["schedule"]["timezone"]) for item in found["schedules"] if item["active"]]
        wanted = pipeline.get("schedule")
        assert schedules == ([(wanted["cron"], wanted["timezone"])] if wanted else [])


def test_a_run_that_is_due_is_done(world: World, serving: subprocess.Popen[str]) -> None:
    until(lambda: list((world.home / "runs").glob("every-minute-*/report.html")), 90, "the scheduled run", every=0.5)
    (run, *_) = (world.home / "runs").glob("every-minute-*")
    assert json.loads((run / "manifest.json").read_text())["pipeline"] == "every-minute"
    assert len(list(run.glob("units/*/results.json"))) == 2


def test_serve_stops_when_interrupted_and_pauses_its_schedules(world: World, serving: subprocess.Popen[str]) -> None:
    os.kill(serving.pid, signal.SIGINT)
    _, err = serving.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert serving.returncode == 0
    assert all(found["paused"] for found in deployments(world).values())
