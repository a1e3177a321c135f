"""A run is gone on with by the version of its methods that began it."""

from __future__ import annotations

import json

import pytest

from tests.harness import Place, call_main, complaint

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("method", "version"), [("mst_tabicl", None), ("gdp_tabicl", 1), ("ldp_tabicl", None)]
)
def test_only_files_of_this_version_are_read(
    place: Place, capsys: Capture, method: str, version: int | None
) -> None:
    """Plans did not name versions at first; MST's rows have been coded otherwise since."""
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
        content = json.loads(plan.read_text())
        content["versions"] = {method: version}
        plan.write_text(
            json.dumps(
                {name: value for name, value in content.items() if name != "versions" or version}
            )
        )
        if method == "ldp_tabicl":
            assert make_plan("demo", {}, "begun", resume=True) == plan.parent
            assert make_plan("demo", changes, "begun") == plan.parent
        else:
            assert f"another version of {method}" in complaint(
                call_main(("run", "--resume", "begun"), capsys)
            )
