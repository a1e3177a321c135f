"""Flow runs that ended long ago go from the orchestrator, with logs and artifacts; others of the
same server stay.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from dpicl.home.settings import Settings
from flows.maintenance import cleaned_daily
from tests.cli.conftest import Cli
from tests.harness import World, new_place, running_server, until

pytestmark = pytest.mark.exhaustive
LINES = 300


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server whose database lies in the state folder."""
    place = new_place(tmp_path_factory.mktemp("served") / "place")
    with running_server(place, PREFECT_HOME=str(place.home / "prefect")) as url:
        yield World(place.root, url, "")


def flow_run(world: World, flow: str, parameters: dict[str, Any], state: str = "COMPLETED") -> str:
    """A flow run that has ended in this moment, with a log and an artifact."""
    flow_id = world.ask("flows/", {"name": flow})["id"]
    run = world.ask(
        "flow_runs/", {"flow_id": flow_id, "parameters": parameters, "state": {"type": state}}
    )["id"]
    line = {
        "name": "x",
        "level": 20,
        "message": "a line " * 50,
        "timestamp": "2026-01-01T00:00:00Z",
        "flow_run_id": run,
    }
    world.ask("logs/", [line] * LINES)  # type: ignore[arg-type]
    world.ask(
        "artifacts/",
        {"key": "report", "type": "markdown", "data": "text" * 1000, "flow_run_id": run},
    )
    return str(run)


def left(world: World) -> tuple[set[str], int, int]:
    """Flow runs, their logs' lines and artifacts on the server."""
    runs = {run["id"] for run in world.ask("flow_runs/filter", {"limit": 200})}
    logs = len(world.ask("logs/filter", {"limit": 200}))
    return runs, logs, world.ask("artifacts/count", {})


def aged(world: World, *runs: str) -> None:
    """Let them have ended in 2020."""
    with (
        closing(sqlite3.connect(world.home / "prefect" / "prefect.db", timeout=30)) as connection,
        connection,
    ):
        changed = connection.executemany(
            "UPDATE flow_run SET end_time = '2020-01-01 00:00:00.000000' WHERE id = ?",
            [(run,) for run in runs],
        )
        assert changed.rowcount == len(runs)


def test_our_old_flow_runs_go_with_logs_and_artifacts_and_the_file_shrinks(
    served: World, cli: Cli
) -> None:
    old = [
        flow_run(served, "sweep", {"pipeline": "demo", "run_id": f"r{number}"})
        for number in range(12)
    ]
    new = flow_run(served, "sweep", {"pipeline": "demo", "changes": {}})
    running = flow_run(served, "sweep", {"pipeline": "demo"}, "RUNNING")
    others = [
        flow_run(served, "sweep", {"broom": 1}),
        flow_run(served, "theirs", {"pipeline": "demo"}),
    ]
    aged(served, *old, *others)
    with served.entered(DPICL_RUNS=str(served.root / "runs")):
        shown = json.loads(cli("state clean --dry-run --json"))
        assert shown["flow_runs"] == 12 and left(served)[0] == {*old, new, running, *others}
        assert "removed 12 flow runs of Prefect" in cli("state clean")
        assert left(served)[0] == {new, running, *others} and left(served)[2] == 4
        until(
            lambda: json.loads(cli("state clean --json"))["flow_runs"] == 0,
            10,
            "nothing to be left",
        )
    assert served.ask("flow_runs/filter", {"limit": 1})


def test_a_server_cleans_every_day(served: World) -> None:
    old = flow_run(served, "sweep", {"pipeline": "demo"})
    with (
        served.entered(DPICL_RUNS=str(served.root / "runs")),
        cleaned_daily(Settings.from_environment(), every=0.2),
    ):
        aged(served, old)
        until(lambda: old not in left(served)[0], 30, "an old flow run to go")
    again = flow_run(served, "sweep", {"pipeline": "demo"})
    aged(served, again)
    with served.entered(DPICL_KEEP="never"), cleaned_daily(Settings.from_environment(), every=0.2):
        assert again in left(served)[0]
