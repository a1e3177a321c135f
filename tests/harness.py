"""One installation for a whole test session: state, contracts, a Prefect server with its pages, a
cluster.

Real parts, started once and stopped at the end. A test that wants to break one starts its own.
"""

from __future__ import annotations

import base64
import csv
import json
import logging
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import cycle
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from os.path import commonprefix
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.ground.errors import DpiclError
from dpicl.home.accounts import open_ledger
from dpicl.home.benchmarks import declare, read_content
from dpicl.home.settings import Settings
from dpicl.ledger import Entry
from dpicl.report import report_steps
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.plan import make_plan
from flows.runtime import LOCAL_CLUSTER
from tests.command import run_forked
from tests.guard import stop_with_parent
from tests.library.examples import random_table, small_contract, tree
from tests.library.text_contracts import ENSEMBLE, lines, records, text_tree

REPOSITORY = Path(__file__).parent.parent
DPICL = Path(sys.executable).with_name("dpicl")
REAL_DATA = Path(os.environ.get("DPICL_DATA") or REPOSITORY.parent / "shared" / "data")
SMALL = {"model": "fake", "epsilons": ["1", "inf"], "shots": [1, 2], "seeds": [0]}
"""A grid of two units and a few cells each, answered by hashes: seconds."""
SMALL_OPTIONS = ("--model", "fake", "--epsilons", "1,inf", "--shots", "1,2", "--seeds", "0")

PRELOAD = ["tests.tasks.forked"]
"""What children of a test process are forked with; they would otherwise import everything each
time, a hundred times over.
"""

_QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "dpicl",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
}


@dataclass(frozen=True)
class Place:
    """Folders of one installation, and the environment that points there."""

    root: Path

    @property
    def home(self) -> Path:
        """State: runs, private files, models."""
        return self.root / "home"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to work here; names no server and no cluster."""
        return {
            **_QUIET,
            "DPICL_HOME": str(self.home),
            "DPICL_RUNS": str(self.home / "runs"),
            "DPICL_CONTRACTS": str(self.root / "contracts"),
            "DPICL_PIPELINES": str(self.root / "pipelines.yaml"),
            "DPICL_DATA": str(self.root / "data"),
            "PREFECT_HOME": str(self.root / "prefect"),
            "DASK_TEMPORARY_DIRECTORY": str(self.root / "dask"),
            "TMPDIR": str(self.root / "tmp"),
            "XDG_CONFIG_HOME": str(self.root / "settings"),
        }

    def run(self, run_id: str) -> Path:
        """Folder of a run."""
        return self.home / "runs" / run_id

    def start(
        self, line: str = "", *arguments: str, file_limit: int | None = None, **extra: str
    ) -> subprocess.Popen[str]:
        """The command line as a process group of its own: a line, split as a shell splits it, and
        what is not split; files may be limited in size.
        """
        limited = [] if file_limit is None else ["prlimit", f"--fsize={file_limit}", "--"]
        return subprocess.Popen(
            [*limited, str(DPICL), *shlex.split(line), *arguments],
            env={**_bare_environment(), **self.environment, **extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            start_new_session=True,
        )

    def dpicl(
        self,
        line: str = "",
        *arguments: str,
        timeout: float = 120,
        file_limit: int | None = None,
        **extra: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line as `start` does, to its end; in a process of its own where files are
        limited, or what is imported depends on it.
        """
        is_read_at_import = any(
            name in ("PYTHONPATH", "COLUMNS") or name.startswith("PREFECT_") for name in extra
        )
        words = (*shlex.split(line), *arguments)
        if file_limit is None and not is_read_at_import:
            environment = {**_bare_environment(), **self.environment, **extra}
            return run_forked(words, environment, self.root, timeout)
        process = self.start(line, *arguments, file_limit=file_limit, **extra)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            end(process)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    @contextmanager
    def entered(self, **extra: str) -> Iterator[None]:
        """Work here inside this process."""
        before = dict(os.environ)
        os.environ.update({**self.environment, **extra})
        try:
            with Settings.from_environment().entered():
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def new_place(root: Path) -> Place:
    """An installation of its own: shipped contracts and pipelines, a model `fake`, and what tests
    run.

    Pipeline `shipped-demo` is the demo as shipped, `demo` one that needs no index and no minutes,
    and `private` the same without baselines and schedule.
    """
    place = Place(root)
    for folder in (place.home, root / "data", root / "prefect", root / "dask", root / "tmp"):
        folder.mkdir(parents=True)
    shutil.copytree(REPOSITORY / "data_contracts", root / "contracts")
    (root / "pipelines.yaml").write_text(_pipelines())
    return place


