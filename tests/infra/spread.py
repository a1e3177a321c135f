"""An installation spread over hosts, over TLS, as the recipe by hand starts it: server, scheduler,
flow and workers.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness import Place, end, ran, until
from tests.infra.hosts import Host
from tests.infra.parts import DASK, WORKER, certificates, started, wait_for

SECRET = "dpicl:of-this-test"
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
COUNT = """
import sys
from distributed import Client
with Client(sys.argv[1]) as client:
    print(len(client.scheduler_info(n_workers=-1)["workers"]))
"""


@dataclass(frozen=True)
class Spread:
    """Server and scheduler of an installation, which run."""

    place: Place
    hosts: Mapping[str, Host]
    """By what is on them: `server`, `scheduler`, `flow`; others are for workers."""
    environment: Mapping[str, str]
    """What every process of it needs besides the place's."""
    certificates: Path
    scheduler_log: Path
    processes: Mapping[str, int]
    """Of server and scheduler."""

    @contextmanager
    def worker(self, name: str) -> Iterator[subprocess.Popen[str]]:
        """A worker that has registered, on the host of its name."""
        log, host = self.place.root / f"{name}.log", self.hosts[name]
        address = self.environment["DASK_SCHEDULER_ADDRESS"]
        words = host.command(
            DASK, "worker", address, "--host", host.address, "--name", name, *WORKER
        )
        with started(self.place, log, words, **self.environment) as process:
            wait_for(log, "Registered to", process)
            yield process

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

    def finish(self, process: subprocess.Popen[str], seconds: float = 300) -> str:
        """Wait until it has ended well; what it said."""
        try:
            said, _ = process.communicate(timeout=seconds)
        finally:
            end(process)
        assert process.returncode == 0, said
        return said

    def until_busy(self, worker: str) -> subprocess.Popen[str]:
        """A command that ends once a worker has something to do."""
        scheduler = self.environment["DASK_SCHEDULER_ADDRESS"]
        return self.start(sys.executable, "-c", BUSY, scheduler, self.hosts[worker].address)

    def workers(self) -> int:
        """How many the scheduler has."""
        scheduler = self.environment["DASK_SCHEDULER_ADDRESS"]
        return int(self.finish(self.start(sys.executable, "-c", COUNT, scheduler)).split()[-1])


@contextmanager
def spread_over(place: Place, hosts: Mapping[str, Host], **extra: str) -> Iterator[Spread]:
    """Server and scheduler that answer, each on the host of its name; `extra` is added to the
    environment of all.
    """
    folder = place.root / "certificates"
    tls = certificates(folder, *{host.address for host in hosts.values()})
    at = {name: host.address for name, host in hosts.items()}
    url, address = f"https://{at['server']}:4200", f"tls://{at['scheduler']}:8786"
    environment = {
        **tls,
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_API_AUTH_STRING": SECRET,
        **extra,
    }
    with ExitStack() as stack:

        def run(name: str, *command: str, **more: str) -> subprocess.Popen[str]:
            log, words = place.root / f"{name}.log", hosts[name].command(*command)
            return stack.enter_context(started(place, log, words, **environment, **more))

        server = run(
            "server",
            sys.executable,
            *SERVER,
            "--host",
            at["server"],
            "--ssl-certfile",
            str(folder / "server.pem"),
            "--ssl-keyfile",
            str(folder / "server.key"),
            PREFECT_SERVER_API_AUTH_STRING=SECRET,
            PREFECT_SERVER_CSRF_PROTECTION_ENABLED="true",
        )
        scheduler = run(
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
        wait_for(place.root / "scheduler.log", "Scheduler at:", scheduler)
        yield Spread(
            place,
            hosts,
            {**environment, "DASK_SCHEDULER_ADDRESS": address},
            folder,
            place.root / "scheduler.log",
            {"server": server.pid, "scheduler": scheduler.pid},
        )
