"""The server and cluster that a run starts for itself: nobody else gets in, and nothing calls
outside.
"""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.tabicl import task_runner
from tests.doors import Door, family, open_doors, pages, read, refusal, status
from tests.harness import (
    DPICL,
    SMALL_OPTIONS,
    Place,
    World,
    complaint,
    end,
    install,
    new_place,
    shop,
    until,
)
from tests.leaks import files, hits
from tests.recording import calls_are_listed, listed

SET = ("DPICL_HOME", "DPICL_CONTRACTS", "DPICL_PIPELINES", "DPICL_DATA", "TMPDIR")
"""All that is set: what keeps telemetry quiet must be our own default."""


@dataclass(frozen=True)
class Embedded:
    """A run seen from outside while it worked, and what it left."""

    place: Place
    secret: str
    server: int
    doors: tuple[Door, ...]
    pages: dict[int, dict[str, int]]
    """Of every port that speaks HTTP: the status of some pages."""
    refusals: dict[int, tuple[str, str]]
    """Of every other port: what a caller without and one with a foreign certificate was told."""
    statuses: dict[str, int]
    command_lines: str
    threads: set[str]
    """Of BLAS and torch, in the process that workers are forked from."""
    said: str
    called: list[object]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """One run with all defaults, looked at in the middle."""
    place = new_place(
        tmp_path_factory.mktemp("embedded")
        / ("a temporary folder's path may be longer than a socket's " * 2).strip()
    )
    called = calls_are_listed(place.root / "watch")
    name = install(place, shop())
    arguments = (
        "run",
        "demo",
        "--datasets",
        name,
        *SMALL_OPTIONS[:-1],
        "0,1,2,3",
        "--workers",
        "2",
        "--run-id",
        "watched",
    )
    bare = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("DPICL_", "PREFECT_", "DASK_", "GX_", "HF_", "DO_NOT", "OMP_"))
    }
    environment = {
        **bare,
        **{key: place.environment[key] for key in SET},
        "PYTHONPATH": str(place.root / "watch"),
    }
    with (place.root / "said").open("w+") as said:
        process = subprocess.Popen(
            [DPICL, *arguments],
            env=environment,
            stdout=said,
            stderr=said,
            text=True,
            cwd=place.root,
            start_new_session=True,
        )
        try:
            until(
                lambda: any(place.run("watched").glob("units/*")) or process.poll() is not None,
                300,
                "the first unit",
            )
            assert process.poll() is None, (place.root / "said").read_text()
            seen = _looked_at(process.pid)
            # it ended too early to be looked at
            assert process.poll() is None
            assert process.wait(300) == 0, (place.root / "said").read_text()
        finally:
            end(process)
    yield Embedded(place, *seen, (place.root / "said").read_text(), listed(called))


def _looked_at(process: int) -> tuple[Any, ...]:
    pids = family(process)
    server = next(
        pid
        for pid in pids
        if "\0-m\0uvicorn" in read(pid, "cmdline") and "\0-c\0" not in read(pid, "cmdline")
    )
    secret = re.search("PREFECT_SERVER_API_AUTH_STRING=([^\0]+)", read(server, "environ"))
    assert secret
    doors = open_doors(pids)
    speaking = {door.port: found for door in doors if (found := pages(door.port))}
    silent = {
        door.port: (refusal(door.port), refusal(door.port, foreign=True))
        for door in doors
        if door.port not in speaking
    }
    port = next(door.port for door in doors if door.pid == server)
    statuses = {
        "nothing": status(port, "/api/admin/version"),
        "another secret": status(port, "/api/admin/version", None, "dpicl:other"),
        "no token": status(port, "/api/flows/filter", b"{}", secret[1]),
        "the secret": status(port, "/api/admin/version", None, secret[1]),
    }
    lines = "\n".join(read(int(path.name), "cmdline") for path in Path("/proc").glob("[0-9]*"))
    warm = [read(pid, "environ") for pid in pids if "forkserver" in read(pid, "cmdline")]
    threads = {
        found
        for environ in warm
        for found in re.findall("OMP_NUM_THREADS=([^\0]*)", environ) or ["as many as cores"]
    }
    return secret[1], port, doors, speaking, silent, statuses, lines, threads


