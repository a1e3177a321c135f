"""A run of a pipeline makes a table's nights as a command of its own does: each once, under one
charge, whoever makes them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl.ground.errors import BudgetError, ParameterError, RunError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.quality import series
from dpicl.release import horizon as horizon_module
from dpicl.release.horizon import Horizon
from dpicl.release.pipelines import load_pipelines, override
from dpicl.release.request import ReleaseRequest
from dpicl.report import quality as report_series
from dpicl.report import report_steps
from dpicl.report.quality import series_facts, series_page
from dpicl.runs import draw as advance_module
from dpicl.runs import plan as planning
from dpicl.runs.artefacts import MADE, read_draws
from dpicl.runs.chain import published, rows_ready
from dpicl.runs.execute import InProcess, call_all, run_units
from dpicl.runs.forecast import forecast
from dpicl.runs.plan import make_plan
from dpicl.runs.results import command_of
from dpicl.runs.run_folder import open_unit, read_plan, spending_of
from tests.harness import Place, edited, grid_of, new_place, rows
from tests.library.series_contracts import NAME, after, series_tree, visit, visits
from tests.tasks.test_series import as_csv, declare, night, put, same, spent, table_of
from tests.tasks.test_series import published as nights

NIGHTLY: dict[str, Any] = grid_of(
    NAME,
    "mst_tabicl",
    title="Rows of the last nights",
    epsilons=[2],
    options={"mst_tabicl": {"noise": "gaussian", "shot_selection": ["prototype"]}},
)
UNIT = f"mst_tabicl__{NAME}__seed0"

FEW = ", and hardly more than noise: that window has too few rows."
FEW_PERSONS = 6
"""Of whom a window of two nights has four rows, a ninth of their noise's deviation: one time in two
million that is taken for more than five.
"""


def nightly_place(root: Path, **pipeline: Any) -> Place:
    """With a pipeline `nightly`, and four public rows to ask."""
    place = new_place(root)
    with edited(root / "pipelines.yaml") as pipelines:
        pipelines["pipelines"]["nightly"] = {**NIGHTLY, **pipeline}
    declare(place, series_tree(queries={"file": "public.csv"}))
    asked = [
        visit(f"q{number}", 1, age=20 + 15 * number, buys=("no", "yes")[number % 2])
        for number in range(4)
    ]
    (root / "data" / "public.csv").write_text(
        "\n".join([",".join(asked[0]), *(",".join(map(str, one.values())) for one in asked)]) + "\n"
    )
    put(place, visits())
    return place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = nightly_place(tmp_path / "place")
    with place.entered():
        yield place


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the time at which runs are planned, and go on."""

    def is_after(day: int) -> None:
        for module in (planning, advance_module):
            monkeypatch.setattr(module, "clock", lambda: after(day))

    return is_after


def planned_run(run_id: str, **changes: Any) -> Path:
    return make_plan("nightly", changes, run_id)


def done(run: Path) -> Path:
    """All of it."""
    run_units(run, InProcess(), report_steps(run))
    return run


def made(run: Path) -> Path:
    """Up to what is published of every unit: the rest is as of any run."""
    for key in read_plan(run).units:
        call_all(rows_ready, str(run), NAME)
        call_all(published, str(run), key)
    return run


def told(run: Path, unit: str = UNIT) -> list[str]:
    """What a run says of the periods."""
    return list(json.loads((run / "units" / unit / MADE).read_text()))


def facts() -> Any:
    """What a page over all periods says."""
    return series_facts(ReleaseRequest(dataset=NAME, epsilon=2), Settings.current(), window=3)


def released(run: Path, unit: str = UNIT) -> Any:
    """Noisy counts of the run's windows, by cell."""
    return read_draws(open_unit(str(run), unit))


def equal(one: Any, other: Any) -> bool:
    """Whether two windows have the same counts."""
    return all(
        np.array_equal(a.counts, b.counts)
        for a, b in zip(one.marginals, other.marginals, strict=True)
    )


def test_a_run_makes_the_nights_that_are_missing(place: Place, today: Any) -> None:
    put(place, visits(persons=FEW_PERSONS))
    today(3)
    run = made(planned_run("third"))
    assert read_plan(run).periods == {NAME: "2026-03-03"}
    assert len(nights()) == 3
    assert spent() == (pytest.approx(2, rel=0.01), 4)
    today(7)
    run = made(planned_run("seventh", window=2))
    assert len(nights()) == 7 and spent() == (pytest.approx(2, rel=0.01), 8)
    assert told(run) == [
        "visits: 4 periods released now, 7 of 12 in all; rows are of 2026-03-06 to 2026-03-07" + FEW
    ]


