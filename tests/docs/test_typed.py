"""Commands of pages whose programs stay up, or need several hosts, are typed as they stand, in
terminals of one machine.
"""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.reader import Reader, made_reader
from tests.docs.terminal import Terminal, commands_by_section, terminals
from tests.harness import REPOSITORY, Place, answers, edited, free_port, new_place, until
from tests.infra.databases import made_databases
from tests.infra.recipes import COMPOSE, documents
from tests.observers import lineage_server

Changes = Mapping[str, str]
SMALL = (
    "--model fake --methods gdp_tabicl --epsilons 1 --shots 2 --seeds 0 --queries 3 --run-id typed"
)
"""A run of seconds in place of one of minutes."""
READY = {
    "dpicl serve": "To trigger any of these deployments",
    "dask scheduler": "Scheduler at:",
    "dask worker": "Registered to",
}
"""Commands that stay up, and what they say once they are there."""
LOOKED_AT = {
    "sudo": "needs root",
    "docker": "needs a container engine",
    "kubectl": "needs a cluster of Kubernetes",
    "sbatch": "needs a cluster of SLURM",
}
"""Programs that no test can run: that what their words name is there is tested in their place."""
HELP = ("kubectl create secret generic", "kubectl create namespace", "kubectl apply")
"""What can be asked for its options where it is installed; elsewhere the options are not
checked.
"""


OFTEN = {
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "OMP_NUM_THREADS": "1",
}
"""Servers poll every second."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A clone whose only scheduled pipeline is the demo, as the hosts of a cluster have it."""
    place = new_place(tmp_path / "place")
    with edited(place.root / "pipelines.yaml") as declared:
        declared["pipelines"] = {"demo": declared["pipelines"]["demo"]}
    (place.root / "infra").symlink_to(REPOSITORY / "infra")
    return place


@pytest.fixture
def environment(place: Place) -> dict[str, str]:
    """What the terminals have before anything is typed."""
    return {**place.environment, **OFTEN}


def changed(command: str, changes: Changes) -> str:
    """A command with what the test must have otherwise: addresses, passwords, a smaller grid."""
    for old, new in changes.items():
        command = command.replace(old, new)
    return command


def stays_up(command: str, api: str, believed: Path) -> Callable[[str], bool] | None:
    """How to see that a command which stays up is there; None for one that ends. Prefect's server
    says nothing of itself.
    """
    if command.startswith("python -m uvicorn"):
        return lambda _: is_healthy(api, believed)
    said = next((words for start, words in READY.items() if command.startswith(start)), None)
    return None if said is None else lambda log: said in log


def is_healthy(api: str, believed: Path) -> bool:
    """Whether a Prefect server answers under a certificate that is believed."""
    try:
        with urllib.request.urlopen(
            f"{api}/health", timeout=5, context=ssl.create_default_context(cafile=believed)
        ) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def ask(api: str, path: str, body: Any) -> Any:
    """One question to a Prefect server, again while its database is busy, as Prefect's client
    does.
    """
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{api}/{path}", content, {"Content-Type": "application/json"})
    for pause in (0.5, 1, 2, 4, 0):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or not pause:
                raise
        time.sleep(pause)
    raise AssertionError


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Somebody in an empty folder, without any server."""
    return made_reader(tmp_path / "reader")


def terminals_of(reader: Reader, **extra: str) -> AbstractContextManager[list[Terminal]]:
    """Two terminals in the reader's folder."""
    environment = {**reader.environment, **OFTEN, **extra}
    return terminals(reader.folder, environment, one=reader.folder, other=reader.folder)


