"""A large table is prepared and counted batch by batch: once each, whoever dies, whatever the cut,
and nothing private stays.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.data.reading.files import WHOLE_ROWS, Survey
from dpicl.ground.errors import RunError
from dpicl.release.table_files import Batches
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import rows_of
from tasks.stages import charge, count, ingest, prepare, split
from tests.harness import SMALL, Place, content, new_place, shop
from tests.tasks.in_batches import attempt, install_folder, small_batches
from tests.tasks.test_killed_at_every_file import check_modes

WAYS = {"ldp_tabicl": {"variants": {"subset": {"design": "subset", "estimator": "log-linear"}}}}
GRID = {**SMALL, "datasets": ["shop"], "epsilons": ["1"], "baselines": False, "options": WAYS}
UNITS = {"gdp_tabicl": "gdp_tabicl__shop__seed0", "ldp_tabicl": "ldp_tabicl__shop__seed0"}


def folder_place(root: Path, **options: Any) -> Place:
    place = new_place(root)
    install_folder(place, **options)
    return place


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["gdp_tabicl"])
def test_a_private_run_killed_at_every_file_draws_for_each_batch_once(
    tmp_path: Path, method: str
) -> None:
    """What is drawn from the operating system cannot come out equal by a second draw."""
    place, seen, deaths = folder_place(tmp_path / "place", rows=60, private=True), {}, 0
    while (code := attempt(place, {**GRID, "methods": [method]}, "placed")) != 0:
        assert code == -signal.SIGKILL and (deaths := deaths + 1) < 200
        now = {
            str(path): path.read_bytes()
            for path in (place.home / "private").glob("**/counts/*.npz")
        }
        assert all(now.get(name) == data for name, data in seen.items())
        seen = now
    assert len(seen) == 3


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, str]:
    """A private table that was ingested in this process, and its run."""
    import dpicl.data.reading.files
    import dpicl.data.reading.source

    for module in (dpicl.data.reading.source, dpicl.data.reading.files):
        monkeypatch.setattr(module, "BATCH_ROWS", module.BATCH_ROWS)  # put back after the test
    small_batches()
    place = folder_place(tmp_path / "place", private=True)
    with place.entered():
        run = str(make_plan("private", GRID, "r"))
        ingest.fn(run, "shop")
    return place, run


def test_workers_do_parts_and_nothing_twice(prepared: tuple[Place, str]) -> None:
    place, run = prepared
    with place.entered():
        assert rows_of(run, "shop").batches is not None
        assert [prepare.fn(run, "shop", part, 2) for part in range(2)] == [
            "part 1 of 2",
            "part 2 of 2",
        ]
        before = content(place.home / "private" / "shop")
        assert ingest.fn(run, "shop") == "already done"
        assert prepare.fn(run, "shop", 0, 1) == "part 1 of 1"
        assert content(place.home / "private" / "shop") == before


@pytest.mark.parametrize("method", UNITS)
def test_nothing_is_counted_before_it_is_charged_and_nothing_twice(
    prepared: tuple[Place, str], method: str
) -> None:
    place, run = prepared
    with place.entered():
        split.fn(run, "shop")
        with pytest.raises(RunError, match="its releases are not charged"):
            count.fn(run, UNITS[method], 0, 1)
        assert not list((place.home / "private").glob("**/counts/*"))
        charge.fn(run, UNITS[method])
        count.fn(run, UNITS[method], 1, 2)
        before = content(place.home / "private")
        count.fn(run, UNITS[method], 0, 1)
        after = content(place.home / "private")
        assert before.items() <= after.items() and len(after) > len(before)
        check_modes(place.home / "private")


def test_batches_of_a_query_that_are_gone_are_not_asked_for_again(
    prepared: tuple[Place, str],
) -> None:
    place, _ = prepared
    with place.entered():
        found = rows_of(str(place.run("r")), "shop").batches
        assert found is not None and isinstance(found.survey, Survey)
        with pytest.raises(RunError, match="shop: a batch of its query is gone; start a new run"):
            Batches(found.contract, found.place, 5, None).prepare(2)


def test_batches_are_of_one_contract(prepared: tuple[Place, str]) -> None:
    place, run = prepared
    changed = {**shop(private=True), "population": WHOLE_ROWS + 1}
    changed["columns"]["age"]["bounds"] = [0, 130]
    changed["source"] = yaml.safe_load((place.root / "contracts" / "shop.yaml").read_text())[
        "source"
    ]
    (place.root / "contracts" / "shop.yaml").write_text(yaml.safe_dump(changed, sort_keys=False))
    with (
        place.entered(),
        pytest.raises(
            RunError, match="shop: its rows were prepared under another contract; start a new run"
        ),
    ):
        _ = rows_of(run, "shop").batches


def test_a_worker_that_comes_after_the_run_leaves_nothing_private(
    prepared: tuple[Place, str],
) -> None:
    place, _ = prepared
    with place.entered():
        found = rows_of(str(place.run("r")), "shop").batches
        assert found is not None
        shutil.rmtree(place.home / "private")
        with pytest.raises(RunError, match="the run has ended meanwhile"):
            found.prepare(0)
    assert not list((place.home / "private").rglob("*.arrow"))
