"""The embedded orchestrator and cluster, for machines where nobody has started any.

With `PREFECT_API_URL` and `DASK_SCHEDULER_ADDRESS` set, both are used as they are. Without,
one server process and one local cluster are started for the run and stopped after it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from dpicl.errors import RunError
from flows.environment import prepare_environment

DRAIN_SECONDS = 10
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
    with ExitStack() as stack:
        # The workers import what they need while the server starts.
        stack.enter_context(_cluster(workers or os.cpu_count() or 1))
        stack.enter_context(_orchestrator())
        yield


@contextmanager
def _orchestrator() -> Iterator[None]:
    if os.environ.get("PREFECT_API_URL"):
        yield
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_API_URL, temporary_settings

    server = SubprocessASGIServer()
    try:
        server.start(timeout=120)
    except Exception as error:
        raise RunError(f"the embedded Prefect server did not start ({type(error).__name__}); set PREFECT_API_URL to use your own") from None
    guard = _guard(server.server_process.pid) if server.server_process else None
    try:
        with temporary_settings({PREFECT_API_URL: server.api_url}), _variable("PREFECT_API_URL", server.api_url):
            yield
    finally:
        # What is still queued must leave first: at exit it would be retried against a dead server for a minute.
        APILogWorker.drain_all(timeout=DRAIN_SECONDS)
        EventsWorker.drain_all(timeout=DRAIN_SECONDS)
        if guard:
            guard.kill()
            guard.wait()
        server.stop()


def _guard(server: int) -> subprocess.Popen[bytes]:
    """A process that stops the server once this one is gone, even if it was killed."""
    script = f"import os, signal, sys; sys.stdin.read(); os.kill({server}, signal.SIGTERM)"
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603 - our own words


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
        _variable("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address),
    ):
        yield


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for the processes started inside."""
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
