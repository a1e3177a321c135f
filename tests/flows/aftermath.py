"""A place of its own where everything is recorded: what all flows leave behind there.

A server behind a secret, a cluster from the command line, a PostgreSQL ledger, and a proxy in
front of the server and of the scheduler.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.flows.planted import STAGES, contract, fault, table, texts
from tests.harness import (
    REPOSITORY,
    World,
    edited,
    free_port,
    install,
    install_texts,
    letters,
    new_place,
    process_group,
    ran,
    running_server,
    until,
    well,
)
from tests.leaks import api, files, stored_rows
from tests.ledger.postgres import running_postgres
from tests.library.text_contracts import lines, records
from tests.recording import Wire, calls_are_listed, listed, recorded

SPOILT = "canary-5b011ed0"
GRID = "--datasets canaries --epsilons 1,8 --shots 2,4 --seeds 0 --model fake"


@dataclass(frozen=True)
class Aftermath:
    """What is left when all is done."""

    world: World
    private: subprocess.CompletedProcess[str]
    outcomes: dict[str, str]
    left: dict[str, bytes]
    """Everything but the private folder, the keys and the data themselves."""
    wires: dict[str, bytes]
    called: list[object]
    """Every address that was called."""
    password: str


@contextmanager
def everything_done(root: Path) -> Iterator[Aftermath]:
    """Run every flow in a new place, and gather what it left."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(durable=False))
        place = new_place(root)
        called = calls_are_listed(root / "watch")
        extra = {
            "PYTHONPATH": f"{root / 'watch'}{os.pathsep}{REPOSITORY}",
            "DPICL_LEDGER": postgres.url(),
        }
        secret = f"dpicl:{secrets.token_urlsafe(24)}"
        wanted = {
            "PREFECT_SERVER_API_AUTH_STRING": secret,
            "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
        }
        url = stack.enter_context(running_server(place, **wanted, PYTHONPATH=extra["PYTHONPATH"]))
        server = stack.enter_context(recorded(urlsplit(url).port or 0))
        world = World(root, f"http://127.0.0.1:{server.port}", "", secret)
        scheduler = stack.enter_context(_cluster(world, extra))
        world = World(root, world.url, f"tcp://127.0.0.1:{scheduler.port}", secret)
        _install(world)
        private = world.dpicl(f"run private {GRID} --run-id canaries-private", timeout=300, **extra)
        done = _all_flows(world, extra)
        until(lambda: b"categories" in api(world)["logs"], 30, "the last logs")
        said = {
            "private": f"{private.stdout}{private.stderr}".encode(),
            "done": f"{done.stdout}{done.stderr}".encode(),
        }
        left = {**_files(world), **api(world), **said, "ledger": stored_rows(postgres.url())}
        wires = {**server.content, **scheduler.content}
        yield Aftermath(
            world,
            private,
            json.loads(done.stdout.splitlines()[-1]),
            left,
            wires,
            listed(called),
            postgres.password,
        )


def _install(world: World) -> None:
    """Tables with canaries; on those that are private no pipeline runs central baselines."""
    with edited(world.root / "pipelines.yaml") as pipelines:
        pipelines["pipelines"]["gdp-tabicl"]["baselines"] = False
    for name in ("canaries", *map(fault, STAGES)):
        install(world, contract(name, private=True), table())
    folder = world.root / "contracts" / "expectations"
    own = [
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": name, "min_value": 0}}
        for name in ("age", "colour")
    ]
    (folder / "canaries.own.json").write_text(json.dumps({"expectations": own[:1]}))
    lengths = {
        "type": "expect_column_value_lengths_to_be_between",
        "kwargs": {"column": "text", "min_value": 1},
    }
    (folder / "letters.own.json").write_text(json.dumps({"expectations": [lengths]}))
    install(world, contract("raising", private=True), table())
    (folder / "raising.own.json").write_text(json.dumps({"expectations": own}))
    for name in ("doomed", fault("baselines")):
        install(world, contract(name, private=False), table())
    install(world, contract("spoilt", private=True), table(spoilt=SPOILT))
    install(world, contract("outside", private=True, largest=10**14), table())
    for name in ("letters", fault("generate"), fault("consult")):
        install_texts(world, letters(name, private=True), texts(), lines(records(4)))


@contextmanager
def _cluster(world: World, extra: dict[str, str]) -> Iterator[Wire]:
    """Scheduler and workers as an administrator starts them, their words in files; gives the
    scheduler's recorded port.
    """
    port, dask = free_port(), str(Path(sys.executable).with_name("dask"))
    environment = {**os.environ, **world.environment, **extra}
    log = world.root / "scheduler.log"
    with ExitStack() as stack:

        def start(log: Path, line: str) -> None:
            command = [dask, *line.split(), *["--host", "127.0.0.1", "--no-dashboard"]]
            stack.enter_context(process_group(command, log, environment, world.root))

        start(log, f"scheduler --port {port}")
        wire = stack.enter_context(recorded(port))
        until(lambda: b"Scheduler at" in log.read_bytes(), 60, "the scheduler")
        preloads = "--preload tasks.preload --preload tests.flows.planted"
        workers = f"--nworkers 2 --nthreads 1 --local-directory {world.root}/dask {preloads}"
        start(world.root / "workers.log", f"worker tcp://127.0.0.1:{wire.port} {workers}")
        until(lambda: log.read_bytes().count(b"Register worker") >= 2, 60, "the workers")
        yield wire


def _all_flows(world: World, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.flows.all_flows"]
    environment = {**os.environ, **world.environment, **extra}
    return well(ran(command, env=environment, cwd=world.root, timeout=500))


def _files(world: World) -> dict[str, bytes]:
    apart = ("data", "home", "private", "keys")
    folders = [
        path for path in (*world.root.iterdir(), *world.home.iterdir()) if path.name not in apart
    ]
    alone = {str(path): path.read_bytes() for path in folders if path.is_file()}
    return {**files(path for path in folders if path.is_dir()), **alone}
