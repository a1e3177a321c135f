"""Observers are told of a run by the clients and servers that people have; what becomes of them is
nothing to the run.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpicl.ground import installed
from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings
from dpicl.runs import observed
from tests.harness import Place, charged, free_port, install, rows, run_here, shop
from tests.observers import lineage_server, mlflow_server, told_to_mlflow

GRID: dict[str, Any] = {"epsilons": [1], "shots": [1], "seeds": [0, 1], "model": "fake"}
URI = {"type": "string", "format": "uri"}
FACET = {
    "type": "object",
    "required": ["_producer", "_schemaURL"],
    "properties": {"_producer": URI, "_schemaURL": URI},
}
NAMED = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string"},
        "name": {"type": "string"},
        "facets": {"type": "object", "additionalProperties": FACET},
    },
}
EVENT = {
    "type": "object",
    "required": ["run", "job", "eventTime", "producer", "schemaURL"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}},
        },
        "job": NAMED,
        "inputs": {"type": "array", "items": NAMED},
        "outputs": {"type": "array", "items": NAMED},
        "producer": URI,
        "schemaURL": {
            "const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
        },
    },
}
"""What OpenLineage 2-0-2 asks of a run's event, in words of ours."""


@pytest.fixture
def table(place: Place) -> Iterator[str]:
    name = install(place, shop("kiosk", private=True))
    with place.entered():
        yield name


def ran(table: str, run_id: str = "r") -> Path:
    return run_here(run_id, "private", methods=["gdp_tabicl"], datasets=[table], **GRID)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "dpicl.runs"]


def test_openlineage_gets_a_start_and_an_end_with_every_release(
    table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with lineage_server() as (url, events):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        ran(table)
    assert warned(caplog) == []
    for event in events:
        jsonschema.validate(event, EVENT, format_checker=jsonschema.FormatChecker())
    start, end = events
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"] == end["run"] and start["job"] == end["job"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("dpicl", "private")
    kind = end["job"]["facets"]["jobType"]
    assert (kind["processingType"], kind["integration"]) == ("BATCH", "DPICL")
    (read,) = end["inputs"]
    columns = Settings.from_environment().contract(table).columns
    assert [(one["name"], one["type"]) for one in read["facets"]["schema"]["fields"]] == [
        (name, column.type) for name, column in columns.items()
    ]
    assert [one["name"] for one in end["inputs"]] == [table] and start["outputs"] == []
    # on whatever process: a worker's name says nothing to who pays
    assert {entry.by.command for entry in charged(table)} == {"run private"}
    entries = {entry.release.release_id: entry.release for entry in charged(table)}
    assert {one["name"] for one in end["outputs"]} == {f"{table}/{name}" for name in entries}
    for output in end["outputs"]:
        facet = output["facets"]["dpicl_privacy"]
        guarantee = entries[facet["release"]].guarantee
        assert facet["epsilon"] == guarantee.epsilon == 1 and facet["delta"] == guarantee.delta
        assert (facet["unit"], facet["neighbours"]) == ("row", "replace-one")
        assert (facet["method"], facet["account"]) == ("gdp_tabicl", table)
    spent = sorted(one["facets"]["dpicl_privacy"]["account_epsilon"] for one in end["outputs"])
    assert spent == [2, 2]  # and not what it had spent with each


def test_a_run_that_fails_is_told_as_failed_without_its_message(
    place: Place, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "data" / f"{table}.csv").write_text("age,city,member\nSECRET,x,y\n")
    with lineage_server() as (url, events):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        with pytest.raises(DpiclError):
            ran(table)
    assert [event["eventType"] for event in events] == ["START", "FAIL"]
    assert events[1]["outputs"] == [] and "SECRET" not in json.dumps(events)


def test_mlflow_writes_nothing_beside_the_log_of_a_run(tmp_path: Path) -> None:
    """Which may be JSON, a line each: the tables that it makes are its own affair."""
    code = """
from dpicl.observers.mlflow import observe
try:
    observe(iter([]))
except StopIteration:
    print("asked")
"""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
        cwd=tmp_path,
    )
    assert (told.stdout, told.stderr) == ("asked\n", "")


