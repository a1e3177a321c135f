"""What is said first of a model that answers alike whatever it is asked, and what it gives to the
labels: in reports, on terminals, by `ask`.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpicl.cli.ask import read_demonstrations
from dpicl.methods.tabular_answers import constant
from dpicl.models.kinds import kind_named
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.opening import close_scorers
from dpicl.release.readers import public_corpus
from dpicl.release.table_files import read_table
from dpicl.report.answers import constant_answers
from dpicl.report.cells import LabelCounts
from dpicl.report.load import load_run
from dpicl.report.opening import overview, story
from tests.cli.conftest import Cli
from tests.cli.test_ask_demos import scores_of
from tests.harness import Place, grid_of, install, run_here, shop, shop_rows
from tests.library.lm.test_local_chat import TEMPLATE
from tests.library.served_model import taught, with_template

GRID = grid_of("shop", "gdp_tabicl", epsilons=[1.0, 8.0], shots=[1])


@pytest.fixture(scope="module")
def yes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a chat template that has learned one answer to everything."""
    root = tmp_path_factory.mktemp("yes")
    lessons = ["Yes or No? Answer: Yes", "No. Yes or No? Answer: Yes", "[assistant]\nYes"]
    return with_template(
        taught(build_tiny_model(root, public_corpus()), lessons, root / "taught", steps=60),
        root / "says-yes",
        TEMPLATE,
    )


@pytest.mark.parametrize(
    ("given", "truth", "label"),
    [
        ({"Yes": 16}, {"Yes": 11, "No": 5}, "Yes"),
        ({"Yes": 16}, None, "Yes"),
        ({"Yes": 9}, {"No": 9}, None),
        ({"Yes": 10}, {"No": 10}, "Yes"),
        ({"Yes": 19, "No": 1}, {"Yes": 10, "No": 10}, "Yes"),
        ({"Yes": 18, "No": 2}, {"Yes": 10, "No": 10}, None),
        ({"Yes": 20}, {"Yes": 19, "No": 1}, None),
        ({"Yes": 20}, {"Yes": 18, "No": 2}, "Yes"),
        ({}, {}, None),
    ],
)
def test_answers_are_constant_where_one_label_goes_beyond_its_share(
    given: dict[str, int], truth: dict[str, int] | None, label: str | None
) -> None:
    assert constant(Counter(given), None if truth is None else Counter(truth)) == label


def test_some_cells_are_told_as_some_and_no_cell_as_none() -> None:
    def cell(system: str, epsilon: float, **given: int) -> LabelCounts:
        return LabelCounts(
            "gdp_tabicl",
            "shop",
            (system, epsilon, 1.0, math.nan),
            Counter(given),
            Counter(No=8, Yes=8),
            0.5,
            2,
        )

    half, every = cell("icl", 1.0, No=8, Yes=8), cell("icl", 8.0, Yes=16)
    assert list(constant_answers([cell("zero-shot", math.nan, No=8, Yes=8), half])) == []
    found = constant_answers([cell("zero-shot", math.nan, No=16), half, every])
    assert [each.sentence for each in found] == [
        "zero-shot on shop: the model answers ‘No’ to 16 of 16 queries, whatever it is asked",
        (
            "GDP-TabICL on shop: in 1 of 2 cells all, or nearly all, answers are one label; "
            "in-context, k = 1, ε = 8, the model answers "
            "‘Yes’ to 16 of 16 queries, whatever it is asked"
        ),
    ]


@pytest.mark.parametrize(
    ("kind", "outcomes", "shown"),
    [
        ("transformers", {}, True),
        ("fake", {}, False),
        ("tabular", {}, False),
        ("endpoint", {"scored": 10, "calls": 10}, True),
        ("endpoint", {"scored": 9, "one-label": 1}, False),
        ("endpoint", {"scored": 9, "filtered": 1}, False),
        ("endpoint", {"parsed": 10}, False),
        ("endpoint", {}, False),
    ],
)
def test_labels_have_a_probability_where_scores_are_none_of_their_bounds(
    kind: str, outcomes: dict[str, float], shown: bool
) -> None:
    assert kind_named(kind).has_mass(outcomes) == shown


