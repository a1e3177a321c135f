"""`dpicl compare` on real runs: exit codes, a table, JSON and a page; nothing but the runs' folders
is read.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_json import printed
from tests.flows.report_folder import Page
from tests.harness import Place, call_main, complaint, install, run_here, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]


def run(name: str, model: str, *epsilons: str, **changes: Any) -> None:
    grid = {"methods": ["gdp_tabicl"], "shots": [2], "seeds": [0, 1], "datasets": ["kiosk"]}
    run_here(name, "private", model=model, **{**grid, "epsilons": [*epsilons], **changes})


@pytest.fixture
def runs(place: Place) -> Place:
    install(place, shop("kiosk"), shop_rows(60))
    run("hashed", "fake", "1", "inf")
    run("random", "tiny", "1", "5", "inf")
    return place


@pytest.mark.exhaustive
def test_two_models_are_compared_answer_by_answer(
    runs: Place, capsys: Capture, tmp_path: Path
) -> None:
    folders = [runs.run(name) for name in ("hashed", "random")]
    for left in [one for one in runs.home.iterdir() if one.name != "runs"]:
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    before = [
        sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) for folder in folders
    ]
    out = said(capsys, "compare", "hashed", "random")
    assert out.startswith(
        "Random weights. What the model of hashed and random answers means nothing.\n"
    )
    assert "random" in out.splitlines()[1] and "of the cells would be marked by chance" in out
    assert "kiosk: the same queries in both runs, compared answer by answer" in out
    assert "1 cell of random" in out
    assert [
        sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) for folder in folders
    ] == before
    assert sorted(one.name for one in runs.home.iterdir()) == ["runs"], "no ledger is made"

    told = printed("dpicl compare RUN RUN", said(capsys, "compare", "hashed", "random", "--json"))
    assert told["runs"] == ["hashed", "random"] and not told["tests"]
    assert {(one["system"], one["epsilon"], one["by_answer"]) for one in told["cells"]} == {
        ("zero-shot", None, True),
        ("icl", 1.0, True),
        ("icl", None, True),
    }
    assert told["better"] == sum(one["marked"] == "better" for one in told["cells"])
    assert {"what": "epsilons", "first": "1, ∞", "second": "1, 5, ∞"} in told["differing"]

    page = tmp_path / "page.html"
    verdict, place = said(capsys, "compare", "hashed", "random", "--out", str(page)).splitlines()
    assert place == f"page: {page}"
    assert verdict in said(capsys, "compare", "hashed", "random").splitlines()
    row = Page(page.read_text("utf-8")).row("kiosk")
    shown = next(one for one in told["cells"] if not one["is_same"])
    assert [f"{shown[side]:.3f}" for side in ("first", "second")] == row[4:6]
    assert (
        complaint(call_main(["compare", "hashed", "random", "--out", str(page)], capsys))
        == "out=page.html: expected a new file"
    )


@pytest.mark.exhaustive
def test_the_same_release_and_model_are_the_same(runs: Place, capsys: Capture) -> None:
    run("again", "fake", "1", "inf")
    assert "again and hashed are the same in 3 cells" in said(capsys, "compare", "hashed", "again")


@pytest.mark.exhaustive
def test_what_cannot_be_compared_is_one_sentence(runs: Place, capsys: Capture) -> None:
    def told(*words: object) -> str:
        return complaint(call_main(["compare", "hashed", *map(str, words)], capsys))

    run("other", "fake", "3", seeds=[5])
    assert "runs hashed and other share no cell" in told("other")
    assert "no such run" in told("nowhere")
    assert "named twice" in told("hashed")
    assert "ends in .html or .md" in told("random", "--out", "a.pdf")
    nowhere, long = runs.root / "nodir" / "x.html", f"{'x' * 245}.html"
    assert f"{nowhere.parent} is none" in told("random", "--out", nowhere)
    assert not nowhere.parent.exists()
    cannot = told("random", "--out", runs.root / long)
    assert cannot == f"{long}: File name too long", "not the name of a temporary file"


@pytest.mark.exhaustive
def test_a_private_table_is_compared_by_what_was_released(place: Place, capsys: Capture) -> None:
    contract = shop("till", private=True)
    install(place, contract, shop_rows(80))
    counted = {
        **shop("counted", private=True),
        "split": {"test_fraction": 0.3, "evaluation_epsilon": 2},
    }
    del counted["queries"]
    install(place, counted, shop_rows(200))
    for name, model in (("one", "fake"), ("two", "tiny")):
        run(name, model, "1", seeds=[0], datasets=["till", "counted"])
    told = printed("dpicl compare RUN RUN", said(capsys, "compare", "one", "two", "--json"))
    assert {(cell["dataset"], cell["by_answer"]) for cell in told["cells"]} == {
        ("till", True),
        ("counted", False),
    }
    assert any(
        "counted: only means are compared, since only noisy counts" in one for one in told["notes"]
    )
    charged = next(one for one in told["differing"] if one["what"] == "charged")
    assert "till: 1 release, charged now" in charged["first"]
    assert "charged before and free now" in charged["second"]
