"""A run is gone on with by the version of its methods that began it."""

from __future__ import annotations

import json

import pytest

from tests.harness import Place, call_main, complaint

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("method", "version"), [("mst_tabicl", None), ("gdp_tabicl", 1)])
def test_only_files_of_this_version_are_read(
    place: Place, capsys: Capture, method: str, version: int | None
) -> None:
    from dpicl.engine.plan import make_plan

    with place.entered():
        changes = {
            "methods": [method],
            "epsilons": ["1"],
            "shots": [1],
            "seeds": [0],
            "model": "fake",
        }
        plan = make_plan("demo", changes, "begun") / "plan.json"
        assert make_plan("demo", {}, "begun", resume=True) == plan.parent
        assert make_plan("demo", changes, "begun") == plan.parent
        content = json.loads(plan.read_text())
        plan.write_text(json.dumps({**content, "versions": {method: version}}))
        assert f"another version of {method}" in complaint(
            call_main(("run", "--resume", "begun"), capsys)
        )
