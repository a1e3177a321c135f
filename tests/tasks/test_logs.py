"""With DPICL_LOG_FORMAT=json every process of a run tells machines what its stages do, and no
private value.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import RunError, StageFailed
from dpicl.runs.stage import set_up, stage
from tasks.stages import made_task
from tests.flows.planted import CANARIES, contract, table
from tests.harness import Place, call_main, complaint, install, new_place, well
from tests.leaks import hits

Capture = pytest.CaptureFixture[str]
CANARY = "canary-77ab01c3"
UNIT = "gdp_tabicl__shop__seed3"


def work(run: str, owner: str, part: int = 0) -> str:
    """A stage that fails as libraries do where it is told to."""
    if owner == "faulty":
        raise ValueError(f"could not convert {CANARY}")
    if owner == "refused":
        raise RunError("a broken rule")
    logging.getLogger("dpicl.endpoint").warning("said inside part %d", part)
    return "5 rows"


STAGE = made_task(stage("work")(work), "work").fn


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("DPICL_LOG_FORMAT", "json")
        yield
    set_up("text")


def lines(text: str) -> list[dict[str, Any]]:
    """Every line as an object; fails where one is none."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_stage_of_a_unit_tells_where_it_was_and_how_long_it_took(
    as_json: None, capsys: Capture
) -> None:
    STAGE("/somewhere/runs/r1", UNIT, 2)
    inside, end = lines(capsys.readouterr().err)
    where = {
        "run": "r1",
        "stage": "work",
        "unit": UNIT,
        "method": "gdp_tabicl",
        "dataset": "shop",
        "seed": 3,
    }
    assert where.items() <= inside.items() and where.items() <= end.items()
    assert (inside["logger"], inside["level"], inside["message"]) == (
        "dpicl.endpoint",
        "WARNING",
        "said inside part 2",
    )
    assert (end["logger"], end["level"], end["message"]) == ("dpicl.tasks", "INFO", "work: 5 rows")
    assert end["seconds"] >= 0 and "seconds" not in inside and "attempt" not in end
    assert datetime.fromisoformat(end["time"]).utcoffset() == timedelta(0)


def test_a_stage_of_a_data_set_names_it_and_nothing_is_left_for_later_lines(
    as_json: None, capsys: Capture
) -> None:
    STAGE("/somewhere/runs/r1", "heart")
    logging.getLogger("dpicl.flows").warning("afterwards")
    _, end, after = lines(capsys.readouterr().err)
    assert end["dataset"] == "heart" and not end.keys() & {"unit", "method", "seed"}
    assert after.keys() == {"time", "level", "logger", "message"}


@pytest.mark.parametrize(
    ("owner", "kind", "told"),
    [("faulty", StageFailed, "ValueError at work:"), ("refused", RunError, "a broken rule")],
)
def test_a_failure_is_one_line_without_the_library_s_words(
    as_json: None, capsys: Capture, owner: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind):
        STAGE("/somewhere/runs/r1", owner)
    (line,) = lines(capsys.readouterr().err)
    assert line["level"] == "ERROR"
    assert line["message"].startswith("work: failed: ")
    assert told in line["message"]
    assert CANARY not in json.dumps(line)


def test_of_an_exception_that_is_logged_only_its_kind_is_written(
    as_json: None, capsys: Capture
) -> None:
    set_up("json")
    try:
        float(CANARY)
    except ValueError:
        logging.getLogger("dpicl.flows").exception("a step failed")
    (line,) = lines(capsys.readouterr().err)
    assert line["error"] == "ValueError" and CANARY not in json.dumps(line)


def test_without_the_variable_logs_are_plain_and_name_the_unit(
    capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "dpicl"), pytest.raises(StageFailed):
        STAGE("/somewhere/runs/r1", UNIT)
        STAGE("/somewhere/runs/r1", "faulty")
    assert [record.getMessage() for record in caplog.records] == [
        "said inside part 0",
        f"work {UNIT}: 5 rows",
    ]
    assert "{" not in capsys.readouterr().err


def test_an_unknown_format_is_refused_before_anything_begins(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with place.entered(DPICL_LOG_FORMAT="xml"):
        sentence = complaint(call_main(["run", "demo"], capsys))
        with pytest.raises(Exception, match="DPICL_LOG_FORMAT"):
            STAGE("/somewhere/runs/r1", UNIT)
    assert sentence == "DPICL_LOG_FORMAT='xml': expected text or json"
    assert not (place.home / "runs").exists()


@pytest.mark.parametrize(
    "executor", ["pool", pytest.param("prefect", marks=pytest.mark.exhaustive)]
)
def test_every_line_of_a_run_is_json_from_all_its_processes_and_none_holds_a_canary(
    request: pytest.FixtureRequest, tmp_path: Path, executor: str
) -> None:
    """With workers of its own, on the session's server where there is one: they write to the same
    standard error.
    """
    place: Place = (
        new_place(tmp_path / "place") if executor == "pool" else request.getfixturevalue("world")
    )
    install(place, contract("logged", private=True), table())
    grid = "--datasets logged --epsilons 1 --shots 2 --seeds 0 --model fake --workers 1"
    extra = {"DASK_SCHEDULER_ADDRESS": "", "DPICL_LOG_FORMAT": "json"}
    done = well(
        place.dpicl(
            f"run private {grid} --executor {executor} --run-id logged", timeout=300, **extra
        )
    )
    told = lines(done.stderr)
    assert {line["run"] for line in told} == {"logged"}
    assert {line.get("attempt") for line in told} == {1 if executor == "prefect" else None}
    ended = {(line["stage"], line.get("method", "")) for line in told if "seconds" in line}
    assert {
        ("ingest", ""),
        ("split", ""),
        ("report", ""),
        ("aggregate", "gdp_tabicl"),
        ("randomise", "ldp_tabicl"),
    } <= ended
    # what workers do
    assert {("score", "gdp_tabicl"), ("score", "ldp_tabicl"), ("evaluate", "ldp_tabicl")} <= ended
    # a line came twice or from elsewhere
    assert len(told) == len(
        [line for line in told if line["stage"] == line["message"].split(":")[0]]
    )
    assert not hits({"err": done.stderr.encode(), "out": done.stdout.encode()}, CANARIES)
    # the search is blind
    assert hits({"err": done.stderr.encode()}, ["gdp_tabicl__logged__seed0"])
