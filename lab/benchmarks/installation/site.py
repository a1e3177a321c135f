"""An installation of real processes that may be killed: database, Prefect server, cluster,
endpoint, `dpicl serve`.

A supervisor starts again whatever has died, as systemd or Kubernetes would.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests.harness import DPICL, Place, free_port, new_place, until
from tests.ledger.postgres import required_programs, unprivileged

RESTART_SECONDS = 2.0
BIN = Path(sys.executable).parent


@dataclass
class Part:
    """One process of the site: how it is started, and the one that runs now."""

    command: list[str]
    environment: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self, log: Path) -> None:
        """Begin a process that is the head of its own group."""
        self.starts += 1
        with log.open("ab") as file:
            own: dict[str, Any] = {
                "env": dict(self.environment),
                "stdout": file,
                "stderr": file,
                "start_new_session": True,
            }
            self.process = subprocess.Popen(self.command, **own, **self.options)

    def kill(self) -> None:
        """End the whole group at once."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Site:
    """A place with its processes by name."""

    place: Place
    environment: dict[str, str]
    api_url: str
    ledger_url: str
    parts: dict[str, Part]
    stopping: threading.Event = field(default_factory=threading.Event)

    def start(self, *names: str) -> None:
        """Start parts in this order and, once started, keep them up."""
        for name in names:
            self.parts[name].start(self.place.root / f"{name}.log")

    def supervise(self) -> None:
        """Start again, until the site stops, what was started once and is gone."""
        while not self.stopping.wait(RESTART_SECONDS):
            for name, part in self.parts.items():
                if part.process is not None and part.process.poll() is not None:
                    part.start(self.place.root / f"{name}.log")

    def flow_processes(self) -> list[int]:
        """Processes that work on scheduled runs now."""
        found, mark = [], f"DPICL_HOME={self.place.home}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_engine = b"prefect.engine" in (path / "cmdline").read_bytes()
                if is_engine and mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request to the Prefect server."""
        secret = base64.b64encode(self.environment["PREFECT_API_AUTH_STRING"].encode()).decode()
        headers = {"Content-Type": "application/json", "Authorization": f"Basic {secret}"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.api_url}/{path}", data, headers), timeout=30
        ) as answer:
            return json.loads(answer.read() or "null")


@contextmanager
def running_site(
    root: Path,
    pipelines: Mapping[str, Any],
    models: Mapping[str, Any],
    prepare: Callable[[Place], None],
) -> Iterator[Site]:
    """Everything up, one process each; stopped and looked after at the end. `prepare` installs
    data.
    """
    site = _site(new_place(root), pipelines, models)
    prepare(site.place)
    guard = threading.Thread(target=site.supervise, daemon=True)
    try:
        _make_database(site)
        site.start("postgres")
        until(lambda: _answers(site.ledger_url), 60, "PostgreSQL", every=0.2)
        with psycopg.connect(site.ledger_url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE prefect")
        site.start("server", "scheduler", "endpoint")
        until(lambda: _is_healthy(site), 180, "the Prefect server", every=0.5)
        site.start("worker-0", "worker-1", "serve")
        until(lambda: len(_deployments(site)) == len(pipelines), 180, "the deployments", every=0.5)
        guard.start()
        yield site
    finally:
        site.stopping.set()
        if guard.is_alive():
            guard.join()
        for part in reversed(site.parts.values()):
            part.kill()
        for pid in site.flow_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(_database_home(site), ignore_errors=True)


def _site(place: Place, pipelines: Mapping[str, Any], models: Mapping[str, Any]) -> Site:
    port = {name: free_port() for name in ("postgres", "server", "scheduler", "endpoint")}
    password, secret = secrets.token_hex(16), f"dpicl:{secrets.token_hex(16)}"
    database = f"dpicl:{password}@127.0.0.1:{port['postgres']}"
    api = f"http://127.0.0.1:{port['server']}/api"
    file = place.root / "pipelines.yaml"
    known = {
        name: {
            **entry,
            **(
                {"url": f"http://127.0.0.1:{port['endpoint']}/v1"}
                if entry["kind"] == "endpoint"
                else {}
            ),
        }
        for name, entry in models.items()
    }
    # no aliases
    content = json.loads(json.dumps({"version": 1, "models": known, "pipelines": dict(pipelines)}))
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    environment = {
        **os.environ,
        **place.environment,
        "DPICL_PIPELINES": str(file),
        "DPICL_LEDGER": f"postgresql+psycopg://{database}/postgres",
        "PREFECT_API_URL": api,
        "PREFECT_API_AUTH_STRING": secret,
        "DASK_SCHEDULER_ADDRESS": f"tcp://127.0.0.1:{port['scheduler']}",
        "OMP_NUM_THREADS": "1",
    }
    server = {
        **environment,
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://{database}/prefect",
    }
    dask = [str(BIN / "dask")]
    worker = [
        *dask,
        "worker",
        environment["DASK_SCHEDULER_ADDRESS"],
        "--nthreads",
        "1",
        "--no-dashboard",
        "--preload",
        "tasks.preload",
    ]
    parts = {
        "postgres": Part([], environment),
        "server": Part(
            [
                str(BIN / "prefect"),
                "server",
                "start",
                "--host",
                "127.0.0.1",
                "--port",
                str(port["server"]),
            ],
            server,
        ),
        "scheduler": Part(
            [
                *dask,
                "scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                str(port["scheduler"]),
                "--no-dashboard",
            ],
            environment,
        ),
        "endpoint": Part(
            [
                sys.executable,
                "-m",
                "lab.benchmarks.installation.faulty_endpoint",
                str(port["endpoint"]),
            ],
            environment,
        ),
        "worker-0": Part([*worker, "--name", "0"], environment),
        "worker-1": Part([*worker, "--name", "1"], environment),
        "serve": Part([str(DPICL), "serve"], environment),
    }
    site = Site(place, environment, api, f"postgresql://{database}/postgres", parts)
    parts["postgres"].command = _postgres(site, port["postgres"])
    return site


def _database_home(site: Site) -> Path:
    """Where another user may enter, named after the drill's own folder."""
    return Path("/tmp") / f"dpicl-site-{site.place.root.parent.name}"


def _postgres(site: Site, port: int) -> list[str]:
    folder = required_programs()
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": 200,
    }
    return [
        str(folder / "postgres"),
        "-D",
        str(_database_home(site) / "data"),
        *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
    ]


def _make_database(site: Site) -> None:
    who, home = unprivileged(), _database_home(site)
    home.mkdir()
    password = home / "password"
    password.write_text(site.ledger_url.partition("dpicl:")[2].partition("@")[0])
    for path in (home, password):
        os.chown(path, who.get("user", -1), who.get("group", -1))
    folder = required_programs()
    initdb = [
        str(folder / "initdb"),
        "-D",
        str(home / "data"),
        "-U",
        "dpicl",
        "--auth=scram-sha-256",
        f"--pwfile={password}",
    ]
    subprocess.run(initdb, check=True, capture_output=True, cwd=home, **who)
    site.parts["postgres"].options = {"cwd": home, **who}


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _is_healthy(site: Site) -> bool:
    with suppress(OSError):
        return bool(site.ask("health"))
    return False


def _deployments(site: Site) -> list[Any]:
    with suppress(OSError):
        return list(site.ask("deployments/filter", {}))
    return []
