"""Server, scheduler, two workers and the flow on five hosts that share a folder: a run there gives
what it gives on one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.test_interrupted import outcome
from tests.harness import DPICL, Place, differences, end, new_place, ran, until, well
from tests.infra.hosts import Host, linked
from tests.infra.parts import DASK, WORKER, certificates, started, wait_for

pytestmark = pytest.mark.exhaustive

HOSTS = ("server", "scheduler", "one", "two", "flow")
SECRET = "dpicl:of-this-test"
GRID = (
    "--model",
    "tiny",
    "--methods",
    "ldp_tabicl",
    "--epsilons",
    "1",
    "--shots",
    "1,2,4",
    "--seeds",
    "0",
)
NOTICED = "11s"
"""After so long without a word a host is given up; Dask takes nothing shorter."""
SERVER = ("-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--port", "4200")
ANSWERS = (
    "import ssl, sys, urllib.request as r; r.urlopen(sys.argv[1], "
    "context=ssl.create_default_context(cafile=sys.argv[2]), timeout=5)"
)
BUSY = """
import sys, time
from distributed import Client
with Client(sys.argv[1]) as client:
    while not any(tasks for worker, tasks in client.processing().items() if sys.argv[2] in worker):
        time.sleep(0.02)
"""


@dataclass(frozen=True)
class Spread:
    """An installation spread over hosts."""

    place: Place
    hosts: dict[str, Host]
    environment: dict[str, str]
    scheduler_log: Path

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A command on the flow's host."""
        words = self.hosts["flow"].command(*command)
        environment = {**self.place.environment, **self.environment}
        return subprocess.Popen(
            ["env", *(f"{name}={value}" for name, value in environment.items()), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.place.root,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> None:
        """Wait until it has ended well."""
        try:
            said, _ = process.communicate(timeout=300)
        finally:
            end(process)
        assert process.returncode == 0, said


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    """All parts over TLS, each on a host of its own, with one state folder."""
    place = new_place(tmp_path_factory.mktemp("spread") / "place")
    with ExitStack() as stack:
        hosts = stack.enter_context(linked(HOSTS))
        at = {name: host.address for name, host in hosts.items()}
        folder = place.root / "certificates"
        tls = certificates(folder, *at.values())
        url, address = f"https://{at['server']}:4200", f"tls://{at['scheduler']}:8786"
        shared = {
            **tls,
            "PREFECT_API_URL": f"{url}/api",
            "PREFECT_API_AUTH_STRING": SECRET,
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": NOTICED,
        }

        def run(name: str, *command: str, **extra: str) -> subprocess.Popen[str]:
            words = hosts[name].command(*command)
            return stack.enter_context(
                started(place, place.root / f"{name}.log", words, **shared, **extra)
            )

        keys = (
            "--ssl-certfile",
            str(folder / "server.pem"),
            "--ssl-keyfile",
            str(folder / "server.key"),
        )
        asked = {
            "PREFECT_SERVER_API_AUTH_STRING": SECRET,
            "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
        }
        server = run("server", sys.executable, *SERVER, "--host", at["server"], *keys, **asked)
        run(
            "scheduler",
            DASK,
            "scheduler",
            "--host",
            f"tls://{at['scheduler']}",
            "--port",
            "8786",
            "--dashboard-address",
            "127.0.0.1:0",
        )
        workers = {
            name: run(name, DASK, "worker", address, "--host", at[name], "--name", name, *WORKER)
            for name in ("one", "two")
        }
        for name, process in workers.items():
            wait_for(place.root / f"{name}.log", "Registered to", process)
        call = hosts["flow"].command(
            sys.executable, "-c", ANSWERS, f"{url}/api/health", str(folder / "server.pem")
        )
        until(
            lambda: server.poll() is not None or ran(call).returncode == 0,
            180,
            "the server",
            every=1,
        )
        assert server.poll() is None, (place.root / "server.log").read_text()
        yield Spread(
            place,
            hosts,
            {**shared, "DASK_SCHEDULER_ADDRESS": address},
            place.root / "scheduler.log",
        )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the same run gives on this machine alone."""
    place = new_place(tmp_path_factory.mktemp("alone") / "place")
    well(place.dpicl("run demo", *GRID, "--run-id", "alone", timeout=300))
    return outcome(place.run("alone"))


def test_five_hosts_give_what_one_gives(spread: Spread, alone: dict[str, bytes]) -> None:
    spread.finish(spread.start(str(DPICL), "run", "demo", *GRID, "--run-id", "spread"))
    assert differences(outcome(spread.place.run("spread")), alone) == []
    assert "Remove worker" not in spread.scheduler_log.read_text()


def test_a_worker_whose_link_is_cut_while_it_works_changes_no_result(
    spread: Spread, alone: dict[str, bytes]
) -> None:
    """The last test of the module: the host stays cut off."""
    lost = spread.hosts["two"].address
    watch = spread.start(
        sys.executable, "-c", BUSY, spread.environment["DASK_SCHEDULER_ADDRESS"], lost
    )
    running = spread.start(str(DPICL), "run", "demo", *GRID, "--run-id", "cut")
    try:
        spread.finish(watch)
        spread.hosts["two"].cut_off()
        # cut too late to be a test
        assert not (spread.place.run("cut") / "results.csv").exists()
    finally:
        spread.finish(running)
    assert f"Remove worker addr: tls://{lost}" in spread.scheduler_log.read_text()
    assert differences(outcome(spread.place.run("cut")), alone) == []