_DEMO = {
    "title": "Both methods on real clinical data, in a few minutes on a laptop",
    "model": "bundled",
    "methods": ["ldp_tabicl", "gdp_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1, 5, 10, 50, "inf"],
    "shots": [2, 8],
    "seeds": [0, 1],
    "draws": 1,
}


@cache
def _pipelines() -> str:
    pipelines = yaml.safe_load((REPOSITORY / "pipelines.yaml").read_text())
    pipelines["models"]["fake"] = {"kind": "fake"}
    shipped = pipelines["pipelines"]
    shipped["shipped-demo"] = {**deepcopy(shipped["demo"]), "schedule": None}
    shipped["demo"] = {
        **{key: shipped["demo"][key] for key in ("group", "takes", "needs", "schedule")},
        **_DEMO,
    }
    pipelines["pipelines"]["private"] = {
        **deepcopy(pipelines["pipelines"]["demo"]),
        "baselines": False,
        "schedule": None,
    }
    return yaml.safe_dump(pipelines, sort_keys=False)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A fresh installation that the test works in; import this fixture in a folder's conftest."""
    place = new_place(tmp_path / "place")
    with place.entered():
        yield place


def grid_of(dataset: str, *methods: str, **changes: Any) -> dict[str, Any]:
    """Options of a small run on one data set: one seed, epsilon 1, two shots, a model that answers
    by hashes.
    """
    plain = {"epsilons": ["1"], "shots": [2], "seeds": [0], "model": "fake"}
    named = {"methods": [*methods]} if methods else {}
    return {"datasets": [dataset], **named, **plain, **changes}


def run_here(run_id: str, pipeline: str = "demo", **changes: Any) -> Path:
    """Run a pipeline in this process, in the place that was entered, with no orchestrator."""
    run = make_plan(pipeline, changes, run_id)
    run_units(run, InProcess(), report_steps(run))
    return run


def charged(*accounts: str) -> list[Entry]:
    """What these accounts were charged for in the place that was entered, or all of its accounts;
    the whole ledger is verified on the way.
    """
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        known = [account.name for account in ledger.accounts()]
        return [
            entry for name in accounts or known if name in known for entry in ledger.entries(name)
        ]


@contextmanager
def edited(path: Path) -> Iterator[dict[str, Any]]:
    """The content of a file of YAML, which is written again afterwards."""
    content = yaml.safe_load(path.read_text())
    yield content
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def publish(place: Place, name: str, **extra: str) -> None:
    """Declare what a benchmark's rows are now, as `dpicl data publish NAME --yes` does; rows that
    break their contract cannot be.
    """
    with Place.entered(place, **extra), suppress(DpiclError):
        settings = Settings.from_environment()
        declare(name, read_content(settings.declared(name), settings), settings)


def install(place: Place, contract: Mapping[str, Any], csv_text: str | None = None) -> str:
    """Add a data set: its contract and its rows, else sixty made-up ones, published if it is a
    benchmark; gives its name.
    """
    csv_text = shop_rows(60) if csv_text is None else csv_text
    name = str(contract["name"])
    (place.root / "contracts" / f"{name}.yaml").write_text(
        yaml.safe_dump(dict(contract), sort_keys=False)
    )
    (place.root / "data" / f"{name}.csv").write_text(csv_text)
    if "queries" in contract:
        (place.root / "data" / contract["queries"]["file"]).write_text(shop_rows(12, seed=99))
    if csv_text:  # else its rows are elsewhere, and not there yet
        publish(place, name)
    return name


def shop(name: str = "shop", *, private: bool = False, **changes: Any) -> dict[str, Any]:
    """The small contract of `tests.library.examples` under another name."""
    content = {**tree(), "name": name, **changes}
    content["source"] = {**content["source"], "file": f"{name}.csv"}
    if private:
        # Replace-one, so that clients may report too: their number is public then.
        content["privacy"] = {
            **content["privacy"],
            "neighbours": "replace-one",
            "budget": {"epsilon": 1000},
        }
        content["queries"] = {"file": f"{name}_queries.csv"}
        del content["split"]
    return content


def shop_rows(row_count: int, seed: int = 0) -> str:
    """Made-up rows of the small contract as CSV, numbers with one decimal."""
    table = random_table(small_contract(), row_count, seed).to_pandas()
    return str(table.round(1).to_csv(index=False))


def letters(name: str = "letters", *, private: bool = False, **changes: Any) -> dict[str, Any]:
    """The small contract over texts of `tests.library.text_contracts`, of which three tokens are
    written.
    """
    content = {**text_tree(), "name": name, **changes}
    content["source"] |= {part: {"file": f"{name}/{part}.jsonl"} for part in ("train", "test")}
    content["generation"] |= {"max_tokens": 3}
    content.setdefault("ensemble", ENSEMBLE)
    if private:
        content["privacy"] = {**content["privacy"], "budget": {"epsilon": 1000, "delta": 0.05}}
        content["source"]["queries"] = content["source"].pop("test")
    return content


def install_texts(
    place: Place,
    contract: Mapping[str, Any],
    train: bytes | None = None,
    test: bytes | None = None,
) -> str:
    """Add a set of texts: its contract and its records as JSON lines, else forty and four made-up
    ones, published if it is a benchmark; gives its name.
    """
    name = str(contract["name"])
    train = lines(records(40)) if train is None else train
    test = lines(records(4)) if test is None else test
    (place.root / "contracts" / "texts" / f"{name}.yaml").write_text(
        yaml.safe_dump(dict(contract), sort_keys=False)
    )
    (place.root / "data" / name).mkdir(exist_ok=True)
    for part, content in (("train", train), ("test", test)):
        (place.root / "data" / name / f"{part}.jsonl").write_bytes(content)
    publish(place, name)
    return name


def _bare_environment() -> dict[str, str]:
    """The test process's environment without what would point a child elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DPICL_", "PREFECT_", "DASK_"))
    }


@dataclass(frozen=True)
class World(Place):
    """A place with a running server and cluster; the server may want a secret, and keep its runs in
    PostgreSQL.
    """

    url: str
    scheduler: str
    secret: str = ""
    database: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """As a place's, with server and cluster."""
        named = {"PREFECT_API_URL": self.api_url, "DASK_SCHEDULER_ADDRESS": self.scheduler}
        return {
            **super().environment,
            **named,
            **({"PREFECT_API_AUTH_STRING": self.secret} if self.secret else {}),
        }

    @property
    def api_url(self) -> str:
        """The server's API."""
        return f"{self.url}/api"

    @contextmanager
    def entered(self, **extra: str) -> Iterator[None]:
        """Work here inside this process, Prefect included."""
        from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

        settings: dict[Any, Any] = {
            PREFECT_API_URL: self.api_url,
            PREFECT_HOME: self.root / "prefect",
        }
        with super().entered(**extra), temporary_settings(settings):
            yield

    def sweep(
        self,
        run_id: str,
        changes: Mapping[str, Any] = SMALL,
        *,
        pipeline: str = "demo",
        resume: bool = False,
    ) -> Path:
        """Run a pipeline in this process, on the session's server and cluster."""
        from prefect_dask import DaskTaskRunner

        from flows.tabicl import sweep

        with self.entered():
            sweep.with_options(task_runner=DaskTaskRunner(address=self.scheduler))(
                pipeline, dict(changes), run_id, resume
            )
        return self.run(run_id)

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request to the server's API; POST with a body, else GET."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.api_url}/{path}", data, {"Content-Type": "application/json", **self._passport()}
        )
        for wait in (0.5, 2.0, 8.0, None):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read() or "null")
            except urllib.error.HTTPError as error:
                # a busy database, which Prefect's own client waits for too
                if error.code != 503 or wait is None:
                    raise
                time.sleep(wait)
        return None

    def _passport(self) -> dict[str, str]:
        """What a server with a secret and protection against cross-site requests wants to see."""
        if not self.secret:
            return {}
        who = {"Authorization": f"Basic {base64.b64encode(self.secret.encode()).decode()}"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.api_url}/csrf-token?client=tests", headers=who),
            timeout=30,
        ) as answer:
            return {
                **who,
                "Prefect-Csrf-Client": "tests",
                "Prefect-Csrf-Token": json.loads(answer.read())["token"],
            }

    def flow_run(self, run_id: str) -> dict[str, Any]:
        """The newest flow run whose parameters name the run."""
        runs = self.ask("flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 200})
        return next(run for run in runs if run["parameters"].get("run_id") == run_id)

    def events(self, event: str, resource: str) -> list[dict[str, Any]]:
        """The server's events of this name about this resource."""
        asked = {"event": {"name": [event]}, "resource": {"id": [resource]}}
        return list(self.ask("events/filter", {"filter": asked})["events"])

    def task_run(self, run_id: str, name: str) -> dict[str, Any]:
        """The task run of this name."""
        (found,) = (task for task in self.task_runs(run_id) if task["name"] == name)
        return found

    def task_runs(self, run_id: str) -> list[dict[str, Any]]:
        """Task runs of the newest flow run of a run."""
        flow_run = self.flow_run(run_id)["id"]
        return list(
            self.ask("task_runs/filter", {"flow_runs": {"id": {"any_": [flow_run]}}, "limit": 200})
        )


def last_written(folder: Path) -> dict[Path, int]:
    """When a folder and what is in it was last changed, two levels deep; nothing where there is
    none.
    """
    return {
        path: path.lstat().st_mtime_ns
        for path in (folder, *folder.glob("*"), *folder.glob("*/*"))
        if path.exists()
    }


_PORTS = cycle([*range(20_000 + os.getpid() * 101 % 12_000, 32_000), *range(20_000, 32_000)])
"""From another place in each process, below those that Linux gives to whoever asks for any: one of
these may be gone by the time of its use.
"""


def free_port() -> int:
    """A port that nobody uses now."""
    for port in _PORTS:
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("never ends")


def until(
    condition: Callable[[], object], seconds: float, what: str, *, every: float = 0.05
) -> None:
    """Wait for a condition, or fail saying what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(every)


def answers(url: str) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def end(process: subprocess.Popen[str]) -> None:
    """Stop a process group that this test session started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def process_group(
    command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """A program in a process group of its own, its words in a file; ended with all that it started,
    and with this process.
    """
    with log.open("w") as said:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=said,
            stderr=said,
            text=True,
            cwd=folder,
            start_new_session=True,
        )
    guard = stop_with_parent(process.pid)
    try:
        yield process
    finally:
        guard.kill()
        guard.wait()
        end(process)


@contextmanager
def running_server(place: Place, **extra: str) -> Iterator[str]:
    """A Prefect server with its pages on a free port; gives its address."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    options = f"server start --host 127.0.0.1 --port {port}"
    command = [str(DPICL.with_name("prefect")), *options.split()]
    pages = {"PREFECT_SERVER_UI_API_URL": f"{url}/api"}
    environment = {**_bare_environment(), **place.environment, **pages, **extra}
    with process_group(command, place.root / "server.log", environment, place.root):
        until(lambda: answers(f"{url}/api/health"), 120, "the Prefect server")
        yield url


def forked(target: Callable[..., object], *arguments: Any) -> BaseProcess:
    """A function at work in a fork of a process that has imported what is needed."""
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    process.start()
    return process


def exit_code(process: BaseProcess, seconds: float = 90) -> int:
    """How a process ended; fails if it does not."""
    process.join(seconds)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


def ran(
    command: Sequence[object], *, timeout: float = 120, **how: Any
) -> subprocess.CompletedProcess[str]:
    """A program that has ended, well or not, and what it said."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=timeout, **how
    )