@pytest.mark.exhaustive
def test_a_whole_run_answers_with_rows_of_its_window_and_reports_it(
    place: Place, today: Any
) -> None:
    put(place, visits(persons=FEW_PERSONS))
    night(3)
    today(7)
    run = done(planned_run("seventh", window=2))
    charged, *periods = json.loads((run / "manifest.json").read_text())["budget"]
    assert charged.startswith("visits: 1 release, charged before and free now; epsilon ")
    assert periods == [
        "visits: 4 periods released now, 7 of 12 in all; rows are of 2026-03-06 to 2026-03-07" + FEW
    ]
    results = rows(run / "results.csv")
    assert {row["system"] for row in results} >= {"icl", "icl-prototype", "zero-shot"}
    assert all(row["accuracy"] for row in results)
    # the rows of the run are gone
    assert not list(Settings.current().private_home.glob(f"{NAME}/*"))
    assert "2026-03-06 to 2026-03-07" in (run / "report.html").read_text()


def test_a_run_and_a_command_make_the_same_series(place: Place, today: Any) -> None:
    """Whichever came first; and a window is the same of both."""
    night(2)
    today(4)
    run = made(planned_run("fourth", window=3))
    stands = nights()
    theirs = night(4, window=3)
    assert len(stands) == 4 and same(nights(), stands)
    (ours,) = released(run).values()
    assert equal(ours, theirs.drawn)


def test_every_epsilon_and_every_seed_is_a_horizon_of_its_own_and_charged_as_such(
    place: Place, today: Any
) -> None:
    today(2)
    run = made(planned_run("both", epsilons=["1", "0.5"]))
    assert spending_of(run, read_plan(run).units) == {NAME: (2, 2)}
    for line, epsilon in zip(told(run), ("1", "0.5"), strict=True):
        assert f", epsilon {epsilon}: 2 periods" in line
    before, count = spent()
    assert count == 2 + 4 and 1 < before < 1.5
    made(planned_run("again", epsilons=["1"], seeds=[0, 1]))
    # the second seed is another horizon
    assert spent()[1] == 6 + 3 and spent()[0] > before
    with pytest.raises(BudgetError, match="of cap 3"):
        planned_run("third", epsilons=["2.9"])


def test_a_run_is_about_the_periods_that_were_over_when_it_was_planned(
    place: Place, today: Any
) -> None:
    """Also where it is resumed days later; the nights since belong to the next run."""
    today(2)
    run = planned_run("second")
    today(9)
    resumed = make_plan("", {}, "second", resume=True)
    assert made(resumed) == run and len(nights()) == 2
    made(planned_run("ninth"))
    assert len(nights()) == 9


def test_what_is_not_over_or_no_horizon_is_refused_before_a_row_is_read(
    place: Place, today: Any
) -> None:
    table_of(place).write_text("no table at all")
    today(0)
    with pytest.raises(
        ParameterError, match="period=2026-03-01: expected a period of visits that is over"
    ):
        planned_run("zeroth")
    today(2)
    with pytest.raises(
        ParameterError, match="period=2026-03-03: expected a period of visits that is over"
    ):
        make_plan("nightly", {}, "early", period="2026-03-03")
    with pytest.raises(ParameterError, match="one of the horizon's 12"):
        make_plan("nightly", {}, "never", period="2026-12")
    with pytest.raises(
        ParameterError,
        match="methods=aim_tabicl: expected mst_tabicl alone, which counts the horizon of visits",
    ):
        planned_run("mixed", methods=["mst_tabicl", "aim_tabicl"])
    with pytest.raises(
        ParameterError,
        match="window=3: expected no such option: visits has no horizon that AIM-TabICL counts",
    ):
        planned_run("other", methods=["aim_tabicl"], window=3)
    with pytest.raises(ParameterError, match="gaussian: visits has a horizon"):
        make_plan("mst-tabicl", {"datasets": [NAME], "epsilons": [1]}, "laplace")
    with open_ledger(Settings.current()) as ledger:
        assert not any(ledger.entries(account.name) for account in ledger.accounts())


def test_the_command_of_a_run_has_its_window_and_the_period_that_all_its_tables_share(
    place: Place, today: Any
) -> None:
    today(3)
    run = planned_run("third", window=2)
    plan = read_plan(run)
    assert "--window 2" in command_of(plan) and "--period 2026-03-03" in command_of(plan)
    assert "--period" not in command_of(
        replace(plan, periods={NAME: "2026-03-03", "other": "2026-03-04"})
    )


