"""Runs whose label is classes, a number, or none, and whose values may be missing: prompts that
read well, measures that fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.home.settings import Settings
from dpicl.methods.tabular_answers import continuations_of
from dpicl.release.table_files import split_key
from dpicl.runs.artefacts import PREDICTIONS
from dpicl.runs.evaluate import read_prompts
from dpicl.runs.run_folder import open_unit, read_plan
from dpicl.session import Session
from tests.harness import Place, new_place, publish, run_here
from tests.library.kinds import every_kind, kind_contract, kind_rows, kind_tree
from tests.methods.examples import TABULAR, UNLABELLED, grid_for


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An installation without a data set of ours."""
    place = new_place(tmp_path / "place")
    with place.entered():
        yield place


def _install(place: Place, kind: str, *, private: bool = False) -> None:
    tree = kind_tree(kind, private=private)
    (place.root / "contracts" / "customers.yaml").write_text(
        yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    )
    (place.root / "data" / "customers.csv").write_text(kind_rows(120))
    if not private:
        publish(place, "customers")


def _run(
    methods: Sequence[str] = TABULAR, pipeline: str = "demo"
) -> tuple[Path, str, pd.DataFrame]:
    """A run of methods, its report and its results."""
    run = run_here("kinds", pipeline, **grid_for(*methods, dataset="customers"))
    return run, (run / "report.md").read_text("utf-8"), pd.read_csv(run / "results.csv")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "kind, question",
    [
        pytest.param("classes", "What is the value of plan?", marks=pytest.mark.exhaustive),
        ("nullable number", "What is the value of height?"),
    ],
)
def test_a_run_asks_for_one_of_the_answers_and_measures_it(
    place: Place, kind: str, question: str
) -> None:
    _install(place, kind)
    run, report, results = _run()
    answers = "|".join(map(re.escape, kind_contract(kind).target.answers))
    for key in read_plan(run).units:
        folder = open_unit(str(run), key)
        prompts = [text.split("\n") for texts in read_prompts(folder).values() for text in texts]
        assert all(re.search(f"{re.escape(question)} Answer:$", lines[-1]) for lines in prompts)
        assert all(
            re.search(f"{re.escape(question)} Answer: ({answers})$", line)
            for lines in prompts
            for line in lines[:-1]
        )
        _measured(
            folder.path / PREDICTIONS,
            _truth(place, kind),
            kind,
            results[(results["method"] == folder.unit.method)],
        )
    assert len(results) > len(TABULAR) * 3 and ("unknown" in answers) == (kind != "classes")
    assert ("## AUC" in report) == (kind == "classes")
    assert ("## Mean absolute error, in the label's unit" in report) == (kind != "classes")
    assert (
        f"Gains in {'accuracy' if kind == 'classes' else 'mean absolute error'} over what does "
        f"best without private data" in report
    )
    judged = re.findall(r"^- .*\) by more than noise", report, re.MULTILINE)
    assert len(judged) == len(TABULAR)


def _truth(place: Place, kind: str) -> list[Any]:
    """The labels of the held-out rows."""
    settings, contract = Settings.current(), kind_contract(kind)
    table = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
    queries = split_table(table, contract, key=split_key(settings, contract)).queries
    return list(queries.data.column(contract.label_column).to_pylist())


def _measured(predictions: Path, truth: list[Any], kind: str, results: pd.DataFrame) -> None:
    """What the results say of in-context answers, from the answers themselves."""
    answered = pd.read_parquet(predictions)
    shown = answered[answered["cell"].str.startswith("icl,")]
    said = results[results["system"] == "icl"].iloc[0]
    texts, labels = list(shown["answer"]), kind_contract(kind).target.answers
    assert (shown["truth"] == shown["answer"]).mean() == pytest.approx(said["accuracy"])
    assert (
        list(
            shown[[f"log p: {label}" for label in labels]]
            .idxmax(axis=1)
            .str.removeprefix("log p: ")
        )
        == texts
    )
    codes = [labels.index(text) for text in texts]
    if kind == "classes":
        assert said["accuracy"] == pytest.approx(
            sum(one == other for one, other in zip(texts, truth, strict=True)) / len(truth)
        )
        assert 0 <= said["auc"] <= 1 and pd.isna(said["absolute_error"])
        return
    middles = [1 + 1.5 * (code + 0.5) / 8 if code < 8 else 1.75 for code in codes]
    errors = [
        abs(middle - value)
        for middle, value in zip(middles, truth, strict=True)
        if value is not None
    ]
    assert said["absolute_error"] == pytest.approx(sum(errors) / len(errors)) and pd.isna(
        said["auc"]
    )


def test_without_a_label_nothing_is_asked_and_the_report_says_why(place: Place) -> None:
    _install(place, "none")
    run, report, results = _run(UNLABELLED)
    assert not len(results)
    assert (
        "Nothing was measured on customers: no label is declared, so that there is nothing to "
        "predict." in report
    )
    assert "every held-out row is sent to the model" not in report
    for key in read_plan(run).units:
        assert not read_prompts(open_unit(str(run), key)) and not list(
            (run / "units" / key).glob("scored/*")
        )
        shown = json.loads((run / "units" / key / "demonstrations.json").read_text())
        assert all(
            text.startswith("The age is ") and text.endswith(".")
            for texts in shown.values()
            for text in texts
        )


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("name", UNLABELLED)
def test_a_private_table_without_a_label_is_released_and_charged(place: Place, name: str) -> None:
    _install(place, "none", private=True)
    run, report, _ = _run([name], "private")
    ((key, _),) = read_plan(run).units.items()
    (texts,) = json.loads((run / "units" / key / "demonstrations.json").read_text()).values()
    assert len(texts) == 1 and texts[0].startswith("The age is ") and texts[0].endswith(".")
    assert "Nothing was measured on customers: no label is declared" in report
    charged = max(account.epsilon_spent for account in Session().budget())
    assert 0 < charged <= 2 + 1e-9, (
        "twice one at most, where another row may stand in a row's place"
    )


@every_kind
def test_all_answers_are_scored_after_a_blank(kind: str) -> None:
    contract = kind_contract(kind)
    assert continuations_of(contract) == tuple(f" {answer}" for answer in contract.target.answers)
