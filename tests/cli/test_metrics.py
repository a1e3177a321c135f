"""`dpicl metrics` tells what run folders and ledger hold, whatever state they are in, and no
private value.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.models.endpoint.client import Usage
from flows.metrics import longest_gap
from tests.cli.conftest import Cli
from tests.flows.planted import CANARIES, contract, table
from tests.harness import (
    REPOSITORY,
    Place,
    answers,
    complaint,
    end,
    free_port,
    grid_of,
    install,
    new_place,
    ran,
    until,
)
from tests.leaks import hits
from tests.tasks.stages import in_process

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
GRID = grid_of("canaries")
GRAFANA = REPOSITORY / "infra" / "grafana"
PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A private table with a cap, a run on it that finished, and one that was killed at a file."""
    place = new_place(tmp_path_factory.mktemp("metrics") / "place")
    install(place, contract("canaries", private=True), table())
    assert in_process(place.environment, "private", GRID, "done", "finished") == 0
    assert (
        in_process(place.environment, "private", {**GRID, "seeds": [0, 1]}, "killed", "torn")
        == -signal.SIGKILL
    )
    return place


@pytest.fixture
def watched(ended: Place, tmp_path: Path) -> Iterator[Place]:
    """A copy of it to spoil, which this process works in."""
    shutil.copytree(ended.root, tmp_path / "place")
    place = Place(tmp_path / "place")
    with place.entered():
        yield place


def samples(text: str) -> Samples:
    """Every sample by name and labels."""
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def told(cli: Cli) -> Samples:
    """What the command says now."""
    return samples(cli("metrics"))


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((f"dpicl_{name}", frozenset(labels.items())))


def edit(home: Path) -> None:
    with closing(sqlite3.connect(home / "ledger.db")) as database, database:
        database.execute("UPDATE records SET content = replace(content, '1', '0')")


def test_runs_and_units_are_counted_by_what_their_folders_hold(watched: Place, cli: Cli) -> None:
    found = told(cli)
    private = {"pipeline": "private"}
    assert [
        value(found, "runs", state=state, **private) for state in ("finished", "unfinished")
    ] == [1, 1]
    assert (value(found, "units_planned", **private), value(found, "units_done", **private)) == (
        6,
        2,
    )
    created = json.loads((watched.run("done") / "manifest.json").read_text())["created_utc"]
    assert (
        value(found, "run_last_finished_timestamp_seconds", **private)
        == datetime.fromisoformat(created).timestamp()
    )
    written = value(found, "run_last_written_timestamp_seconds", run="killed", **private)
    assert written == pytest.approx(time.time(), abs=600)
    assert value(found, "run_last_written_timestamp_seconds", run="done", **private) is None
    assert value(found, "unreadable", what="run folder") == 0
    lines = [
        line
        for unit in watched.run("done").glob("units/*/results.json")
        for line in json.loads(unit.read_text())
    ]
    asked = sum(line["query_count"] for line in lines if line["system"] != "majority")
    assert value(found, "prompts_answered_total", **private) == asked > 0


def test_stages_are_summed_by_method_and_those_of_data_sets_without(
    watched: Place, cli: Cli
) -> None:
    found = told(cli)
    times = [
        json.loads(path.read_text())["seconds"]
        for path in watched.home.glob("runs/*/timings/gdp_tabicl*/score*.json")
    ]
    assert value(found, "stage_seconds_count", stage="score", method="gdp_tabicl") == len(times) > 1
    assert value(found, "stage_seconds_sum", stage="score", method="gdp_tabicl") == pytest.approx(
        sum(times)
    )
    # it follows the number of private rows
    assert value(found, "stage_seconds_count", stage="validate", method="") is None


def test_an_account_tells_cap_spent_left_and_releases(watched: Place, cli: Cli) -> None:
    found = told(cli)
    spent, cap, left = (
        value(found, f"epsilon_{name}", account="canaries") for name in ("spent", "cap", "left")
    )
    with open_ledger(Settings.from_environment()) as ledger:
        total, releases = ledger.spent("canaries").epsilon, ledger.entries("canaries")
    assert spent == pytest.approx(total)
    assert 0 < total <= 2.5
    assert cap == 1000
    assert left == float(f"{cap - spent:.12g}")  # as few digits as a sum needs
    assert value(found, "releases", account="canaries", state="published") == len(releases) == 2
    assert value(found, "releases", account="canaries", state="reserved") == 0
    assert (
        value(found, "delta_spent", account="canaries"),
        value(found, "delta_cap", account="canaries"),
    ) == (0, 0)
    assert value(found, "ledger_intact") == 1