def test_a_run_says_first_that_the_model_answers_alike_and_how_it_was_asked(
    place: Place, yes: Path
) -> None:
    install(place, shop(), shop_rows(120))
    run = run_here("one", "private", **{**GRID, "model": str(yes)})
    close_scorers()
    report, loaded = (run / "report.md").read_text(), load_run(run)
    with (run / "results.csv").open() as file:
        count = next(
            int(row["query_count"]) for row in csv.DictReader(file) if row["system"] == "zero-shot"
        )
    sentences = [
        f"{cell} on shop: the model answers ‘Yes’ to {all_} of {all_} queries, whatever it is asked"
        for cell, all_ in (("zero-shot", count), ("GDP-TabICL", 2 * count))
    ]
    assert count >= 10
    short = (
        "says-yes gives nearly all queries one answer, whatever they say: ‘Yes’ without "
        "demonstrations and with GDP-TabICL"
    )
    assert story(loaded)[0].startswith("With what GDP-TabICL released of shop, ")
    assert story(loaded)[1] == short
    assert "One answer to everything." in report.split("\n## ")[0]
    assert all(sentence in report.split("\n## ")[0] for sentence in sentences)
    assert short in str(overview(loaded, "").opening[0])
    told = [line for line in story(loaded) if " is asked by " in line]
    assert len(told) == 1
    assert told[0].startswith("says-yes is asked by ")
    assert "of 24 public questions" in told[0]
    assert f"{told[0]}." in report
    predicted = read_table(next((run / "units").glob("*/predictions.parquet"))).to_pandas()
    masses = (
        np.exp(predicted[["log p: No", "log p: Yes"]])
        .sum(axis=1)
        .groupby(predicted["cell"].astype(str))
        .mean()
    )
    table = report.partition("Probability on the labels")[2].partition("\n## ")[0]
    for key in ("zero-shot,shots=0", "icl,epsilon=1.0,shots=1", "icl,epsilon=8.0,shots=1"):
        assert f"{masses[key]:.3f}" in table


def test_a_model_whose_scores_are_no_probabilities_shows_none(place: Place) -> None:
    install(place, shop(), shop_rows(120))
    run = run_here("fake", "private", **GRID)
    assert "Probability on the labels" not in (run / "report.md").read_text()
    assert not (run / "asked.json").exists()


def test_ask_says_how_it_asks_and_that_it_is_answered_alike(
    place: Place, cli: Cli, yes: Path
) -> None:
    # of a benchmark, whose noise is the same each time: other rows may make it say No
    table, out = install(place, shop()), place.root / "demos.jsonl"
    cli(f"protect {table} --epsilon 1 --shots 2 --out {out}")
    rows = place.root / "rows.csv"
    rows.write_text(shop_rows(12, seed=3))
    code, told = cli.ended(f"ask --demos {out} --queries {rows} --model {yes}")
    (asked,) = [line for line in told.splitlines() if line.startswith("says-yes is asked by ")]
    assert code == 0 and "of 24 public questions" in asked
    mass = re.search(
        r"the model gave (\d\.\d\d) of its probability to the labels, on average over queries|"
        r"the model hardly knows these labels \((\d\.\d\d) of its probability",
        told,
    )
    scorer = TransformersScorer(str(yes), device="cpu", chat="asked by its chat template" in asked)
    scores = scores_of(scorer, rows, read_demonstrations(out).texts)
    assert mass
    assert float(mass[1] or mass[2]) == pytest.approx(
        float(np.exp(scores).sum(axis=1).mean()), abs=0.006
    )
    assert "warning: the model answers ‘Yes’ to 12 of 12 queries, whatever it is asked" in told
    checked = json.loads(place.dpicl(f"model check {yes} --json").stdout)
    close_scorers()
    assert [one["detail"] for one in checked["checks"] if "chat template" in one["check"]] == [
        asked.removeprefix("says-yes is ")
    ]
