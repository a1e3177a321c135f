"""A real PostgreSQL that holds the shop's rows, and a ledger, for one scenario."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

TABLE = (
    "CREATE TABLE customers (age integer, spent double precision, city text, member text,"
    " bought text)"
)
SECONDS = 60


def programs() -> Path | None:
    """The folder of the server's newest programs; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def running_postgres(rows: Path) -> Iterator[dict[str, str]]:
    """Environment variables that name the server's rows, those of a CSV file, and its ledger."""
    folder, who = programs(), _unprivileged()
    assert folder is not None
    home = Path(tempfile.mkdtemp(prefix="net-postgres-", dir="/tmp"))
    if who:
        os.chown(home, who["user"], who["group"])
    made = [folder / "initdb", "-D", home / "data", "-U", "net", "--auth=trust", "--no-sync"]
    subprocess.run(made, check=True, capture_output=True, cwd=home, **who)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
    started = [folder / "postgres", "-D", home / "data", "-c", "fsync=off"]
    started += [part for setting in settings for part in ("-c", setting)]
    url = f"postgresql://net@127.0.0.1:{port}/postgres"
    with (home / "log").open("w") as log:
        process = subprocess.Popen(started, stdout=log, stderr=log, cwd=home, **who)
    try:
        with _connected(url) as base, rows.open() as file:
            base.execute(TABLE)
            base.execute("CREATE DATABASE ledger")
            with base.cursor().copy("COPY customers FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(file.read())
        ledger = f"postgresql+psycopg://net@127.0.0.1:{port}/ledger"
        yield {"SHOP_DATABASE": url, "DPICL_LEDGER": ledger}
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(SECONDS)
        shutil.rmtree(home)


def _unprivileged() -> dict[str, Any]:
    """How to start a process that is not root, as the server refuses to be."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _connected(url: str) -> psycopg.Connection[Any]:
    """Once it answers."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
