"""The embedded orchestrator and cluster, for machines where none is running.

With `PREFECT_API_URL` and `DASK_SCHEDULER_ADDRESS` set, both are used as they are. Without,
one server process and one local cluster are started for the run and stopped after it.

A client of a Dask scheduler runs code as its owner, so the cluster demands a certificate of every
client; it is made for this run and written to no file.

A Prefect server for the length of one run, on this machine only, behind a secret of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpicl.ground.errors import RunError
from dpicl.ground.processes import OWN_GROUP, fork_server
from flows.environment import SERVER, prepare_environment, variable

if TYPE_CHECKING:
    from distributed import LocalCluster


# The HTTP pages of the scheduler stay on this machine, at any free port.
LOCAL_CLUSTER: dict[str, Any] = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
    "silence_logs": logging.ERROR,
    "preload": ["tasks.preload"],
    "memory_limit": None,
}
"""No limit of memory: by default each worker may use one core's share of it, and is ended when it
loads a model of more. What fits is checked before.
"""


@contextmanager
def runtime(workers: int | None = None) -> Iterator[None]:
    """An orchestrator and a cluster for the flows inside; sets both environment variables."""
    prepare_environment()
    check_named()
    # Server, workers and this process import what they need beside each other; the server stops
    # after the workers' last log.
    with ExitStack() as stack:
        server = (
            None if os.environ.get("PREFECT_API_URL") else stack.enter_context(embedded_server())
        )
        _start_fork_server()  # its imports take longest
        if server is not None:
            stack.enter_context(known_to_prefect())
        import flows.executor  # noqa: F401 - not `flows.tabicl`, which looks for the cluster

        stack.enter_context(_cluster(workers))
        if server is not None:
            server.wait()
        yield


def check_named() -> None:
    """What the user names must answer, before anything of ours is started.

    Raises:
        RunError: it does not, or wants a secret or certificate.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        import httpx
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            if client.api_healthcheck() is not None:
                raise RunError(
                    f"PREFECT_API_URL={url}: no server answers there; start one with `{SERVER}`, "
                    f"or unset the variable in the environment of this command to have one made"
                )
            try:
                client.read_flows(limit=1)  # the health check needs no secret
            except httpx.HTTPStatusError as error:
                raise RunError(
                    f"PREFECT_API_URL={url}: the server answers {error.response.status_code}; "
                    f"expected its secret in PREFECT_API_AUTH_STRING"
                ) from None
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        _check_scheduler(os.environ["DASK_SCHEDULER_ADDRESS"])


def _check_scheduler(address: str) -> None:
    """Call it as a client would; a client that gets no answer would go on trying to close
    itself.
    """
    from distributed.core import rpc
    from distributed.security import Security

    async def call() -> None:
        async with rpc(
            address, timeout=5, connection_args=Security().get_connection_args("client")
        ) as scheduler:
            await scheduler.identity()

    named = f"DASK_SCHEDULER_ADDRESS={address}"
    try:
        asyncio.run(call())
    except (OSError, ValueError):
        refused = (
            ", or it refuses the certificate of Dask's settings distributed.comm.tls"
            if address.startswith("tls:")
            else ""
        )
        raise RunError(
            f"{named}: no scheduler answers there{refused}; start one, or unset it to have one made"
        ) from None
    except TypeError:  # what Dask says where a certificate is needed and none is named
        raise RunError(
            f"{named}: needs a certificate; expected Dask's settings distributed.comm.tls"
        ) from None
    except RuntimeError:  # what Dask says of an address without TLS where its settings ask for it
        raise RunError(
            f"{named}: expected tls://…, as Dask's setting distributed.comm.require-encryption is "
            f"on"
        ) from None


