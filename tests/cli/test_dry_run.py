"""A dry run is the run up to its first charge: what is refused there for nothing is refused in the
same words, by a quote as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dpicl.ground.errors import DpiclError
from dpicl.home.settings import RESTORING
from dpicl.runs.plan import make_plan
from dpicl.session import Session
from tests.cli.conftest import Cli
from tests.harness import (
    Place,
    charged,
    edited,
    install,
    install_texts,
    letters,
    python,
    shop,
)

GRID = "--datasets till --methods gdp_tabicl --epsilons 1 --shots 2 --seeds 0 --model fake"


@pytest.fixture
def till(place: Place) -> Place:
    """A private table with public queries, and private texts."""
    install(place, shop("till", private=True))
    install_texts(place, letters("notes", private=True))
    return place


def _contract(place: Place, **changes: Any) -> None:
    with edited(place.root / "contracts" / "till.yaml") as content:
        content |= changes


def _pipeline(place: Place, **changes: Any) -> None:
    with edited(place.root / "pipelines.yaml") as content:
        content["pipelines"]["demo"] |= changes


def _without(name: str) -> Callable[[Place], None]:
    return lambda place: (place.root / "data" / name).unlink()


def _budget(place: Place, epsilon: float) -> None:
    with edited(place.root / "contracts" / "till.yaml") as content:
        content["privacy"]["budget"] = {"epsilon": epsilon}


def _nothing(_: Place) -> None: ...


GOES_ON = re.compile(
    r"; what was scored is kept: `dpicl run --resume demo-\d+-\d+` goes on once the server answers"
)
SET_UPS: dict[str, tuple[str, Callable[[Place], Any], str]] = {
    "a draft": ("", lambda place: _contract(place, draft=True), "till: is a draft"),
    "no rows": ("", _without("till.csv"), "till: no rows at hand"),
    "no queries": ("", _without("till_queries.csv"), "till: no queries at hand"),
    "queries that are no table": (
        "",
        lambda place: (place.root / "data" / "till_queries.csv").write_text("age\nold\n"),
        "till_queries.csv: ",
    ),
    "no texts": (
        "--datasets notes --methods few_shot_generation",
        _without("notes/train.jsonl"),
        "notes: ",
    ),
    "a file with no model": (
        "",
        lambda place: (place.root / "pipelines.yaml").write_text("pipelines: {}"),
        "or one of bundled, ",
    ),
    "no such method": ("--methods pate", _nothing, "methods"),
    "texts for a method on tables": ("--datasets notes", _nothing, "notes holds texts"),
    "no noise": ("--epsilons inf", _nothing, "epsilon=inf releases rows without noise"),
    "no such period": ("--period soon", _nothing, "period"),
    "a cap": (
        "",
        lambda place: _budget(place, 0.01),
        "account 'till': a new release costs epsilon=",
    ),
    "an unknown model": ("--model gpt", _nothing, "model 'gpt' is unknown"),
    "a model that is not there": ("--model nosuch/model-7b", _nothing, "nosuch/model-7b"),
    "a server that is not there": (
        "--model http://127.0.0.1:1/v1#m",
        _nothing,
        "nothing answers at http://127.0.0.1:1/v1: ",
    ),
    "a model that may not see texts": (
        "--datasets notes --methods few_shot_generation --model http://127.0.0.1:1/v1#m",
        _nothing,
        "raw rows stay local",
    ),
    "a run id that is a path": ("--run-id ../x", _nothing, "run id '../x'"),
    "another plan under the run's name": (
        "--run-id begun",
        lambda _: _begin("begun"),
        "run begun: its plan differs",
    ),
    "no such run": ("--resume gone", _nothing, "run gone: no such run"),
    "no such executor": ("--executor slurm", _nothing, "executor=slurm: expected pool or prefect"),
    "baselines that nobody pays for": (
        "",
        lambda place: _pipeline(place, baselines=True),
        "till: `baselines: true` asks for classifiers",
    ),
    "runs where a file is": (
        "",
        lambda place: (place.home / "runs").write_text(""),
        "folder of runs",
    ),
    "a home that is being restored": (
        "",
        lambda place: (place.home / RESTORING).write_text("2026-01-01 x"),
        "a backup of 2026-01-01 is being restored here",
    ),
}


def _begin(run_id: str, **changes: Any) -> None:
    grid = {"datasets": ["till"], "methods": ["gdp_tabicl"], "shots": [2], "model": "fake"}
    make_plan("demo", {**grid, "epsilons": [2], "seeds": [0], **changes}, run_id)


@pytest.mark.quick(
    "an unknown model", "no such method", "a file with no model", "no noise", "a cap"
)
@pytest.mark.parametrize("name", SET_UPS)
def test_a_dry_run_refuses_what_the_run_refuses(till: Place, cli: Cli, name: str) -> None:
    options, broken, phrase = SET_UPS[name]
    broken(till)
    grid = "" if "--resume" in options else f"demo {GRID}"
    line = f"run {grid} --executor pool {options}"
    dry, refused = cli.refused(f"{line} --dry-run"), cli.refused(line)
    # a run that has begun is no more begun again
    assert dry == GOES_ON.sub("; expected a server that answers: start it and try again", refused)
    assert phrase in dry and bool(GOES_ON.search(refused)) == (name == "a server that is not there")
    (till.home / RESTORING).unlink(missing_ok=True)  # else nobody could look what was charged
    assert not charged() and not list(till.home.glob("runs/.dry-run-*"))


def test_a_dry_run_of_a_run_that_goes_on_prices_what_is_missing_of_it(
    till: Place, cli: Cli
) -> None:
    _begin("half", epsilons=[1], seeds=[0, 1])
    rows = [
        line.split()
        for line in cli("run --resume half --dry-run").splitlines()
        if line.strip().startswith("till")
    ]
    # its own plan, and not the pipeline's
    assert rows[0][:3] == ["till", "2", "0"]


def test_a_private_table_runs_by_a_pipeline_with_baselines_and_the_dry_run_says_what_is_left_out(
    till: Place, cli: Cli
) -> None:
    out = cli(f"run gdp-tabicl {GRID} --dry-run")
    assert "Baselines of GDP-TabICL on till are left out" in out
    assert "The model works: it answered public test prompts. Nothing is charged yet." in out


QUOTED: dict[str, tuple[dict[str, Any], Callable[[Place], Any]]] = {
    "a draft": ({}, SET_UPS["a draft"][1]),
    "no rows": ({}, SET_UPS["no rows"][1]),
    "no queries": ({}, SET_UPS["no queries"][1]),
    "shots without groups": ({"shots": 3}, _nothing),
    "no such method": ({"method": "pate"}, _nothing),
    "texts": ({"rows": "notes"}, _nothing),
    "no noise": ({"epsilon": float("inf")}, _nothing),
    "epsilon 0": ({"epsilon": 0}, _nothing),
    "no such period": ({"period": "soon"}, _nothing),
}


@pytest.mark.parametrize("name", QUOTED)
def test_a_quote_refuses_what_protect_refuses(till: Place, name: str) -> None:
    changes, broken = QUOTED[name]
    broken(till)
    asked = {"rows": "till", "method": "gdp_tabicl", "epsilon": 1, "shots": 2, **changes}
    sentences = []
    for function in (Session().quote, Session().protect):
        with pytest.raises(DpiclError) as refused:
            function(**asked)
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1] and not charged()


def test_it_does_not_wait_for_what_only_a_report_needs(till: Place) -> None:
    """Which takes a second to import."""
    program = (
        "import sys\nfrom dpicl.cli import main\n"
        "late = ('dpicl.report.load', 'scipy', 'torch')\n"
        f"sys.argv = ['dpicl', 'run', 'demo', *{GRID.split()!r}, '--dry-run']\n"
        "try:\n    main()\nfinally:\n"
        "    print([name for name in late if name in sys.modules])"
    )
    assert python(program, folder=till.root) == "[]"
