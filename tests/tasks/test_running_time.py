"""A pipeline with `within_hours` begins nothing once its time is over, says so, and ends as a run
that is done; benchmarks only.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.ground.errors import DeclarationError, PrivacyError
from dpicl.home.settings import Settings
from dpicl.release.pipelines import load_pipelines
from dpicl.report import report_steps
from dpicl.report.load import load_run
from dpicl.runs import run_folder
from dpicl.runs.execute import InProcess, WorkerPool, run_units
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import RUNNING, begun_together, not_run, read_plan, running
from flows.metrics import RunReader
from lab.compare.sides import side_of
from tests.harness import REPOSITORY, Place, World, install, new_place, shop

AN_INSTANT = 5e-5
"""Hours: nothing but the first begins in them."""
GRID: dict[str, Any] = {
    "methods": ["gdp_tabicl", "mst_tabicl"],
    "datasets": ["kiosk", "stall"],
    "epsilons": ["1"],
    "shots": [1],
    "seeds": [0, 1],
    "model": "fake",
    "within_hours": AN_INSTANT,
}
LEFT = ["seed 0 of stall", "seed 1 of kiosk", "seed 1 of stall"]
SAID = f"Not run, as its {AN_INSTANT:g} h were over: {', '.join(LEFT)}."


def a_place(place: Place) -> Place:
    for name in GRID["datasets"]:
        install(place, shop(name))
    return place


def work(run: Path, executor: str = "here") -> None:
    if executor == "here":
        run_units(run, InProcess(), report_steps(run))
        return
    with WorkerPool(2, Settings.from_environment()) as pool:
        run_units(run, pool, report_steps(run))


def done(run: Path) -> set[str]:
    return {path.parent.name for path in run.glob("units/*/results.json")}


def ended_early(run: Path) -> None:
    """Only the first seed of the first set is there, all of it, and the report says what is not."""
    assert done(run) == {f"{method}__kiosk__seed0" for method in GRID["methods"]}
    assert load_run(run).manifest.left_out == [SAID] and SAID in (run / "report.md").read_text()
    assert list(not_run(run, read_plan(run))) == LEFT


@pytest.mark.quick("here")
@pytest.mark.parametrize("executor", ["here", "pool"])
def test_nothing_begins_once_the_time_is_over_and_the_run_is_done(
    tmp_path: Path, executor: str
) -> None:
    place = a_place(new_place(tmp_path / "place"))
    with place.entered():
        run = make_plan("demo", GRID, "r")
        work(run, executor)
        ended_early(run)
        assert side_of(run).is_done
        assert (
            next(
                one for one in RunReader(Settings.from_environment()).read()[0] if one.name == "r"
            ).finished
            is not None
        )


@pytest.mark.exhaustive
def test_nothing_begins_on_prefect_once_the_time_is_over(world: World) -> None:
    a_place(world)
    ended_early(world.sweep("instant", GRID))


def test_a_resumed_run_goes_on_counting_ends_what_has_begun_and_begins_nothing(
    tmp_path: Path,
) -> None:
    place = a_place(new_place(tmp_path / "place"))
    with place.entered():
        run = make_plan("demo", GRID, "r")
        work(run)
        before = json.loads((run / RUNNING).read_text())
        shutil.rmtree(run / "units" / "mst_tabicl__kiosk__seed0")  # as a kill leaves it
        (run / "report.md").unlink()
        work(make_plan("demo", {}, "r", resume=True))
        ended_early(run)
        after = json.loads((run / RUNNING).read_text())
        assert after["begun"] == before["begun"] == ["seed 0 of kiosk"]
        assert after["seconds"] > before["seconds"] > AN_INSTANT * 3600


def test_the_first_seed_of_every_set_begins_before_the_next(tmp_path: Path) -> None:
    with a_place(new_place(tmp_path / "place")).entered():
        plan = read_plan(make_plan("demo", GRID, "r"))
    begun = begun_together(plan, plan.units)
    assert list(begun) == ["seed 0 of kiosk", *LEFT]
    assert all(len(keys) == 2 for keys in begun.values())


def test_time_is_kept_while_it_runs_so_that_a_kill_loses_little_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "_KEPT_EVERY", 0.01)
    with a_place(new_place(tmp_path / "place")).entered():
        run = make_plan("demo", GRID, "r")
        with running(run, read_plan(run), Settings.from_environment()):
            latest = time.monotonic() + 30
            while (
                not (run / RUNNING).exists()
                or json.loads((run / RUNNING).read_text())["seconds"] < 0.05
            ):
                # the time is kept at the end alone
                assert time.monotonic() < latest
                time.sleep(0.01)


def test_time_decides_nothing_of_private_rows_whenever_they_became_private(tmp_path: Path) -> None:
    place = a_place(new_place(tmp_path / "place"))
    with place.entered():
        run = make_plan("demo", GRID, "r")
        install(place, shop("stall", private=True))
        for work_on in (lambda: make_plan("private", GRID, "other"), lambda: work(run)):
            with pytest.raises(
                PrivacyError,
                match=r"^stall: within_hours would let time decide.*expected no such key, or "
                r"contracts with `bench",
            ):
                work_on()
        assert not done(run)


@pytest.mark.parametrize("hours", [0, -1, "3 h", "inf"])
def test_other_hours_are_refused(tmp_path: Path, hours: object) -> None:
    content = yaml.safe_load((REPOSITORY / "pipelines.yaml").read_text())
    content["pipelines"]["demo"]["within_hours"] = hours
    (tmp_path / "pipelines.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(DeclarationError, match=r"pipelines\.demo\.within_hours"):
        load_pipelines(tmp_path / "pipelines.yaml")
