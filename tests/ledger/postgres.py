"""A real PostgreSQL for a test session: a server of its own on a free port.

PostgreSQL refuses to run as root, so root starts it as an unprivileged user.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.guard import stop_with_parent
from tests.harness import free_port, until

_USERS = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of PostgreSQL's newest server programs: Debian's places, then PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parent.parent.name),
    )
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def is_wanted() -> bool:
    """Whether its programs are here, or their lack is to be a failure."""
    return programs() is not None or os.environ.get("DPICL_REQUIRE_POSTGRES") == "1"


def required_programs() -> Path:
    """The folder of the programs, or skip the test; fail it where DPICL_REQUIRE_POSTGRES=1."""
    folder = programs()
    if folder is None:
        sentence = "no PostgreSQL server programs here; install Debian's package postgresql"
        if is_wanted():
            pytest.fail(sentence)
        pytest.skip(sentence)
    return folder


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    password: str
    host: str
    process: int = 0
    """Once it runs."""

    def url(self) -> str:
        """Address of its database."""
        return f"postgresql://dpicl:{self.password}@{self.host}:{self.port}/postgres"

    def execute(self, statement: str) -> None:
        """Run a statement outside of any transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def emptied(self) -> str:
        """Address of its one database for tests, with nothing in it; a new database for each would
        take longer.
        """
        self.execute("DROP SCHEMA public CASCADE")
        self.execute("CREATE SCHEMA public")
        return self.url()


def unprivileged() -> dict[str, Any]:
    """How to start a process that is not root."""
    if os.geteuid() != 0:
        return {}
    user = next(
        pwd.getpwnam(name) for name in _USERS if name in {entry.pw_name for entry in pwd.getpwall()}
    )
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def running_postgres(*, durable: bool = True, host: str = "127.0.0.1") -> Iterator[Server]:
    """A server with an empty database; stopped and removed at the end, and stopped with this
    process.

    Unless it shall be `durable` it does not wait for the disk; only a power cut could tell.
    """
    folder, who = required_programs(), unprivileged()
    home = Path(tempfile.mkdtemp(prefix="dpicl-postgres-", dir="/tmp"))
    server = Server(free_port(), secrets.token_hex(16), host)
    (home / "password").write_text(server.password)
    if who:
        for path in (home, home / "password"):
            os.chown(path, who["user"], who["group"])
    initdb = [
        folder / "initdb",
        "-D",
        home / "data",
        "-U",
        "dpicl",
        "--auth=scram-sha-256",
        f"--pwfile={home / 'password'}",
        "--no-sync",
    ]
    subprocess.run(initdb, check=True, capture_output=True, cwd=home, **who)
    with (home / "data" / "pg_hba.conf").open("a") as allowed:
        allowed.write("host all all samenet scram-sha-256\n")  # else this machine alone may call
    options = {
        "port": server.port,
        "listen_addresses": host,
        "unix_socket_directories": "",
        "max_connections": 200,
        "fsync": durable,
    }
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [folder / "postgres", "-D", home / "data", *settings],
            stdout=log,
            stderr=log,
            cwd=home,
            **who,
        )
    guard = stop_with_parent(process.pid)
    try:
        until(lambda: process.poll() is not None or _answers(server), 60, "PostgreSQL")
        assert process.poll() is None, (home / "log").read_text()
        yield replace(server, process=process.pid)
    finally:
        guard.kill()
        guard.wait()
        process.send_signal(signal.SIGQUIT)  # nothing in it is needed any more
        process.wait(60)
        shutil.rmtree(home)


def _answers(server: Server) -> bool:
    try:
        server.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
