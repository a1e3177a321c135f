"""Runs that a tabular model answers: all released rows in context, at no further cost, and what it
cannot answer is refused for free.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpicl.contract.pipeline import Cell
from dpicl.ground.errors import DpiclError, ModelRefusedError
from dpicl.home.settings import Settings
from dpicl.methods.row_method import contexts, row_method
from dpicl.models.kinds.local import Tabular
from dpicl.runs.artefacts import PREDICTIONS, read_released
from dpicl.runs.evaluate import read_prompts
from dpicl.runs.plan import draft_plan, make_plan, quote_plan
from dpicl.runs.probe import probe
from dpicl.runs.run_folder import open_unit, read_plan
from tests.harness import (
    Place,
    charged,
    edited,
    grid_of,
    install,
    install_texts,
    letters,
    run_here,
    shop,
    shop_rows,
    well,
)
from tests.library.tabular_models import random_weights

ROWS = 60
GRID = grid_of("shop", "mst_tabicl", epsilons=[1, 5], shots=[1, 8], model="tables")


@pytest.fixture
def place(place: Place) -> Place:
    install(place, shop(), shop_rows(80))
    return place


def entered(place: Place, package: str = "tabicl", **entry: Any) -> None:
    """An entry `tables` of a model with random weights."""
    file = random_weights(package, place.root / f"{package}.ckpt")
    with edited(place.root / "pipelines.yaml") as content:
        content["models"]["tables"] = {"kind": "tabular", "id": str(file), "rows": ROWS, **entry}


def run_of(run_id: str = "a", pipeline: str = "demo", **changes: Any) -> Path:
    return run_here(run_id, pipeline, **{**GRID, **changes})


def test_every_release_is_one_cell_and_its_shots_are_the_rows_in_context(place: Place) -> None:
    entered(place)
    run = run_of(options={"mst_tabicl": {"shot_selection": ["prototype", "near"]}})
    results, (key,) = pd.read_csv(run / "results.csv"), read_plan(run).units
    asked = results[results["system"].str.startswith("icl")]
    assert list(zip(asked["system"], asked["epsilon"], asked["shots"], strict=True)) == [
        ("icl", 1, ROWS),
        ("icl", 5, ROWS),
    ]
    assert "zero-shot" not in set(results["system"])
    assert {"majority", "lr", "gnb"} <= set(results["system"])
    prompts = read_prompts(open_unit(str(run), key))
    assert [len(texts) for texts in prompts.values()] == [
        len(pd.read_parquet(run / "units" / key / PREDICTIONS)) / 2
    ] * 2
    report = (run / "report.md").read_text("utf-8")
    assert f"tabicl, at most {ROWS} released rows in context" in report
    assert f"k = {ROWS} released rows in context at most" in report
    assert "knows nothing without them: majority needs none, and there is no zero-shot." in report


def test_rows_in_context_are_a_public_draw_of_the_released_ones_without_repetition(
    place: Place,
) -> None:
    entered(place)
    run = run_of()
    (key,) = read_plan(run).units
    folder = open_unit(str(run), key)
    released, method = read_released(folder), row_method(folder.method)
    chosen = contexts(method, released, folder.contract, folder.unit, folder.draws)
    again = contexts(method, released, folder.contract, folder.unit, folder.draws)
    for cell, pool in chosen.items():
        own = released.rows[Cell("counts", cell.epsilon)].codes
        assert np.array_equal(pool.codes, again[cell].codes)
        assert pool.codes.shape == (ROWS, own.shape[1])
        assert len(own) > ROWS
        rows, count = np.unique(pool.codes, axis=0, return_counts=True)
        held = {
            tuple(row): many
            for row, many in zip(*np.unique(own, axis=0, return_counts=True), strict=True)
        }
        assert all(
            many <= held[tuple(row)]
            for row, many in zip(rows.tolist(), count.tolist(), strict=True)
        )
    first, second = chosen.values()
    assert not np.array_equal(first.codes, second.codes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"methods": ["gdp_tabicl"]},
            (
                r"reads released rows, and GDP-TabICL releases none; expected a method that "
                r"releases "
                r"rows"
            ),
        ),
        (
            {"methods": ["dp_icl"], "datasets": ["letters"]},
            r"reads released rows, and DP-ICL releases none",
        ),
    ],
)
def test_what_no_rows_answer_is_refused_before_anything_is_charged(
    place: Place, changes: dict[str, Any], sentence: str
) -> None:
    entered(place)
    install_texts(place, letters(private=True))
    with pytest.raises(ModelRefusedError, match=sentence):
        make_plan("private", {**GRID, "epsilons": [1], **changes}, "a")
    assert not charged() and not Settings.current().runs.joinpath("a").exists()


def test_private_queries_are_refused_before_anything_is_charged(place: Place) -> None:
    entered(place)
    content = shop("club", private=True)
    del content["queries"]
    install(
        place, {**content, "split": {"test_fraction": 0.2, "evaluation_epsilon": 1}}, shop_rows(80)
    )
    with pytest.raises(
        ModelRefusedError,
        match="asks it private rows one by one; expected public rows to ask, `queries`, or a "
        "language",
    ):
        make_plan("private", {**GRID, "datasets": ["club"]}, "a")
    assert not charged()


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"id": "/no/such.ckpt"}, "is no such file; expected a file of weights"),
        (
            {"package": "tabpfn"},
            "refuses a released table .*10.*; expected another model, or fewer answers",
        ),
    ],
)
def test_a_model_that_cannot_answer_costs_nothing(
    place: Place, entry: dict[str, str], sentence: str
) -> None:
    entered(place, **entry)
    columns = {
        name: {"type": "category", "categories": [f"{name}{one}" for one in range(count)]}
        for name, count in (("a", 2), ("b", 12))
    }
    content = {
        "name": "many",
        "source": {"file": "many.csv"},
        "privacy": {"budget": {"epsilon": 10}},
        "columns": columns,
        "label": "b",
        "queries": {"file": "many_queries.csv"},
    }
    rows = "a,b\n" + "".join(f"a{row % 2},b{row % 12}\n" for row in range(60))
    install(place, content, rows)
    (place.root / "data" / "many_queries.csv").write_text(rows)
    with pytest.raises(DpiclError, match=sentence):
        run_of(pipeline="private", datasets=["many"])
    assert not charged()


def test_a_private_table_is_charged_as_with_any_other_model(place: Place) -> None:
    entered(place)
    install(place, shop("club", private=True), shop_rows(80))
    grid = {**GRID, "datasets": ["club"]}
    (tabular,), (fake,) = (
        quote_plan(
            draft_plan("private", {**grid, "model": model}, Settings.current()), Settings.current()
        )
        for model in ("tables", "fake")
    )
    assert tabular == fake
    run_of(pipeline="private", datasets=["club"])
    assert len(charged()) == 2


@pytest.mark.exhaustive
def test_the_command_runs_to_its_report_with_a_file_as_the_model(place: Place) -> None:
    file = random_weights("tabicl", place.root / "mine.ckpt")
    well(
        place.dpicl(
            f"run mst-tabicl --datasets shop --epsilons 1 --model {file} --run-id cli", timeout=300
        )
    )
    manifest = json.loads((place.run("cli") / "manifest.json").read_text())
    assert manifest["model"]["name"] == "mine" and manifest["grid"]["shots"] == [Tabular.most_rows]


def test_a_probe_is_asked_of_made_up_rows(place: Place) -> None:
    entered(place)
    run = make_plan("demo", GRID, "a")
    assert "1 model answers" in str(probe(str(run)))