@pytest.mark.exhaustive
def test_mlflow_gets_parameters_metrics_and_certificates(
    place: Place, table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import mlflow.tracking  # noqa: F401 - which takes longer than a run waits on a busy machine

    with mlflow_server(place.root / "mlflow") as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        run = ran(table)
        (told,) = told_to_mlflow(url)
    assert warned(caplog) == []
    assert told["info"]["status"] == "FINISHED" and told["info"]["user_id"] == "unknown"
    params = {"pipeline": "private", "dataset": table, "method": "gdp_tabicl", "epsilon": "1"}
    assert told["data"]["params"] == params
    last = {
        (row["system"], row["epsilon"], row["shots"]): float(row["accuracy"])
        for row in rows(run / "results.csv")
        if row["seed"] == "1"
    }
    for (system, epsilon, shots), accuracy in last.items():
        numbers = [("epsilon", epsilon), ("shots", shots)]
        words = [f"{name} {float(number):g}" for name, number in numbers if number]
        name = "/".join([table, system, *words, "accuracy"])
        assert told["data"]["metrics"][name] == pytest.approx(accuracy)
    entries = {entry.release.release_id for entry in charged(table)}
    assert set(told["artifacts"]) == {f"{table}/{name}.certificate.json" for name in entries}
    (certificate, *_) = map(json.loads, told["artifacts"].values())
    assert certificate["privacy_loss"]["privacy_parameters"]["epsilon"] == 1


@contextmanager
def plugged(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Iterator[None]:
    """An observer of another package, `WATCH_URL`."""
    metadata = folder / "watching-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: watching\nVersion: 1\n")
    points = "[dpicl.observers]\nWATCH_URL = watching_runs:observe\n"
    (metadata / "entry_points.txt").write_text(points)
    (folder / "watching_runs.py").write_text(body)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "watching_runs", raising=False)
    installed._read.cache_clear()
    try:
        yield
    finally:
        installed._read.cache_clear()


SLEEPS = "import time\ndef observe(events):\n    next(events)\n    time.sleep(60)\n"
FAILS = "def observe(events):\n    raise ValueError('http://user:secret@host')\n"
MISSES = "import no_such_package\n"
WRITES = (
    "from pathlib import Path\ndef observe(events):\n    Path('watched').write_text(' '.join("
    "event.state for event in events))\n"
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SLEEPS, "no answer within 1 s"),
        (FAILS, "it failed with ValueError"),
        (MISSES, "it failed with ModuleNotFoundError"),
    ],
    ids=["sleeps", "fails", "misses"],
)
def test_an_observer_that_fails_or_sleeps_is_one_warning(
    place: Place,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    body: str,
    reason: str,
) -> None:
    monkeypatch.setattr(observed, "SECONDS", 1.0)
    with plugged(place.root / "other", monkeypatch, body):
        monkeypatch.setenv("WATCH_URL", "http://somewhere")
        begun = time.monotonic()
        run = ran(table)
        assert time.monotonic() - begun < 40
    assert (run / "report.html").exists()
    assert warned(caplog) == [f"WATCH_URL: this run is not reported there: {reason}"]


def test_an_observer_of_another_package_is_on_only_where_its_variable_is_set(
    place: Place, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.root)
    with plugged(place.root / "other", monkeypatch, WRITES):
        ran(table, "unseen")
        assert not (place.root / "watched").exists()
        monkeypatch.setenv("WATCH_URL", "on")
        ran(table, "seen")
    assert (place.root / "watched").read_text() == "START COMPLETE"


def test_a_server_that_is_not_there_is_one_warning(
    table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{free_port()}")
    ran(table)
    (told,) = [one.getMessage() for one in caplog.records]
    assert told == "OPENLINEAGE_URL: this run is not reported there: it failed with ConnectionError"
