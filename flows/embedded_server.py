"""A Prefect server for the length of one run, on this machine only, behind a secret of its own.

Prefect's own ephemeral server would be started by importing the whole server into this
process first; here it starts at once, and the imports of the run go on beside it.
"""

from __future__ import annotations

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

from dpicl.errors import RunError
from flows.environment import variable

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