@contextmanager
def _cluster(workers: int | None) -> Iterator[None]:
    """The cluster that is named, or a local one, with what a client that knows only its address
    needs besides.
    """
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        yield
        return
    import dask

    with local_cluster(workers) as cluster:
        tls = cluster.security.get_tls_config_for_role("client")
        settings = {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": tls["ca_file"],
            "distributed.comm.tls.client.cert": tls["cert"],
            "distributed.comm.tls.client.key": tls["key"],
        }
        with (
            dask.config.set(settings),
            variable("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address),
        ):
            yield


def local_cluster(workers: int | None = None) -> LocalCluster:
    """Worker processes on this machine, one per core if not said, at least one per GPU, behind a
    certificate of their own.
    """
    from distributed import LocalCluster

    from dpicl.ground.processes import gpus_here
    from flows.executor import LocalWorker

    _start_fork_server()
    return LocalCluster(
        n_workers=max(workers or os.cpu_count() or 1, len(gpus_here())),
        security=True,
        worker_class=LocalWorker,
        **LOCAL_CLUSTER,
    )


def _start_fork_server() -> None:
    """Let one process import, from now on, what all workers need: they are its forks, with its
    environment.

    Dask's settings for new workers (one thread each for BLAS and torch) must be there when they are
    imported.
    """
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        return
    import dask
    from distributed.utils import get_mp_context

    if get_mp_context().get_start_method() != "forkserver":
        return
    with ExitStack() as stack:
        for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
            if name not in os.environ:
                stack.enter_context(variable(name, str(value)))
        fork_server([OWN_GROUP, "tasks.warm", "prefect_dask"])


START_SECONDS = 120
DRAIN_SECONDS = 10
_SERVER_SETTINGS = {
    "PREFECT_SERVER_UI_ENABLED": "false",
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
}
_GUARD = """
import subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def stop():
    sys.stdin.read()
    server.terminate()
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
threading.Thread(target=stop, daemon=True).start()
sys.exit(server.wait())
"""
"""It starts the server, so that there is none without it, at whatever moment this process goes."""
_SERVE = (
    "-m",
    "uvicorn",
    "--factory",
    "prefect.server.api.server:create_app",
    "--host",
    "127.0.0.1",
    "--log-level",
    "error",
)


@dataclass(frozen=True)
class EmbeddedServer:
    """A server that has been started and may not answer yet."""

    guard: subprocess.Popen[bytes]
    """Ends as the server does, and ends it as soon as nobody holds its standard input."""
    api_url: str

    def wait(self) -> None:
        """Until the server answers.

        Raises:
            RunError: it ended, or took too long.
        """
        until = time.monotonic() + START_SECONDS
        while self.guard.poll() is None and time.monotonic() <= until:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"{self.api_url}/health", timeout=5) as answer,  # noqa: S310
            ):
                if answer.status == 200:
                    return
            time.sleep(0.1)
        raise RunError(
            "the embedded Prefect server did not start; set PREFECT_API_URL to use your own"
        )

    def stop(self) -> None:
        """End the server, by force if it lingers."""
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        self.guard.wait()


@contextmanager
def embedded_server() -> Iterator[EmbeddedServer]:
    """Start a server; inside, `PREFECT_API_URL` and the secret that opens it are set for all
    children.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    secret = f"dpicl:{secrets.token_urlsafe(32)}"
    api_url = f"http://127.0.0.1:{port}/api"
    with ExitStack() as stack:
        # Set first: every client process that is started from here on inherits the secret, the
        # server demands it.
        stack.enter_context(variable("PREFECT_SERVER_API_AUTH_STRING", secret))
        stack.enter_context(variable("PREFECT_API_AUTH_STRING", secret))
        # In a session of its own: a signal to the run's group ends the run first, which then has
        # nobody to tell so if the server is gone.
        started = {**os.environ, **_SERVER_SETTINGS}
        command = [sys.executable, "-c", _GUARD, sys.executable, *_SERVE, "--port", str(port)]
        guard = subprocess.Popen(  # noqa: S603
            command, env=started, stdin=subprocess.PIPE, start_new_session=True
        )
        server = EmbeddedServer(guard, api_url)
        stack.callback(server.stop)
        stack.enter_context(variable("PREFECT_API_URL", api_url))
        yield server


@contextmanager
def known_to_prefect() -> Iterator[None]:
    """Let the Prefect of this process go by the server of `embedded_server`, also where it is
    imported already.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    settings = {
        PREFECT_API_URL: os.environ["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: os.environ["PREFECT_API_AUTH_STRING"],
    }
    with ExitStack() as stack, temporary_settings(settings):
        # What is still queued must leave first: at exit it would be retried against a dead server
        # for a minute.
        stack.callback(EventsWorker.drain_all, timeout=DRAIN_SECONDS)
        stack.callback(APILogWorker.drain_all, timeout=DRAIN_SECONDS)
        yield
