"""A large table on a cluster: the same run as stage after stage in one process, whoever is killed
on the way.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dpicl.data.reading.files import WHOLE_ROWS
from tests.harness import (
    Place,
    World,
    content,
    grid_of,
    install,
    new_place,
    publish,
    running_cluster,
    shop,
    until,
)
from tests.library.examples import random_table, small_contract
from tests.tasks.stages import in_process

ROWS = WHOLE_ROWS + 70_000
WAYS = {"ldp_tabicl": {"design": "subset", "estimator": "log-linear"}}
GRID = grid_of("big", shots=[8], baselines=False, options=WAYS)


def install_big(place: Place) -> None:
    contract = shop("big", split={"test_fraction": 0.001, "query_fraction": 0.1}, population=ROWS)
    del contract["source"]["file"]
    install(place, {**contract, "source": {**contract["source"], "folder": "big"}}, "")
    (place.root / "data" / "big").mkdir()
    table = random_table(small_contract(), ROWS, 0)
    for number, start in enumerate(range(0, ROWS, 200_000)):
        pq.write_table(
            table.slice(start, 200_000),
            place.root / "data" / "big" / f"{number}.parquet",
            row_group_size=30_000,
        )
    publish(place, "big")


def released(run: Path) -> dict[str, bytes]:
    """What the units of a run released and answered."""
    return {
        name: data
        for name, data in content(run / "units").items()
        if not name.endswith("releases.json") and "scored" not in name
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """In one process, without orchestrator or cluster."""
    place = new_place(tmp_path_factory.mktemp("alone") / "place")
    install_big(place)
    assert in_process(place.environment, "demo", GRID, "r", "finished") == 0
    return released(place.run("r"))


def kill_busy(cluster: Any, world: World, sign: str) -> int:
    """Kill the workers that are at it when a private file appears; how many."""
    private = world.home / "private" / "big" / "killed"
    until(lambda: any(private.glob(sign)), 120, sign, every=0.002)
    busy = [worker.pid for worker in cluster.scheduler.workers.values() if worker.processing]
    for pid in busy:
        os.kill(pid, signal.SIGKILL)
    return len(busy)


@pytest.mark.exhaustive
def test_workers_killed_while_they_prepare_and_count_change_nothing(
    world: World, expected: dict[str, bytes]
) -> None:
    """Dask gives up at once: the flow hands the parts in again, and what is done is not done
    again.
    """
    install_big(world)
    with running_cluster(world) as cluster:
        cluster.scheduler.allowed_failures = 0
        own, problems = World(world.root, world.url, cluster.scheduler_address), []

        def work() -> None:
            try:
                own.sweep("killed", GRID)
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=work)
        thread.start()
        killed = [
            kill_busy(cluster, own, sign) for sign in ("batches/facts-*.json", "*/counts/*.npz")
        ]
        thread.join(240)
        assert not thread.is_alive() and not problems, problems
    assert sum(killed) > 0
    assert released(world.run("killed")) == expected
    assert not list((world.home / "private" / "big").rglob("*.*"))
    names = [task["name"] for task in world.task_runs("killed")]
    parts = [name for name in names if name.startswith(("prepare", "count"))]
    # some were handed in again
    assert len(parts) > 15
