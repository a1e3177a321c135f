"""Whatever is killed, the run ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dpicl.home.settings import Settings
from dpicl.runs.artefacts import WRITING
from dpicl.runs.evaluate import PARTS
from dpicl.runs.run_folder import SPENDING, read_plan
from flows.executor import run_name
from flows.maintenance import end_killed
from tests.harness import (
    SMALL,
    World,
    content,
    differences,
    end,
    grid_of,
    running_cluster,
    talk,
    until,
)

pytestmark = pytest.mark.exhaustive
MANY = {**SMALL, "seeds": [0, 1, 2]}
SLOW = grid_of("breast_cancer", "ldp_tabicl", model="tiny", shots=[1, 2, 4])
"""Six cells and more, each of them scored in a noticeable time."""


def options(changes: dict[str, Any]) -> list[str]:
    """A grid as options of the command line."""
    parts = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in changes.items()
    }
    return [word for name, value in parts.items() for word in (f"--{name}", value)]


def outcome(run: Path) -> dict[str, bytes]:
    """What a run gives: all but its name, dates, times, how far it is, and whether it or an earlier
    run was charged.
    """
    # a page of expectations names its run
    apart = ("plan.json", "manifest.json", "report.", "timings", "expectations/", f"{WRITING}/")
    return {
        name: data
        for name, data in content(run).items()
        if not name.startswith(apart) and Path(name).name != SPENDING
    }


@pytest.fixture(scope="module")
def expected(world: World) -> dict[str, dict[str, bytes]]:
    """Outcomes of runs that were left alone."""
    return {
        name: outcome(world.sweep(f"alone-{name}", changes))
        for name, changes in (("many", MANY), ("slow", SLOW))
    }


def private_modes(world: World, run_id: str) -> set[int]:
    """Modes of a run's private files and of all folders above them."""
    folders = [path for path in (world.home / "private").glob(f"*/{run_id}") if path.is_dir()]
    paths = {
        path
        for folder in folders
        for path in (folder, folder.parent, folder.parent.parent, *folder.rglob("*"))
    }
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


def killed(
    world: World, run_id: str, changes: dict[str, Any], sign: str, **extra: str
) -> dict[str, bytes]:
    """Kill the command line's process as soon as a file matches; gives what stood there."""
    process = world.start("run demo", *options(changes), "--run-id", run_id, **extra)
    try:
        until(
            lambda: any(world.run(run_id).glob(sign)) or process.poll() is not None,
            120,
            sign,
            every=0.002,
        )
        os.kill(process.pid, signal.SIGKILL)
    finally:
        end(process)
    assert process.returncode == -signal.SIGKILL
    # killed too late to be a test
    assert not (world.run(run_id) / "results.csv").exists()
    return outcome(world.run(run_id))


def states(world: World, run_id: str) -> list[str]:
    """Of all flow runs of a run."""
    wanted = {"flow_runs": {"name": {"like_": run_id}}}
    return sorted(flow_run["state_type"] for flow_run in world.ask("flow_runs/filter", wanted))


def test_a_run_that_goes_on_elsewhere_is_left_running(world: World) -> None:
    """Its process holds its lock."""
    with under_way(world, "twin", "units/*/scored/[0-9]*.npz"):
        with world.entered():
            end_killed(run_name(read_plan(world.run("twin"))), uuid4(), Settings.current())
        assert states(world, "twin") == ["RUNNING"]
    assert states(world, "twin") == ["COMPLETED"]


def test_a_run_killed_after_its_first_release_is_resumed_with_that_release(
    world: World, expected: dict[str, Any]
) -> None:
    before = killed(world, "killed-first", MANY, "units/*/released_*")
    assert any("released" in name for name in before)
    assert private_modes(world, "killed-first") == {0o600, 0o700}
    world.sweep("killed-first", {}, resume=True)
    assert states(world, "killed-first") == ["COMPLETED", "CRASHED"]
    assert private_modes(world, "killed-first") == set()
    after = outcome(world.run("killed-first"))
    assert before.items() <= after.items()
    assert after == expected["many"]


def test_a_run_killed_with_its_own_server_and_cluster_is_resumed_from_the_command_line(
    world: World, expected: dict[str, Any]
) -> None:
    """Nothing that it had started outlives it."""
    alone = {"PREFECT_API_URL": "", "DASK_SCHEDULER_ADDRESS": ""}
    before = killed(world, "killed-slow", SLOW, "units/*/scored/[0-9]*.npz", **alone)
    scored = [[name for name in files if "scored" in name] for files in (before, expected["slow"])]
    assert 1 <= len(scored[0]) < len(scored[1])
    until(lambda: not processes_of(world.run("killed-slow"), alone), 20, "the orphans' end")
    finished = world.dpicl("run --resume killed-slow")
    assert finished.returncode == 0 and not talk(finished.stderr), finished.stderr
    assert differences(outcome(world.run("killed-slow")), expected["slow"]) == []
    assert before.items() <= expected["slow"].items()


def processes_of(run: Path, environment: dict[str, str]) -> list[str]:
    """Processes that work in this place without the session's server."""
    wanted = {
        f"DPICL_HOME={run.parent.parent}",
        *(f"{name}={value}" for name, value in environment.items()),
    }
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            has = set((path / "environ").read_text(errors="replace").split("\0"))
            if wanted <= has:
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_resuming_a_finished_run_changes_nothing_but_its_report(
    world: World, expected: dict[str, Any]
) -> None:
    run = world.run("alone-many")
    times = {path: path.stat().st_mtime_ns for path in run.glob("units/*/*.*")}
    world.sweep("alone-many", {}, resume=True)
    assert differences(outcome(run), expected["many"]) == []
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert {task["name"].split()[0] for task in world.task_runs("alone-many")} == {
        "collect",
        "report",
        "show",
    }


@contextmanager
def under_way(world: World, run_id: str, sign: str) -> Iterator[None]:
    """A slow run in a thread, from the moment that a file matches until it ends."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            world.sweep(run_id, SLOW)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    until(
        lambda: any(world.run(run_id).glob(sign)) or not thread.is_alive(), 120, sign, every=0.002
    )
    yield
    thread.join(180)
    assert not thread.is_alive() and not problems, problems


@pytest.fixture(scope="module")
def mortal_cluster(world: World) -> Iterator[Any]:
    """A cluster whose workers may be killed."""
    with running_cluster(world) as cluster:
        yield cluster


@pytest.mark.parametrize(("failures", "run_id"), [(3, "worker-dies"), (0, "worker-dies-for-good")])
def test_a_killed_worker_changes_no_result(
    world: World, mortal_cluster: Any, expected: dict[str, Any], failures: int, run_id: str
) -> None:
    """First Dask itself tries again; where it gives up at once, the flow hands the unit in
    again.
    """
    mortal_cluster.scheduler.allowed_failures = failures
    own = World(world.root, world.url, mortal_cluster.scheduler_address)
    with under_way(own, run_id, "units/*/scored/[0-9]*.npz"):
        busy = [
            worker.pid for worker in mortal_cluster.scheduler.workers.values() if worker.processing
        ]
        assert busy and not (world.run(run_id) / "results.csv").exists()
        for pid in busy:
            os.kill(pid, signal.SIGKILL)
    assert differences(outcome(world.run(run_id)), expected["slow"]) == []
    scored = [task for task in world.task_runs(run_id) if task["name"].startswith("score")]
    assert (len(scored) > PARTS) == (failures == 0)