def test_a_ledger_without_a_record_is_intact(place: Place, cli: Cli) -> None:
    """As on a cluster on which nothing ran yet: no anchor was written."""
    cli("budget")
    assert value(told(cli), "ledger_intact") == 1


def test_of_an_edited_ledger_nothing_is_told_but_that(watched: Place, cli: Cli) -> None:
    edit(watched.home)
    found = told(cli)
    assert value(found, "ledger_intact") == 0
    assert value(found, "epsilon_spent", account="canaries") is None
    assert value(found, "runs", pipeline="private", state="finished") == 1


def test_a_ledger_that_is_gone_is_not_intact_and_one_that_never_was_is_not_told(
    watched: Place, cli: Cli
) -> None:
    for path in watched.home.glob("ledger.db*"):
        path.unlink()
    assert value(told(cli), "ledger_intact") == 0
    shutil.rmtree(watched.home)
    found = told(cli)
    assert value(found, "ledger_intact") is None
    assert "dpicl_build_info" in {name for name, _ in found}
    # asking made a ledger
    assert not watched.home.exists()


BROKEN = {
    "no plan": ("plan.json", None),
    "half a plan": ("plan.json", b'{"run_id": "done", "pipe'),
    "another plan": ("plan.json", b'{"run_id": "done", "pipeline": 3}'),
    "no text": ("plan.json", b"\xff\xfe\x00"),
    "deep": ("plan.json", b"[" * 100_000),
    "a manifest without a date": ("manifest.json", b"{}"),
    "half a timing": ("timings/gdp_tabicl__canaries__seed0/charge.json", b'{"owner"'),
    "predictions that are none": ("units/gdp_tabicl__canaries__seed0/predictions.parquet", b"PAR1"),
    "checks that are none": ("validation/canaries.json", b"[1]"),
}


@pytest.mark.quick("half a plan", "predictions that are none", "checks that are none")
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_folder_is_counted_and_stops_nothing(watched: Place, cli: Cli, how: str) -> None:
    name, content = BROKEN[how]
    path = watched.run("done") / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    found = told(cli)
    assert value(found, "unreadable", what="run folder") == 1
    assert value(found, "runs", pipeline="private", state="unfinished") == 1
    assert value(found, "ledger_intact") == 1


def test_scores_that_were_torn_count_as_a_broken_folder(watched: Place, cli: Cli) -> None:
    (unit,) = watched.run("done").glob("units/gdp*")
    (unit / "predictions.parquet").unlink()
    assert value(told(cli), "unreadable", what="run folder") == 0
    (unit / "scored" / "0000.npz").write_bytes(b"PK\x03\x04")
    assert value(told(cli), "unreadable", what="run folder") == 1


def test_tokens_are_what_a_server_counted(watched: Place, cli: Cli) -> None:
    assert value(told(cli), "tokens_total", pipeline="private", kind="prompt") is None
    for number, unit in enumerate(watched.run("done").glob("units/*")):
        (unit / "scored" / "0000.json").write_text(
            json.dumps(asdict(Usage(prompt_tokens=70 + number, completion_tokens=5)))
        )
    found = told(cli)
    assert [
        value(found, "tokens_total", pipeline="private", kind=kind)
        for kind in ("prompt", "completion")
    ] == [141, 10]


def test_a_validation_that_failed_is_told_until_the_next_one(watched: Place, cli: Cli) -> None:
    """Of a benchmark: what holds of private rows stands in no run's folder."""
    broken = {"dataset": "canaries", "severity": "fail"}
    assert value(told(cli), "validation_broken_rules", **broken) is None
    for when, (run, failing) in enumerate((("done", 0), ("killed", 2)), start=1):
        (later := watched.run(run) / "validation").mkdir()
        (later / "canaries.json").write_text(
            json.dumps([{"severity": "fail", "holds": number >= failing} for number in range(5)])
        )
        os.utime(later / "canaries.json", (when, when))
    assert value(told(cli), "validation_broken_rules", **broken) == 2
    os.utime(later / "canaries.json", (0, 0))
    assert value(told(cli), "validation_broken_rules", **broken) == 0


