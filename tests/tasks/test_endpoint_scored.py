"""A run on a served model: its results, what its manifest and report say of the answers, and how it
goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.ground.errors import ModelError, RunError
from dpicl.ground.files import read_json
from dpicl.models.opening import open_scorer
from dpicl.models.spec import ModelSpec
from tests.harness import Place, edited, install, new_place, shop
from tests.library.endpoint_server import Habits, serving
from tests.tasks.stages import make_plan, steps

GRID = {
    "methods": ["ldp_tabicl"],
    "datasets": ["shop"],
    "epsilons": ["5"],
    "shots": [1, 2],
    "seeds": [0],
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = new_place(tmp_path / "place")
    install(made, shop())
    return made


def with_far(place: Place, url: str, **more: object) -> None:
    """Register the model `far`."""
    with edited(place.root / "pipelines.yaml") as pipelines:
        pipelines["models"]["far"] = {"kind": "endpoint", "id": "m", "url": url, **more}


def done(place: Place, model: str, run_id: str) -> Path:
    """Do every stage of a run, or as many as succeed."""
    with place.entered():
        run = make_plan("demo", {**GRID, "model": model}, run_id)
        for stage, references in steps(str(run)):
            stage(*references)
    return run


def test_a_report_tells_how_many_answers_are_fixed_and_what_they_took(place: Place) -> None:
    with serving(Habits(echo="ignores", most_top=5)) as server:
        with_far(place, server.url, api="completions", price_per_million_tokens=3.0)
        run = done(place, "far", "a")
    counts = [read_json(path) for path in run.glob("units/*/scored/*.json")]
    fixed, calls = (
        int(sum(count.get(name, 0) for count in counts)) for name in ("no-label", "calls")
    )
    assert fixed > 0
    told = f"{fixed} fixed because no label was listed; {calls:,} calls, "
    for name in ("report.md", "report.html"):
        text = (run / name).read_text()
        assert "queried by completions top-5 logprobs" in text
        assert told in text
        assert ", cost 0.0" in text


@pytest.mark.exhaustive
def test_a_run_goes_on_where_its_server_went_down_but_not_in_another_manner(place: Place) -> None:
    with serving(Habits(key="sesame")) as server:
        with_far(place, server.url, key_env="FAR_KEY")
        with pytest.raises(ModelError, match="the variable FAR_KEY holds no key"):
            done(place, "far", "a")
        with place.entered(FAR_KEY="sesame"):
            run = done(place, "far", "a")
        scored = {path.name: path.read_bytes() for path in run.glob("units/*/scored/*.npz")}
        (gone := next(run.glob("units/*/scored/0001.npz"))).unlink()
        with place.entered(FAR_KEY="sesame"):
            done(place, "far", "a")
        assert {path.name: path.read_bytes() for path in run.glob("units/*/scored/*.npz")} == scored
        assert not any(b"sesame" in path.read_bytes() for path in run.rglob("*") if path.is_file())
    gone.unlink()
    port = server.port
    with serving(Habits(echo="refuses", key="sesame"), port=port), place.entered(FAR_KEY="sesame"):
        # so that `far` is opened anew
        open_scorer(ModelSpec(name="fake", kind="fake"), models_folder=place.root, corpus=())
        with pytest.raises(RunError) as other:
            done(place, "far", "a")
    assert (
        str(other.value)
        == "run a: its model answered by completions top-20 logprobs, else echo and now by "
        "completions top-20 logprobs; start a new run"
    )
