"""A method that is registered and wired nowhere is refused wherever it comes, and never taken for another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dpicl.engine.stages.reconstruct
import pytest
from dpicl.methods.interface import check_method, checked

import dpicl.engine.one_release
import dpicl.engine.run_folder
import dpicl.engine.stages.count
import dpicl.engine.stages.fit_baselines
import dpicl.engine.stages.serialize
import flows.wiring
import tasks.publish
from dpicl.engine.pipelines import Pipeline
from dpicl.engine.plan import begin
from dpicl.engine.run_folder import Plan, UnitFolder
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, PrivacyError
from dpicl.lm.models import ModelSpec
from dpicl.methods import METHODS, Options, unit_of
from dpicl.methods.common import check_supported
from dpicl.pipeline import Unit
from tests.harness import Place, install, new_place, shop
from tests.library import toy_method
from tests.library.examples import ROOT, private_contract, small_contract

TOY = "toy_method"
STATED = ("DATA", "TRUST", "MODEL_READS_ROWS", "BASELINES", "ANSWERS_QUERIES", "VERSION", "answers")
FUNCTIONS = ("identity", "releases", "costs", "statement", "truth_of", "run", "baselines")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a session that adds a method and forgets the rest."""
    monkeypatch.setitem(METHODS, TOY, toy_method)


def _unit(baselines: bool = False) -> Unit:
    return unit_of(TOY, "shop", 0, (1.0,), (1,), (), baselines, Options())  # type: ignore[arg-type]


def _folder(tmp_path: Path) -> UnitFolder:
    return UnitFolder(tmp_path, _unit(), small_contract(), Settings(tmp_path, None, tmp_path, tmp_path, tmp_path))


class NoBatches(SimpleNamespace):
    """Batches without a row."""

    def train(self, number: int) -> None:
        """None of any."""


PLACES: dict[str, Callable[[UnitFolder], Any]] = {
    "dpicl.pipeline.Unit.systems": lambda folder: folder.unit.systems,
    "dpicl.engine.stages.fit_baselines": dpicl.engine.stages.fit_baselines._measure,
    "dpicl.engine.stages.reconstruct": dpicl.engine.stages.reconstruct._rows,
    "dpicl.engine.stages.count": lambda folder: dpicl.engine.stages.count._drawn(folder, NoBatches(), 0, []),  # type: ignore[arg-type]
    "dpicl.engine.stages.serialize": lambda folder: wired(
        dpicl.engine.stages.serialize._SERIALISE, folder.unit.method, "dpicl.engine.stages.serialize"
    ),
    "tasks.publish": lambda folder: wired(tasks.publish._ROWS, folder.unit.method, "tasks.publish"),
    "flows.wiring": lambda folder: flows.wiring._hand_in(str(folder.run), folder.unit.key, folder.unit),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_that_goes_by_the_method_refuses_one_that_it_does_not_know(place: str, tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match=f"^method 'toy_method': {place} does not know it; expected one of .*mst_tabicl"):
        PLACES[place](_folder(tmp_path))


def test_no_command_takes_it(place: Place) -> None:
    with place.entered(), pytest.raises(DpiclError, match="method=toy_method: expected one of"):
        dpicl.engine.one_release.protect("shop", TOY, Settings.from_environment(), epsilon="1", shots=1)
    stored = {"pipeline": {"methods": [TOY, "gdp_tabicl"], "writer": None}}
    assert dpicl.engine.run_folder._versions(stored) == {TOY: 0, "gdp_tabicl": 3}, "an old plan that does not say goes on with no version"


def test_a_method_that_is_not_even_registered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METHODS, TOY)
    with pytest.raises(PrivacyError, match="METHODS does not know it"):
        check_supported(small_contract(), _unit())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A capped table that nobody can read."""
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), "this is no table: whoever reads it fails")
    yield place


def test_its_baselines_on_private_rows_are_refused_before_a_row_is_read(place: Place) -> None:
    content = {"title": "t", "methods": ["gdp_tabicl"], "datasets": ["shop"], "epsilons": [1], "shots": [1], "seeds": [0]}
    pipeline = Pipeline.model_validate(content).model_copy(update={"methods": (TOY,)})
    with place.entered(), pytest.raises(PrivacyError, match="shop: central baselines read the rows again and are charged to no budget"):
        begin(Plan("r", "demo", pipeline, ModelSpec(name="fake", kind="fake")), Settings.from_environment())
    assert not place.run("r").exists() and not (place.home / "private").exists()


def test_what_a_method_says_of_its_baselines_decides_and_not_its_name() -> None:
    with pytest.raises(PrivacyError, match="run with baselines off"):
        check_supported(private_contract(), _unit(baselines=True))
    check_supported(private_contract(), _unit())
    check_supported(small_contract(), _unit(baselines=True))


@pytest.mark.parametrize("name", [*STATED, *FUNCTIONS])
def test_a_method_that_leaves_something_out_is_refused(name: str) -> None:
    lacking = SimpleNamespace(**{key: value for key, value in vars(toy_method).items() if key != name})
    with pytest.raises(PrivacyError, match=f"^method 'toy': {name}: is .*; expected "):
        check_method("toy", lacking)
    check_method("toy", toy_method)


@pytest.mark.parametrize(
    ("name", "value"), [("TRUST", "Central"), ("BASELINES", False), ("DATA", None), ("VERSION", "1"), ("VERSION", True)]
)
def test_a_word_that_means_nothing_is_as_none(name: str, value: object) -> None:
    with pytest.raises(PrivacyError, match=f"{name}: is not stated"):
        check_method("toy", SimpleNamespace(**{**vars(toy_method), name: value}))


def test_the_registry_is_what_pipelines_may_name() -> None:
    with pytest.raises(PrivacyError, match="METHODS: is not what MethodName lists"):
        checked(METHODS)
    known: dict[str, Any] = {name: method for name, method in METHODS.items() if name != TOY}
    assert checked(known) == known and all(isinstance(method, ModuleType) for method in known.values())


def test_a_program_with_a_method_that_is_half_wired_does_not_start() -> None:
    """Not only once its release was charged."""
    program = (
        "from dpicl.methods import METHODS\nfrom tests.library import toy_method\nMETHODS['toy_method'] = toy_method\nimport flows.wiring"
    )
    started = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert started.returncode == 1
    assert "PrivacyError: method 'toy_method': dpicl.engine." in started.stderr.splitlines()[-1]
