"""A worker whose scheduler is gone without a word waits for it; one that is sent away ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen

import pytest
from distributed import Client

from tests.harness import Place, free_port, new_place, until
from tests.infra.parts import DASK, WORKER, started, wait_for


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path / "place")


@pytest.fixture
def port() -> int:
    return free_port()


def scheduler(place: Place, port: int, log: str) -> AbstractContextManager[Popen[str]]:
    words = [DASK, "scheduler", "--host", "tcp://127.0.0.1", "--port", str(port)]
    return started(place, place.root / log, [*words, "--dashboard-address", "127.0.0.1:0"])


@pytest.fixture
def worker(place: Place, port: int) -> Iterator[Popen[str]]:
    words = [DASK, "worker", f"tcp://127.0.0.1:{port}", "--host", "127.0.0.1", *WORKER]
    with started(place, place.root / "worker.log", words) as process:
        yield process


def test_a_worker_comes_back_to_a_scheduler_that_is_started_again(
    place: Place, port: int, worker: Popen[str]
) -> None:
    with scheduler(place, port, "first.log") as first:
        wait_for(place.root / "worker.log", "Registered to", worker)
        with Client(f"tcp://127.0.0.1:{port}", set_as_default=False) as client:
            # answers when the nanny is up: until then the loss is a failed start, which ends it
            assert len(client.run(os.getpid, nanny=True)) == 1
        first.kill()
        first.wait()
    with scheduler(place, port, "second.log") as second:
        wait_for(place.root / "second.log", "Register worker", second)
    assert worker.poll() is None


def test_a_worker_ends_with_its_scheduler(place: Place, port: int, worker: Popen[str]) -> None:
    with scheduler(place, port, "only.log") as only:
        wait_for(place.root / "worker.log", "Registered to", worker)
        only.send_signal(signal.SIGTERM)
        until(lambda: worker.poll() is not None, 60, "the worker's end", every=0.2)
