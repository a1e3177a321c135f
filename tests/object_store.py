"""An S3 store for tests: moto's server, a process that is stopped at the end."""

from __future__ import annotations

import importlib.util
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.guard import stop_with_parent
from tests.harness import free_port, until


@dataclass(frozen=True)
class Store:
    """A running server."""

    address: str
    process: int


@contextmanager
def running_store(host: str = "127.0.0.1", certificates: Path | None = None) -> Iterator[Store]:
    """An empty store; over TLS where there is a folder of certificates. Objects lie in files
    of TMPDIR. Skips where no server is installed.
    """
    if not importlib.util.find_spec("moto") or not importlib.util.find_spec("flask_cors"):
        pytest.skip(
            "no S3 server here; install moto, flask and flask-cors, which `dpicl[dev]` names"
        )
    address = f"http{'s' * bool(certificates)}://{host}:{(port := free_port())}"
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    if certificates is not None:
        command += ["-s", "-c", str(certificates / "server.pem")]
        command += ["-k", str(certificates / "server.key")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": "1"},
    )
    guard = stop_with_parent(process.pid)
    try:
        until(
            lambda: process.poll() is not None or _answers(f"{address}/moto-api/", certificates),
            120,
            "the S3 server",
        )
        yield Store(address, process.pid)
    finally:
        guard.kill()
        guard.wait()
        process.kill()
        process.wait()


def _answers(url: str, certificates: Path | None) -> bool:
    context = certificates and ssl.create_default_context(cafile=certificates / "server.pem")
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
