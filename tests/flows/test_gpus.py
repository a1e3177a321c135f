"""Several GPUs: one worker each, and scoring goes to these workers; the rest of the run does not
wait for them.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import psutil
import pytest
from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from dpicl.ground.processes import VISIBLE, gpus_here
from flows.executor import GPU, LocalWorker
from flows.runtime import local_cluster
from tests.harness import SMALL, World, running_cluster


class _Seen(SchedulerPlugin):
    """Which worker did what: all tasks, and those that asked for a GPU."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.done: list[tuple[object, bool]] = []

    def transition(
        self, key: Any, start: Any, finish: Any, *_: Any, worker: str = "", **__: Any
    ) -> None:
        if finish == "memory":
            wanted = self._scheduler.tasks[key].resource_restrictions
            self.done.append((self._scheduler.workers[worker].name, bool(wanted)))


@pytest.mark.exhaustive
def test_scoring_goes_to_the_workers_that_own_a_gpu(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "3,5")
    with running_cluster(world, workers=3, worker_class=LocalWorker) as cluster:
        with Client(cluster) as client:
            devices = client.run(os.getenv, VISIBLE)
            owned = {
                worker.name: dict(worker.resources) for worker in cluster.scheduler.workers.values()
            }
        seen = _Seen(cluster.scheduler)
        cluster.scheduler.add_plugin(seen)
        World(world.root, world.url, cluster.scheduler_address).sweep("on-gpus", SMALL)
    assert sorted(devices.values()) == ["", "3", "5"]
    assert owned == {0: {GPU: 1}, 1: {GPU: 1}, 2: {}}
    assert {name for name, asked in seen.done if asked} == {0, 1}
    # baselines wait for nobody
    assert not all(asked for _, asked in seen.done)


def test_devices_are_those_that_may_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "")
    assert gpus_here() == []
    monkeypatch.setenv(VISIBLE, "GPU-8f1, 2")
    assert gpus_here() == ["GPU-8f1", "2"]


@pytest.mark.exhaustive
def test_a_worker_may_load_whatever_the_machine_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VISIBLE, "")
    with local_cluster(16) as cluster, Client(cluster) as client:
        share = psutil.virtual_memory().total // 16
        held = client.submit(_held, share + share // 4, pure=False)
        assert held.result(timeout=180) > share


@pytest.mark.exhaustive
def test_a_worker_here_tells_nothing_of_a_scheduler_that_has_ended(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with local_cluster(1) as cluster, Client(cluster) as client:
        assert client.submit(_late, pure=False).result(timeout=120) == "distributed.worker"
    assert "Failed to communicate" not in capfd.readouterr().err


def _late() -> str:
    logger = logging.getLogger("distributed.worker")
    logger.error("Failed to communicate with scheduler during heartbeat.", exc_info=OSError())
    return logger.name


def _held(size: int) -> int:
    """Memory of this process while it holds so many bytes, long enough for whoever watches it."""
    block = bytearray(b"1") * size
    time.sleep(2)
    return len(block)
