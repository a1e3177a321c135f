"""A large table is prepared and counted batch by batch: once each, whoever dies, whatever the cut,
and nothing private stays.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from dpicl.data.reading.files import Survey
from dpicl.ground.errors import PrivacyError, RunError
from dpicl.home.settings import Settings
from dpicl.release.table_files import Batches
from dpicl.report import report_steps
from dpicl.runs.execute import InProcess, Step, run_units
from dpicl.runs.plan import make_plan
from dpicl.runs.results import left_out
from dpicl.runs.run_folder import read_plan, rows_of
from dpicl.runs.worth import WORTH
from tasks.stages import charge, count, ingest, prepare, split
from tests.harness import SMALL, Place, content, edited, install, shop
from tests.tasks.in_batches import attempt, install_folder, small_batches
from tests.tasks.test_killed_at_every_file import check_modes

WAYS = {"ldp_tabicl": {"variants": {"subset": {"design": "subset", "estimator": "log-linear"}}}}
GRID = {**SMALL, "datasets": ["shop"], "epsilons": ["1"], "baselines": False, "options": WAYS}


@pytest.mark.exhaustive
def test_a_private_run_killed_at_every_file_draws_for_each_batch_once(place: Place) -> None:
    """What is drawn from the operating system cannot come out equal by a second draw."""
    install_folder(place, rows=60, private=True)
    private, seen, deaths = place.home / "private", dict[Path, bytes](), 0
    while (code := attempt(place, {**GRID, "methods": ["gdp_tabicl"]}, "placed")) != 0:
        assert code == -signal.SIGKILL and (deaths := deaths + 1) < 200
        now = {path: path.read_bytes() for path in private.glob("**/counts/*.npz")}
        assert seen.items() <= now.items()
        seen = now
    assert len(seen) == 3


@pytest.fixture
def run(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a private table that was ingested in this process."""
    small_batches(monkeypatch)
    install_folder(place, private=True)
    run = str(make_plan("private", GRID, "r"))
    ingest.fn(run, "shop")
    return run


def batches_of(run: str) -> Batches:
    found = rows_of(run, "shop").batches
    assert found is not None
    return found


def test_workers_do_parts_and_nothing_twice(place: Place, run: str) -> None:
    assert batches_of(run)
    parts = [prepare.fn(run, "shop", part, 2) for part in range(2)]
    assert parts == ["part 1 of 2", "part 2 of 2"]
    before = content(place.home / "private" / "shop")
    assert ingest.fn(run, "shop") == "already done"
    assert prepare.fn(run, "shop", 0, 1) == "part 1 of 1"
    assert content(place.home / "private" / "shop") == before


@pytest.mark.parametrize("method", ["gdp_tabicl", "ldp_tabicl"])
def test_nothing_is_counted_before_it_is_charged_and_nothing_twice(
    place: Place, run: str, method: str
) -> None:
    unit, private = f"{method}__shop__seed0", place.home / "private"
    split.fn(run, "shop")
    with pytest.raises(RunError, match="its releases are not charged"):
        count.fn(run, unit, 0, 1)
    assert not list(private.glob("**/counts/*"))
    charge.fn(run, unit)
    count.fn(run, unit, 1, 2)
    before = content(private)
    count.fn(run, unit, 0, 1)
    after = content(private)
    assert before.items() <= after.items() and len(after) > len(before)
    check_modes(private)


def test_batches_of_a_query_that_are_gone_are_not_asked_for_again(run: str) -> None:
    found = batches_of(run)
    assert isinstance(found.survey, Survey)
    with pytest.raises(RunError, match="shop: a batch of its query is gone; start a new run"):
        Batches(found.contract, found.place, 5, None).prepare(2)


def test_batches_are_of_one_contract(place: Place, run: str) -> None:
    with edited(place.root / "contracts" / "shop.yaml") as contract:
        contract["columns"]["age"]["bounds"] = [0, 130]
    with pytest.raises(
        RunError, match="shop: its rows were prepared under another contract; start a new run"
    ):
        batches_of(run)


def test_a_worker_that_comes_after_the_run_leaves_nothing_private(place: Place, run: str) -> None:
    found = batches_of(run)
    shutil.rmtree(place.home / "private")
    with pytest.raises(RunError, match="the run has ended meanwhile"):
        found.prepare(0)
    assert not list((place.home / "private").rglob("*.arrow"))


@pytest.mark.parametrize(("workers", "parts"), [(1, 16), (8, 16), (9, 18), (100, 200)])
def test_a_table_is_cut_into_two_pieces_of_work_for_each_worker(
    place: Place, monkeypatch: pytest.MonkeyPatch, workers: int, parts: int
) -> None:
    """However many batches there are: here five."""
    submitted: list[Step] = []

    class Noting(InProcess):
        def submit(self, step: Step) -> Any:
            submitted.append(step)
            return super().submit(step)

    small_batches(monkeypatch)
    install_folder(place)
    run, executor = make_plan("private", {**GRID, "methods": ["gdp_tabicl"]}, "r"), Noting()
    executor.workers = workers
    run_units(run, executor)
    pieces = [step.references[2:] for step in submitted if step.stage.name in ("prepare", "count")]
    assert pieces == 2 * [(part, parts) for part in range(parts)]


def test_true_rows_that_are_read_in_batches_are_shown_beside_no_release(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them would be in memory at once."""
    install(place, shop("few"))
    small_batches(monkeypatch)
    install_folder(place)
    shown = {}
    for name in ("few", "shop"):
        run = make_plan("private", {**GRID, "datasets": [name], "methods": ["mst_tabicl"]}, name)
        run_units(run, InProcess(), report_steps(run))
        shown[name] = [file for file in content(run) if file.endswith(WORTH)]
    assert shown["few"] and not shown["shop"]


def test_baselines_that_need_all_rows_are_left_out_where_rows_are_read_in_batches(
    place: Place,
) -> None:
    install(place, shop("few"))
    install_folder(place)
    grid = {**SMALL, "datasets": ["few", "shop"], "methods": ["gdp_tabicl"]}
    plan = read_plan(make_plan("demo", grid, "r"))
    settings = Settings.current()
    (told,) = left_out(plan, {name: settings.declared(name) for name in ("few", "shop")})
    assert told.startswith("Baselines of GDP-TabICL on shop are left out: they need all rows")
    with pytest.raises(PrivacyError, match="shop: `baselines: true` asks for classifiers"):
        make_plan("demo", {**grid, "baselines": True}, "other")