def python(code: str, *arguments: object, folder: Path | None = None) -> str:
    """The last line that a program prints, run by a Python of its own."""
    return well(ran([sys.executable, "-c", code, *arguments], cwd=folder)).stdout.splitlines()[-1]


@contextmanager
def running_cluster(place: Place, *, workers: int = 2, **more: Any) -> Iterator[Any]:
    """A Dask cluster of processes that work in the place; gives the cluster."""
    import dask
    from distributed import LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # every connection would be told
    # the fork server reads its settings once; the cluster would start it with imports of its own
    with place.entered():
        multiprocessing.get_context("forkserver").set_forkserver_preload(
            ["tasks.warm", "prefect_dask", *PRELOAD]
        )
        forkserver.ensure_running()
    own = {
        "temporary-directory": str(place.root / "dask"),
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with (
        dask.config.set(own),
        LocalCluster(n_workers=workers, env=place.environment, **LOCAL_CLUSTER, **more) as cluster,
    ):
        yield cluster


class _Session:
    """What is started once: fixtures in several folders share it."""

    def __init__(self, config: pytest.Config, root: Path) -> None:
        self._config, self._root = config, root

    def _enter(self, manager: Any) -> Any:
        value = manager.__enter__()
        self._config.add_cleanup(lambda: manager.__exit__(None, None, None))
        return value

    @cached_property
    def world(self) -> World:
        """Server and cluster over one place."""
        place, database = new_place(self._root), self._database
        kept = (
            {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database.replace("://", "+asyncpg://", 1)}
            if database
            else {}
        )
        url = self._enter(running_server(place, **kept))
        cluster = self._enter(running_cluster(place))
        return World(self._root, url, cluster.scheduler_address, database=database)

    @cached_property
    def _database(self) -> str:
        """Address of a PostgreSQL, as installations have it; none where its programs are not, since
        most tests do not mind.
        """
        # it takes functions of this module
        from tests.ledger.postgres import is_wanted, running_postgres

        return str(self._enter(running_postgres(durable=False)).url()) if is_wanted() else ""


_sessions: dict[pytest.Config, _Session] = {}


@pytest.fixture(scope="session")
def world(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The session's installation; import this fixture in a folder's conftest."""
    if pytestconfig not in _sessions:
        _sessions[pytestconfig] = _Session(pytestconfig, tmp_path_factory.mktemp("world"))
    return _sessions[pytestconfig].world


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, temporary ones left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not is_temporary(path)
    }


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[tuple[str, bytes, bytes]]:
    """Where two folders differ: names, and what stands there from the first byte that is another
    (nothing for no file).
    """
    found = []
    for name in sorted(one.keys() | other.keys()):
        first, second = one.get(name, b""), other.get(name, b"")
        if first != second or (name in one) != (name in other):
            same = len(commonprefix([first, second]))
            found.append((name, first[same:][:60], second[same:][:60]))
    return found


def is_temporary(path: Path) -> bool:
    """A draft that a killed writer left behind."""
    return path.name.startswith(".")


def rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def well(finished: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """A command that succeeded; fails with what it said where it did not."""
    assert finished.returncode == 0, finished.stderr
    return finished


def complaint(finished: subprocess.CompletedProcess[str] | tuple[int, str]) -> str:
    """The one sentence of a refused command; fails if there is more, or another exit code."""
    code, err = finished if isinstance(finished, tuple) else (finished.returncode, finished.stderr)
    lines = [line for line in err.splitlines() if line.strip()]
    assert code == 2, f"exit code {code}: {err}"
    assert len(lines) == 1 and lines[0].startswith("dpicl: "), err
    return lines[0].removeprefix("dpicl: ")


def said(capture: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints, run in this process."""
    code, out, err = typed(capture, *arguments)
    assert not code and not talk(err), err
    return out


def typed(capture: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, run in this process."""
    from dpicl.cli import main
    from dpicl.ground.progress import QUIET

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr("sys.argv", ["dpicl", *arguments])
        # as where no terminal is, whatever the tests were started from
        patch.setattr("dpicl.cli.terminal.console._width", 1_000)
        main()
    QUIET.clear()  # of --quiet: a command has its process to itself elsewhere
    return int(stopped.value.code or 0), *capture.readouterr()


def talk(err: str) -> list[str]:
    """Lines on standard error but those that say, now and then, how far a command is, or that a
    model is opened and checked.
    """
    return [
        line
        for line in err.splitlines()
        if not re.search(r", \d+ (s|min)$|^model \S+: (opening it|.*, once)$", line)
    ]


def call_main(arguments: Sequence[str], capture: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error of a command, run in this process."""
    code, _, err = typed(capture, *arguments)
    return code, err