@pytest.mark.exhaustive
def test_the_server_answers_nobody_without_the_secret_or_a_token(embedded: Embedded) -> None:
    assert embedded.statuses == {
        "nothing": 401,
        "another secret": 401,
        "no token": 403,
        "the secret": 200,
    }


@pytest.mark.exhaustive
def test_every_port_is_open_to_this_machine_only(embedded: Embedded) -> None:
    assert {door.host for door in embedded.doors} == {"127.0.0.1"}


@pytest.mark.exhaustive
def test_there_is_one_cluster_with_the_workers_that_were_asked_for(embedded: Embedded) -> None:
    """The flow once started another beside the runtime's, with as many workers as cores."""
    # server, scheduler, its pages, two workers with two each, their two nannies
    assert len(embedded.doors) == 9


@pytest.mark.exhaustive
def test_dask_shows_no_page_but_the_heartbeat(embedded: Embedded) -> None:
    shown = [found for port, found in embedded.pages.items() if port != embedded.server]
    assert shown and all(
        found == {"/health": 200, "/info/main/workers.html": 404, "/json/counts.json": 404}
        for found in shown
    ), shown


@pytest.mark.exhaustive
def test_dask_lets_nobody_in_without_its_certificate(embedded: Embedded) -> None:
    assert len(embedded.refusals) >= 3
    for without, foreign in embedded.refusals.values():
        assert "CERTIFICATE_REQUIRED" in without or "HANDSHAKE_FAILURE" in without, without
        assert (
            "UNKNOWN_CA" in foreign or "DECRYPT_ERROR" in foreign or "BAD_SIGNATURE" in foreign
        ), foreign


@pytest.mark.exhaustive
def test_the_secrets_are_in_no_file_no_word_and_no_list_of_processes(embedded: Embedded) -> None:
    left = {
        **files([embedded.place.root]),
        "said": embedded.said.encode(),
        "processes": embedded.command_lines.encode(),
    }
    assert "prefect.db" in str(left.keys()) and "uvicorn" in embedded.command_lines
    assert not hits(left, [embedded.secret, embedded.secret.removeprefix("dpicl:"), "PRIVATE KEY"])


@pytest.mark.exhaustive
def test_workers_do_not_share_a_core_between_threads_of_their_own(embedded: Embedded) -> None:
    """A demo took four times as long when each of two workers used both cores."""
    assert embedded.threads == {"1"}


@pytest.mark.exhaustive
def test_nothing_calls_outside(embedded: Embedded) -> None:
    hosts = {address[0] for address in embedded.called if isinstance(address, tuple)}
    assert hosts == {"127.0.0.1"}


def test_a_flow_that_starts_its_own_cluster_gets_a_locked_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `dpicl serve` does, where no scheduler is named."""
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    runner = task_runner()
    runner = type(runner)(cluster_class=runner.cluster_class, cluster_kwargs={"workers": 1})  # type: ignore[attr-defined, call-arg]
    with runner:
        client = runner.client  # type: ignore[attr-defined]
        assert client.scheduler.address.startswith("tls://127.0.0.1:")
        assert client.submit(abs, -3).result(60) == 3


class Locked(http.server.BaseHTTPRequestHandler):
    """A server that answers its health check, and nobody else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("/health") else 401)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.exhaustive
def test_a_named_server_s_secret_is_asked_for_in_one_sentence(world: World) -> None:
    """In the leak test it is given, and the runs go well."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/api"
        finished = world.dpicl(
            "run demo", *SMALL_OPTIONS, "--run-id", "locked-out", PREFECT_API_URL=url
        )
        server.shutdown()
    assert (
        complaint(finished)
        == f"PREFECT_API_URL={url}: the server answers 401; expected its secret in "
        f"PREFECT_API_AUTH_STRING"
    )