@pytest.mark.parametrize(
    ("cron", "hours"),
    [
        ("0 6 * * *", 24),
        ("0 6 * * 1", 168),
        ("*/5 * * * *", 1 / 12),
        ("0 0 1 * *", 31 * 24),
        ("0 0 29 2 *", float("inf")),
    ],
)
def test_a_schedule_s_longest_gap(cron: str, hours: float) -> None:
    assert longest_gap(cron) == hours * 3600


def test_schedules_are_told_and_pipelines_that_cannot_be_read_are_counted(
    watched: Place, cli: Cli
) -> None:
    assert value(told(cli), "schedule_interval_seconds", pipeline="demo") == 7 * 24 * 3600
    (watched.root / "pipelines.yaml").write_text("pipelines: [")
    found = told(cli)
    assert value(found, "unreadable", what="pipelines.yaml") == 1
    assert value(found, "ledger_intact") == 1


@pytest.mark.exhaustive
def test_a_served_endpoint_tells_what_has_changed_since(watched: Place) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}/metrics"
    process = watched.start(f"metrics --port {port}")
    try:
        until(lambda: answers(url) or process.poll() is not None, 120, "the endpoint")
        before = scraped(url)
        assert value(before, "ledger_intact") == 1
        assert value(before, "runs", pipeline="private", state="finished") == 1
        (watched.run("done") / "report.html").unlink()
        (watched.run("killed") / "plan.json").write_text("{")
        edit(watched.home)
        after = scraped(url)
        assert value(after, "ledger_intact") == 0
        assert value(after, "runs", pipeline="private", state="finished") == 0
        assert value(after, "unreadable", what="run folder") == 1
        refused = watched.dpicl(f"metrics --port {port}")
        assert "cannot be served at 127.0.0.1" in complaint(refused)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, f"metrics at {url}\n", "")
    finally:
        end(process)


def scraped(url: str) -> Samples:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return samples(answer.read().decode())


def test_an_address_that_is_nobody_s_is_one_sentence(watched: Place, cli: Cli) -> None:
    sentence = cli.refused("metrics --port 9464 --host 192.0.2.1")
    assert sentence.startswith("metrics cannot be served at 192.0.2.1 port 9464: ")


def test_no_metric_holds_a_private_value_and_all_labels_are_names(watched: Place, cli: Cli) -> None:
    text = cli("metrics")
    assert not hits({"metrics": text.encode()}, CANARIES)
    # the search is blind
    assert hits({"metrics": text.encode()}, ["canaries"])
    named = {label for _, labels in samples(text) for label in labels}
    known = {
        "account",
        "dataset",
        "kind",
        "method",
        "pipeline",
        "python",
        "run",
        "severity",
        "stage",
        "state",
        "version",
        "what",
    }
    assert {label for label, _ in named} <= known
    assert all(re.fullmatch(r"[\w. -]*", text) for _, text in named)


def told_names(text: str) -> set[str]:
    """Names of samples that a scrape may have."""
    types = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    return types.keys() | {
        f"{name}_{part}"
        for name, kind in types.items()
        if kind == "summary"
        for part in ("sum", "count")
    }


@pytest.mark.parametrize("name", ["dpicl-alerts.yaml", "dpicl-dashboard.json"])
def test_rules_and_dashboard_ask_for_metrics_that_exist(
    watched: Place, cli: Cli, name: str
) -> None:
    content = (GRAFANA / name).read_text()
    parsed = yaml.safe_load(content)
    assert parsed.get("groups") or parsed.get("panels")
    asked = set(re.findall(r"\bdpicl_[a-z_]+", content))
    assert len(asked) > 5 and asked <= told_names(cli("metrics"))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_own_checks_find_nothing(watched: Place, cli: Cli) -> None:
    for what, text in (("metrics", cli("metrics")), ("rules", "")):
        files = [str(GRAFANA / "dpicl-alerts.yaml")] if what == "rules" else []
        checked = ran([PROMTOOL, "check", what, *files], input=text)
        assert checked.returncode == 0, checked.stdout + checked.stderr
