"""What the owner of the ledger does, it does between what workers are given: nobody waits for a
step of another unit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.errors import BudgetError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.runs.execute import InProcess, Step, run_units
from dpicl.runs.plan import make_plan
from tests.harness import (
    Place,
    charged,
    install,
    install_texts,
    letters,
    new_place,
    shop,
    shop_rows,
)

GRID: dict[str, Any] = {
    "methods": ["gdp_tabicl"],
    "datasets": ["shop"],
    "epsilons": ["1"],
    "shots": [1],
    "model": "fake",
}


class Killed(BaseException):
    """As a signal ends a process."""


class Noting(InProcess):
    """Notes what is done, in order: the stage and the number of its unit; `killed` before one of
    these is begun.
    """

    def __init__(self, killed: tuple[str, str] | None = None) -> None:
        self.done: list[tuple[str, str]] = []
        self.looked: list[bool] = []
        self._killed = killed

    def call(self, step: Step) -> None:
        self._note(step)
        super().call(step)

    def submit(self, step: Step) -> Any:
        self._note(step)
        return super().submit(step)

    def wait(self, jobs: Collection[Any], *, at_once: bool) -> Mapping[Any, Exception | None]:
        self.looked.append(at_once)
        return super().wait(jobs, at_once=at_once)

    def _note(self, step: Step) -> None:
        unit = str(step.references[1])[-1] if len(step.references) > 1 else ""
        if (step.stage.name, unit) == self._killed:
            raise Killed
        self.done.append((step.stage.name, unit))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = new_place(tmp_path / "place")
    install(place, shop(private=True))
    (place.root / "data" / "shop_queries.csv").write_text(shop_rows(6, seed=1))
    return place


def digests() -> dict[str, str | None]:
    """Of the artefacts by release."""
    return {entry.release.release_id: entry.artefact_sha256 for entry in charged()}


def test_workers_are_given_what_they_may_do_before_the_owner_s_next_step_which_is_of_the_unit_that_is_furthest(  # noqa: E501
    place: Place,
) -> None:
    with place.entered():
        run, noting = make_plan("private", {**GRID, "seeds": list(range(5))}, "r"), Noting()
        run_units(run, noting)
    at = {step: number for number, step in enumerate(noting.done)}
    # a cap is spent in the order of the plan
    assert [unit for name, unit in noting.done if name == "charge"] == list("01234")
    assert at["subsample", "0"] < at["charge", "1"] < at["subsample", "1"] < at["charge", "2"]
    # workers may score the first before the last is charged
    assert at["release", "0"] < at["serialize", "0"] < at["charge", "4"]
    # what has ended is looked for between steps of the owner, and waited for without
    assert True in noting.looked
    assert False in noting.looked


def test_units_that_share_a_pass_wait_for_each_other_s_charges(tmp_path: Path) -> None:
    place = new_place(tmp_path / "place")
    install_texts(place, letters(private=False))
    with place.entered():
        grid = {
            **GRID,
            "methods": ["few_shot_generation"],
            "datasets": ["letters"],
            "seeds": [0, 1],
        }
        noting = Noting()
        run_units(make_plan("demo", grid, "r"), noting)
    names = [name for name, _ in noting.done]
    assert names.count("charge") == 2
    assert names.index("generate") > names.index("charge", names.index("charge") + 1)
    # one pass of the model is of both
    assert names.count("generate") == 1


def test_a_unit_that_the_budget_does_not_allow_is_refused_amid_others_that_are_charged_and_published(  # noqa: E501
    place: Place,
) -> None:
    with place.entered():
        run_units(make_plan("private", {**GRID, "seeds": [0]}, "first"), InProcess())
        run = make_plan("private", {**GRID, "seeds": [1, 2, 3]}, "r")
        # as another command, between the plan and the charge
        with open_ledger(Settings.from_environment()) as ledger:
            each = ledger.spent("shop").epsilon
            ledger.set_cap("shop", 3.5 * each)
        noting = Noting()
        with pytest.raises(BudgetError):
            run_units(run, noting)
        assert ("charge", "3") in noting.done and ("subsample", "3") not in noting.done
        assert len(digests()) == 3 and all(digests().values())
    assert sorted(path.parent.name[-1] for path in run.glob("units/*/results.json")) == ["1", "2"]


@pytest.mark.parametrize(
    "at", [("subsample", "1"), ("aggregate", "0"), ("release", "0"), ("charge", "2")]
)
def test_a_run_that_is_killed_between_its_charges_goes_on_and_pays_nothing_twice(
    place: Place, at: tuple[str, str]
) -> None:
    with place.entered():
        run = make_plan("private", {**GRID, "seeds": [0, 1, 2]}, "r")
        with pytest.raises(Killed):
            run_units(run, Noting(at))
        before = digests()
        assert 0 < len(before) < 4 and None in before.values()
        run_units(run, InProcess())
        after = digests()
    assert len(after) == 3 and all(after.values()) and before.keys() <= after.keys()
    assert all(after[name] == sha256 for name, sha256 in before.items() if sha256)
