"""The embedded orchestrator and cluster, for machines where nobody has started any.

With `PREFECT_API_URL` and `DASK_SCHEDULER_ADDRESS` set, both are used as they are. Without,
one server process and one local cluster are started for the run and stopped after it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpicl.errors import RunError
from flows.embedded_server import embedded_server
from flows.environment import prepare_environment, variable

# The HTTP pages of the scheduler stay on this machine, at any free port.
LOCAL_CLUSTER: dict[str, Any] = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
    "silence_logs": logging.ERROR,
    "preload": ["tasks.preload"],
}


@contextmanager
def runtime(workers: int | None = None) -> Iterator[None]:
    """An orchestrator and a cluster for the flows inside; sets both environment variables."""
    prepare_environment()
    _check_named()
    # The server starts while the workers import what they need, and stops after their last log.
    with _orchestrator() as ready, _cluster(workers or os.cpu_count() or 1):
        ready()
        yield


@contextmanager
def _orchestrator() -> Iterator[Callable[[], None]]:
    """The named server, or one of our own; the function inside waits until it answers."""
    if os.environ.get("PREFECT_API_URL"):
        yield lambda: None
        return
    with embedded_server() as server:
        yield server.wait


def _check_named() -> None:
    """What the user names must answer, before anything of ours is started."""
    if os.environ.get("PREFECT_API_URL"):
        _check_server(os.environ["PREFECT_API_URL"])
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        _check_scheduler(os.environ["DASK_SCHEDULER_ADDRESS"])


def _check_server(url: str) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        if client.api_healthcheck() is not None:
            raise RunError(
                f"PREFECT_API_URL={url}: no server answers there; start one with `prefect server start`, or unset it to have one made"
            )


def _check_scheduler(address: str) -> None:
    from distributed import Client

    try:
        Client(address, timeout=5, set_as_default=False).close()
    except (OSError, ValueError):
        raise RunError(f"DASK_SCHEDULER_ADDRESS={address}: no scheduler answers there; start one, or unset it to have one made") from None


@contextmanager
def _cluster(workers: int) -> Iterator[None]:
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        yield
        return
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=workers, **LOCAL_CLUSTER) as cluster,
        variable("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address),
    ):
        yield