@pytest.mark.exhaustive
def test_the_page_on_schedules(reader: Reader) -> None:
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    reader.write_files("how-to/schedule.md")
    sections = commands_by_section("how-to/schedule.md")
    with terminals_of(reader, PREFECT_SERVER_API_PORT=str(port)) as (first, second):
        made, exported, asked = sections.pop("Before you start")
        second.type(made)
        second.type(exported)
        forecast = second.type(asked)
        assert "1 scheduled pipeline;" in forecast and "end of horizon" in forecast
        quiet, server, address, serve = sections.pop("Serve from one process")
        first.type(quiet)
        first.start(server, lambda _: answers(f"{api}/health"))
        second.type(changed(address, {"http://127.0.0.1:4200/api": api}))
        serving = second.start(serve, lambda log: READY["dpicl serve"] in log)
        # of the shipped ones none, the demo with its schedule neither
        names = [one["name"] for one in ask(api, "deployments/filter", {})]
        assert names == ["customers-weekly"]
        second.stop(serving)
        block = (
            "from prefect.blocks.notifications import SlackWebhook as S; "
            "S(url='https://hooks.example.org/x').save('on-call')"
        )
        second.type(f'python -c "{block}"')
        (notified,) = sections.pop("Notifications")
        second.stop(second.start(notified, lambda _: "send-notification" in actions(api)))
        with made_databases() as databases:
            *commands, worker = sections.pop("Use a work pool instead")
            elsewhere = {
                "http://127.0.0.1:4200/api": api,
                "postgresql://ledger:PASSWORD@database/ledger": databases.url("ledger"),
            }
            told = [second.type(changed(command, elsewhere)) for command in commands]
            assert not any("warning" in sentence for sentence in told), told
            (deployed,) = [
                one
                for one in ask(api, "deployments/filter", {})
                if one["work_pool_name"] == "hospital"
            ]
            assert deployed["name"] == "customers-weekly"
            working = second.start(
                worker, lambda _: bool(ask(api, "work_pools/hospital/workers/filter", {}))
            )
            # which the worker does in a folder without the page's files
            flow_run = ask(api, f"deployments/{deployed['id']}/create_flow_run", {})["id"]
            until(lambda: ended(api, flow_run), 240, "the pool's run", every=0.5)
            assert ask(api, f"flow_runs/{flow_run}", None)["state"]["type"] == "COMPLETED"
            second.stop(working)
    assert sections == {}, "a block that nobody types"


def ended(api: str, flow_run: str) -> bool:
    """Whether a flow run is over, well or not."""
    state = ask(api, f"flow_runs/{flow_run}", None)["state"]["type"]
    return state in ("COMPLETED", "FAILED", "CRASHED")


def actions(api: str) -> set[str]:
    """What the server's automations do."""
    return {
        action["type"] for one in ask(api, "automations/filter", {}) for action in one["actions"]
    }


@pytest.mark.exhaustive
def test_the_page_on_metrics(reader: Reader) -> None:
    port, sections = free_port(), commands_by_section("how-to/watch.md")
    reader.write_files("how-to/watch.md")
    with terminals_of(reader) as (terminal, _):
        printed, served = sections.pop("Metrics")
        assert "dpicl_build_info" in terminal.type(printed)
        terminal.start(
            changed(served, {"9464": str(port)}),
            lambda log: answers(f"http://127.0.0.1:{port}/metrics"),
        )
    observed = sections.pop("OpenLineage and MLflow")
    with (
        lineage_server() as (url, events),
        terminals_of(reader) as (terminal, _),
    ):
        (line,) = observed
        short = f"dpicl run demo {SMALL.replace('fake', 'bundled')}"
        small = {"http://127.0.0.1:5000": url, "dpicl run demo": short}
        told = terminal.type(changed(line, small))
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"], told
    assert sections == {}


