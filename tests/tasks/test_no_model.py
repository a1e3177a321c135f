"""Where there is nothing to ask, no model is: none is opened or named, be it there or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpicl.cli.planned_run import print_dry_run
from dpicl.ground.errors import DpiclError
from dpicl.home.settings import Settings
from dpicl.release.pipelines import find_pipeline, load_pipelines, override
from dpicl.runs.probe import PROBE
from flows.executor import description
from tests.harness import Place, grid_of, install, run_here, shop, shop_rows

NOBODY = "http://127.0.0.1:9/v1#nobody"
"""Where no server answers."""


@pytest.fixture
def unasked(place: Place) -> dict[str, Any]:
    """A private table without queries, and one run of it."""
    contract = shop("till", private=True)
    del contract["queries"]
    install(place, contract, shop_rows(80))
    return grid_of("till", "gdp_tabicl") | {"model": NOBODY}


def test_a_run_without_queries_opens_no_model_and_names_none(unasked: dict[str, Any]) -> None:
    run = run_here("unasked", **unasked)
    assert json.loads((run / "manifest.json").read_text())["model"] is None
    assert json.loads((run / PROBE).read_text())["models"] == []
    assert not list(run.glob("model*.json"))
    assert "\n- Model:" not in (run / "report.md").read_text()


def test_its_dry_run_says_so(unasked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_dry_run("demo", unasked, None, resume=False, period=None, as_json=False)
    said = capsys.readouterr().out
    assert "No model is asked, as no contract here has queries." in said
    assert "model works" not in said


def test_with_queries_the_same_model_is_asked_before_a_charge(
    place: Place, unasked: dict[str, Any]
) -> None:
    install(place, shop("till", private=True), shop_rows(80))
    with pytest.raises(DpiclError, match=r"127\.0\.0\.1:9"):
        print_dry_run("demo", unasked, None, resume=False, period=None, as_json=False)


def test_a_deployment_names_the_model_only_where_it_is_asked(
    place: Place, unasked: dict[str, Any]
) -> None:
    settings = Settings.from_environment()
    demo = find_pipeline(load_pipelines(settings.pipelines), "demo")
    assert f", answered by {demo.model}." in description(demo, settings)
    assert "answered by" not in description(override(demo, unasked), settings)
