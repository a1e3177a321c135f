"""A dry run that was answered opens no model again, and asks anew where anything that the answer
hangs on has changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpicl.home.settings import Settings
from dpicl.models.kinds.local import BUNDLED
from dpicl.runs.model_check import FOLDER, remembered
from dpicl.runs.plan import plan_for
from tests.cli.conftest import Cli
from tests.harness import Place, grid_of, install, shop

GRID = "--datasets till --methods gdp_tabicl --epsilons 1 --shots 2 --seeds 0"


@pytest.fixture
def till(place: Place) -> Place:
    install(place, shop("till", private=True))
    return place


def _where(till: Place, model: str, **changes: object) -> Path | None:
    settings = Settings.from_environment()
    grid = grid_of("till", "gdp_tabicl", model=model, **changes)
    return remembered(plan_for("demo", grid, settings), settings)


def test_a_model_that_answered_is_not_opened_again(
    till: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cli(f"run demo {GRID} --model tiny --dry-run")
    monkeypatch.setattr(
        "dpicl.cli.planned_run.probe", lambda _: pytest.fail("the model is asked again")
    )
    again = cli(f"run demo {GRID} --model tiny --dry-run")
    assert "it answered public test prompts. Nothing" in first
    assert "it answered public test prompts on 2" in again
    assert len(list((till.home / "models" / FOLDER).iterdir())) == 1


def test_what_is_remembered_hangs_on_questions_files_and_model(till: Place, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(BUNDLED, model)
    places = [
        _where(till, "tiny"),
        _where(till, "bundled"),
        _where(till, str(model)),
        _where(till, "tiny", shots=[4]),
    ]
    with (model / "tokenizer_config.json").open("a") as file:
        file.write("\n")
    places.append(_where(till, str(model)))
    assert None not in places
    assert len(set(places)) == len(places) and _where(till, "tiny") == places[0]


@pytest.mark.parametrize("model", ["fake", "http://127.0.0.1:1/v1#m", "nosuch/model-7b"])
def test_servers_and_models_that_are_not_there_are_asked_each_time(till: Place, model: str) -> None:
    assert _where(till, model) is None