@pytest.fixture
def changes(place: Place) -> Iterator[dict[str, str]]:
    """Of the page on clusters: one machine in place of two, free ports, new passwords, one worker,
    a small run.
    """
    server, scheduler = free_port(), free_port()
    with made_databases() as databases:
        prefect = databases.url("prefect", "prefect").replace("postgresql:", "postgresql+asyncpg:")
        yield {
            "postgresql://ledger:PASSWORD@database/ledger": databases.url("ledger"),
            "postgresql+asyncpg://prefect:PASSWORD@database/prefect": prefect,
            "https://boss:4200": f"https://localhost:{server}",
            "tls://boss:8786": f"tls://localhost:{scheduler}",
            "--port 4200": f"--port {server}",
            "--port 8786 --dashboard-address 127.0.0.1:8787": f"--port {scheduler} --dashboard-address 127.0.0.1:0",  # noqa: E501
            "--host 0.0.0.0": "--host 127.0.0.1",
            "--nworkers 4": "--nworkers 1",
            "/srv/dpicl": str(place.home),
            "/srv/data": str(place.root / "data"),
            "dpicl run demo": f"dpicl run demo {SMALL}",
        }


@pytest.mark.exhaustive
def test_a_ledger_moves_by_the_lines_of_the_page(reader: Reader) -> None:
    """What was spent stays spent, and the file of before is refused where the variable is
    forgotten.
    """
    reader.write_files("how-to/schedule.md")
    lines = commands_by_section("how-to/cluster.md")["Moving the ledger"]
    with made_databases() as databases, terminals_of(reader) as (one, other):
        for terminal in (one, other):
            terminal.type("export DPICL_DATA=$PWD")
        one.type("python make_customers.py && dpicl protect customers --epsilon 1 --out a.jsonl")
        before = one.type("dpicl budget --json")
        for line in lines:
            one.type(changed(line, {"ledger:PASSWORD@database": databases.url("ledger")[13:-7]}))
        assert json.loads(one.type("dpicl budget --json")) == json.loads(before)
        one.type("dpicl protect customers --epsilon 1 --out a.jsonl")  # free
        forgotten = other.type("dpicl protect customers --epsilon 0.5 --out b.jsonl 2>&1 || true")
        assert "the ledger was rolled back" in forgotten
        assert "ledger.db was read, as DPICL_LEDGER is not set" in " ".join(forgotten.split())


COPIES = """
ssh() { shift; (cd "$HAND" && "$@"); }
scp() { local to="${@: -1}"; cp -p "${@:2:$#-2}" "$HAND/${to#hand:}"; }
"""
"""In place of the second host: a folder that is its home."""


@pytest.mark.exhaustive
def test_the_page_on_clusters_by_hand(
    place: Place, environment: dict[str, str], changes: Changes
) -> None:
    boss, hand = place.root / "boss", place.root / "hand"
    boss.mkdir()
    hand.mkdir()
    commands = commands_by_section("how-to/cluster.md")["By hand, on two hosts"]
    with terminals(place.root, {**environment, "HAND": str(hand)}, boss=boss, hand=hand) as (
        first,
        second,
    ):
        first.type(COPIES)
        for command in commands:
            terminal = second if command.startswith("dask worker") else first
            if terminal is second:
                for name in ("dpicl.env", "dpicl-tls/tls.env"):  # its home has another path here
                    (hand / name).write_text(
                        (hand / name)
                        .read_text()
                        .replace(str(boss), str(hand))
                        .replace("~", str(hand))
                    )
                second.type(". ~/dpicl.env")
            is_ready = stays_up(
                command, f"{changes['https://boss:4200']}/api", boss / "dpicl-tls" / "server.pem"
            )
            line = changed(command, changes)
            said = terminal.type(line) if is_ready is None else str(terminal.start(line, is_ready))
            if command == "dpicl run demo":
                assert "report.html" in said
    assert (place.run("typed") / "report.html").is_file()
    assert {path.name for path in (hand / "dpicl-tls").iterdir()} == {
        "ca.pem",
        "worker.pem",
        "worker.key",
        "server.pem",
        "tls.env",
    }


WORDS = "".join(f"{name}() {{ printf '%s\\n' '>' {name} \"$@\"; }}\n" for name in LOOKED_AT)
"""In place of the programs that cannot be run: what they would be told, as the shell has it, a word
a line.
"""