@pytest.mark.quick("_counted")
@pytest.mark.parametrize("place_of_death", ["_counted", "_released", "_read", "published"])
def test_a_run_that_is_killed_goes_on_and_draws_nothing_twice(
    place: Place, today: Any, place_of_death: str
) -> None:
    """By a signal: before a night is counted, before it is noted, after it is published, and before
    anything.
    """
    today(4)
    run = planned_run("killed")

    def die() -> None:
        setattr(Horizon, place_of_death, lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL))
        made(run)

    process = get_context("fork").Process(target=die)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    stands = nights()
    put(place, visits(persons=9))  # the rows that were read for the run are those of the run
    made(make_plan("", {}, "killed", resume=True))
    assert len(nights()) == 4 and same(nights()[: len(stands)], stands) and spent()[1] == 5


def test_twins_draw_each_night_once(
    place: Place, today: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second scheduler's run that comes between a run's rows and its charge."""
    today(3)
    ours, theirs = planned_run("ours"), planned_run("theirs")
    call_all(rows_ready, str(ours), NAME)
    put(place, visits(persons=21))
    made(theirs)
    stands = nights()
    call_all(published, str(ours), UNIT)
    (one,), (other,) = released(ours).values(), released(theirs).values()
    assert equal(one, other)
    assert same(nights(), stands) and spent()[1] == 4


def test_a_failure_quotes_no_row_and_is_tried_again_where_nothing_was_charged_twice(
    place: Place, today: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a library that names the values it stumbles on, in the second of three nights."""
    today(3)
    run, quoted = planned_run("quoting"), "p17 canary"
    counts, calls = horizon_module.entering_counts, list[int]()

    def failing(series: Any, table: Any, *how: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError(f"cannot count {quoted} in {table.data.to_pylist()}")
        return counts(series, table, *how, **more)

    monkeypatch.setattr(horizon_module, "entering_counts", failing)
    with pytest.raises(
        RunError,
        match=r"first mst_tabicl__visits__seed0: advance: ValueError at failing:\d+; the rest is "
        r"done",
    ) as failed:
        run_units(run, InProcess(), report_steps(run))
    public = [path for path in run.rglob("*") if path.is_file()]
    assert public and not any(quoted.encode() in path.read_bytes() for path in public)
    assert quoted not in caplog.text + str(failed.value) and "sex" not in str(failed.value)
    assert len(nights()) == 1
    made(run)
    assert len(nights()) == 3 and len(calls) == 4 and spent()[1] == 4
    # the try that failed was charged, and its run says so
    assert spending_of(run, read_plan(run).units) == {NAME: (1, 1)}
    assert "3 periods released now" in told(run)[0]


def test_the_forecast_of_a_schedule_charges_a_horizon_once(place: Place, today: Any) -> None:
    settings = Settings.current()
    pipeline = override(
        load_pipelines(settings.pipelines).pipelines["nightly"],
        {"schedule": {"cron": "10 0 * * *"}},
    )
    today(1)
    (line,) = forecast("nightly", pipeline, settings, now=after(1))
    assert (line.due, line.affordable) == (1, 1)
    made(planned_run("first"))
    (line,) = forecast("nightly", pipeline, settings, now=after(1))
    assert line.due == 0 and "the scheduled runs cost nothing" in line.sentence


def test_a_page_tests_rows_of_each_period_on_public_rows_and_reads_nothing_private(
    place: Place,
) -> None:
    """The table and its frozen counts are gone by then; and so, at last, are the public rows."""
    night(6)
    table_of(place).unlink()
    shutil.rmtree(place.home / "series")
    shutil.rmtree(Settings.current().private_home, ignore_errors=True)
    before = spent()
    page = series_page(found := facts())
    assert (
        [one.period for one in found.aucs]
        == [one.period for one in found.errors]
        == [f"2026-03-0{day}" for day in range(1, 7)]
    )
    # four public rows tell little
    assert all(0 <= one.recent <= 1 and (one.total_deviation or 0) > 0.1 for one in found.aucs)
    assert found.aucs[0].total == found.aucs[0].recent
    assert found.errors[0].total == found.errors[0].recent
    for said in (
        "Accuracy by period",
        "on 4 public rows",
        "AUC by period",
        "Expected error by period",
        "<svg",
        "last 3",
    ):
        assert said in page
    (place.root / "data" / "public.csv").unlink()
    assert "No classifier is tested: visits: no queries at hand" in series_page(facts())
    assert spent() == before


def test_a_page_judges_few_of_many_periods_and_says_why_there_is_no_classifier(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "MOST_MODELS", 3)
    monkeypatch.setattr(report_series, "MOST_MODELS", 3)
    night(7)
    found = facts()
    assert [one.period for one in found.aucs] == ["2026-03-01", "2026-03-04", "2026-03-07"]
    assert len(found.errors) == 7
    assert "3 of the periods are judged" in series_page(found)
    (place.root / "data" / "public.csv").write_text(as_csv([visit("q", 1), visit("r", 1)]))
    assert "All public rows have one answer" in series_page(facts())
