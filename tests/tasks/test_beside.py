"""Models that are asked beside a run's own: the very same prompts, rows of their own in results and
report, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl.ground.errors import ModelRefusedError
from dpicl.ground.files import read_arrays, read_json, write_arrays
from dpicl.methods.base import ZERO_SHOT
from dpicl.report import report_steps
from dpicl.report.load import load_run
from dpicl.report.opening import story
from dpicl.runs.artefacts import PROMPTS
from dpicl.runs.evaluate import parts_to_score, score
from dpicl.runs.execute import InProcess, run_units
from tests.harness import (
    Place,
    edited,
    grid_of,
    install,
    install_texts,
    letters,
    new_place,
    rows,
    shop,
    shop_rows,
)
from tests.tasks.stages import make_plan

GRID = grid_of("shop", draws=1)
METHODS = ["mst_tabicl", "gdp_tabicl"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = new_place(tmp_path_factory.mktemp("beside") / "place")
    install(place, shop(), shop_rows(200))
    with place.entered():
        yield place


@pytest.fixture(scope="module")
def both(here: Place) -> Path:
    """A run whose prompts another model answers too."""
    return _done("both", beside=["tiny", "fake"])


def _done(run_id: str, **changes: Any) -> Path:
    run = make_plan("demo", {**GRID, "methods": METHODS, **changes}, run_id)
    run_units(run, InProcess(), report_steps(run))
    return run


def _numbers(run: Path, model: str = "") -> dict[tuple[str, ...], str]:
    """Accuracy of what needs a model, by everything that names it but the model."""
    asked = [
        row
        for row in rows(run / "results.csv")
        if row["system"].partition("-")[0].partition("@")[0] in ("icl", "zero")
    ]
    named = [row for row in asked if row["system"].partition("@")[2] == model]
    return {
        (row["method"], row["system"].partition("@")[0], row["epsilon"], row["shots"]): row[
            "accuracy"
        ]
        for row in named
    }


def test_a_model_beside_answers_as_if_it_were_alone_and_changes_nothing_else(both: Path) -> None:
    alone, other = _done("alone"), _done("other", model="tiny", baselines=False)
    assert _numbers(both) == _numbers(alone)
    assert _numbers(both, "tiny") == _numbers(other)
    assert len(_numbers(both, "tiny")) == 4
    assert [row for row in rows(both / "results.csv") if "@" not in row["system"]] == rows(
        alone / "results.csv"
    )
    assert [one["name"] for one in read_json(both / "manifest.json")["beside"]] == ["tiny"]
    assert (both / "units" / "mst_tabicl__shop__seed0" / PROMPTS).read_bytes() == (
        alone / "units" / "mst_tabicl__shop__seed0" / PROMPTS
    ).read_bytes()


def test_a_report_and_the_last_lines_begin_with_the_answer_then_picture_prompts_and_cost(
    both: Path,
) -> None:
    page, told = (both / "report.html").read_text(), story(load_run(both))
    begun = [
        '<p class="lead">',
        "<svg",
        "The first query of each true answer, with 2 demonstrations",
        "charged: ",
    ]
    places = [page.index(text) for text in begun]
    assert places == sorted(places) and places[-1] < page.index('<section id="')
    released, sentence, *_ = told
    assert released.startswith("MST-TabICL released rows of shop at ε = 1. Logistic regression ")
    lines = iter(told)
    assert "private data" in sentence
    assert all(name in sentence for name in ("fake", "tiny"))
    next(told for told in lines if told.startswith("MST-TabICL, ε = 1 "))
    bars = dict(zip(("fake", "tiny", "logistic regression"), lines, strict=False))
    for model, name in {"": "fake", "tiny": "tiny"}.items():
        (accuracy,) = (
            float(accuracy)
            for (method, system, epsilon, _), accuracy in _numbers(both, model).items()
            if (method, system, epsilon) == ("mst_tabicl", "icl", "1.0")
        )
        assert bars[name].startswith(f"  {name} ") and bars[name].endswith(f" {accuracy:.2f}")
    order = [told.index(released), told.index(sentence)] + [
        next(i for i, line in enumerate(told) if text in line)
        for text in ("│ without private", "the truth is", "charged: ")
    ]
    assert order == sorted(order)
    assert "in-context, tiny, k = 2" in page
    assert (
        "Rows that name tiny are answers to the same prompts, the others are those of fake." in page
    )


def test_what_two_methods_ask_alike_without_demonstrations_is_asked_once(here: Place) -> None:
    run = _done("once", beside=["tiny"], baselines=False)
    first, second = (run / "units" / f"{method}__shop__seed0" for method in METHODS)
    planted = {}
    for file in sorted((first / "scored").glob("*.npz")):
        stored = read_arrays(file)
        for key in {ZERO_SHOT.key, ZERO_SHOT.answered_by("tiny").key} & stored.keys():
            planted[key] = np.full_like(stored[key], -7.0)
            file.unlink()
            write_arrays(file, {key: planted[key]}, mode=0o644)
    assert len(planted) == 2
    for path in (second / "scored").glob("*.npz"):
        path.unlink()
    for part in parts_to_score(str(run), second.name):
        score(str(run), second.name, part)
    stored = {
        key: table
        for file in (second / "scored").glob("*.npz")
        for key, table in read_arrays(file).items()
    }
    # taken over from the other unit
    assert all((stored[key] == planted[key]).all() for key in planted)
    # and nothing else is
    assert not any((table == -7.0).any() for key, table in stored.items() if key not in planted)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"datasets": ["postcards"], "methods": ["few_shot_generation"]},
            "`beside: .tiny.` asks further models what few_shot_generation asks; expected",
        ),
        ({"beside": ["rows"]}, "one of kind tabular reads none; expected language models"),
    ],
)
def test_what_cannot_be_asked_alike_is_refused_before_a_row_is_read(
    here: Place, changes: dict[str, Any], expected: str
) -> None:
    install_texts(here, letters("postcards"))
    with edited(here.root / "pipelines.yaml") as content:
        content["models"]["rows"] = {"kind": "tabular", "id": "model.ckpt"}
    with pytest.raises(ModelRefusedError, match=expected):
        make_plan("demo", {**GRID, "methods": METHODS, "beside": ["tiny"], **changes}, "refused")
    assert not here.run("refused").exists()