def told(section: str, folder: Path, environment: Mapping[str, str]) -> list[list[str]]:
    """What the programs that cannot be run are told by a section of the page on clusters;
    everything else is run.
    """
    found = list[list[str]]()
    with terminals(folder, environment, home=folder) as (terminal,):
        terminal.type(WORDS)
        for command in commands_by_section("how-to/cluster.md")[section]:
            found += [words.split("\n")[:-1] for words in terminal.type(command).split(">\n")[1:]]
    return found


def is_missing(word: str, folder: Path) -> bool:
    """Whether a word names a file that is not there; an address, an image, a user and a model of
    the reader's are none.
    """
    path = word.rpartition("=")[2]
    return (
        "/" in path
        and not path.startswith(("docker.io/", "REGISTRY/"))
        and "://" not in path
        and path != "./a-folder-with-a-model"
        and not (folder / path).exists()
    )


@pytest.mark.quick("Compose")
@pytest.mark.parametrize("section", ["Compose", "Kubernetes", "SLURM"])
def test_the_page_on_clusters_names_what_is_there(
    section: str, place: Place, environment: dict[str, str], tmp_path: Path
) -> None:
    infra = tmp_path / "clone" / "infra"
    shutil.copytree(
        REPOSITORY / "infra", infra, ignore=shutil.ignore_patterns("__pycache__", ".env")
    )
    found = told(section, infra.parent, environment)
    assert found and {words[0] for words in found} <= set(LOOKED_AT)
    assert [word for words in found for word in words if is_missing(word, infra.parent)] == []
    if section == "Compose":
        assert (infra / ".env").stat().st_mode & 0o777 == 0o600
        (executed,) = [words[words.index("exec") + 1] for words in found if "exec" in words]
        assert executed in yaml.safe_load(COMPOSE.read_text())["services"]
    if section == "Kubernetes":
        assert secrets(found) >= wanted() >= {("databases", "ledger-url")}, (
            "a manifest reads a key of a secret that the page does not make"
        )
    for words in found:
        assert unknown_options(words) == set()


def secrets(found: list[list[str]]) -> set[tuple[str, str]]:
    """Keys of the secrets that the page makes."""
    return {
        (words[words.index("generic") + 1], re.split("=", word)[1])
        for words in found
        if "generic" in words
        for word in words
        if word.startswith("--from-")
    }


def wanted() -> set[tuple[str, str]]:
    """Keys of secrets that the manifests read into variables."""
    text = "\n".join(json.dumps(item) for item in documents())
    return set(re.findall(r'"secretKeyRef": {"name": "([\w-]+)", "key": "([\w-]+)"', text))


def unknown_options(words: list[str]) -> set[str]:
    """Options that the program's own help does not show; asked where the program is."""
    line = " ".join(word for word in words if word not in ("--namespace", "dpicl"))
    asked = next((start for start in HELP if line.startswith(start)), None)
    if asked is None or shutil.which(words[0]) is None:
        return set()
    shown = [
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
        for command in ([*asked.split(), "--help"], ["kubectl", "options"])
    ]
    return {
        option
        for word in words
        if word.startswith("--")
        for option in [word.partition("=")[0]]
        if f"{option}=" not in "".join(shown)
    }


def test_every_section_of_the_page_on_clusters_is_typed() -> None:
    assert set(commands_by_section("how-to/cluster.md")) == {
        "By hand, on two hosts",
        "Compose",
        "Kubernetes",
        "Moving the ledger",
        "SLURM",
    }


def test_a_command_is_not_cut() -> None:
    from tests.docs.terminal import _commands

    block = "a \\\n  b  # said\ncat <<END\nc\nEND\nfor d in e; do\n    f\ndone\ng\n"
    assert list(_commands(block)) == [
        "a    b",
        "cat <<END\nc\nEND",
        "for d in e; do\n    f\ndone",
        "g",
    ]
