"""What a contract does not state is derived, and is no part of what names a release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.contract.columns import IntegerColumn, RealColumn
from dpicl.contract.columns.base import MISSING
from dpicl.contract.draft import Draft, DraftColumn
from dpicl.contract.load import contract_digest, parse_contract
from dpicl.contract.parts import asked_about
from dpicl.data.central.aggregate import assign, partition
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.data.prompts import row_demonstrations
from dpicl.data.reading.encode import LocalEncoding
from dpicl.data.values import central_form
from dpicl.ground.errors import DeclarationError
from dpicl.ground.types import Table

COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "bounds": [18, 100]},
    "Größe (cm)": {"type": "real", "bounds": [50, 250], "nullable": True},
    "plan": {"type": "category", "categories": ["basic", "plus", "pro"], "nullable": True},
    "since": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"]},
    "churned": {"type": "category", "categories": ["no", "yes"]},
}


def customers(label: Any = "churned", **changes: Any) -> Contract:
    content = {
        "name": "customers",
        "source": {"file": "c.csv"},
        "privacy": {"budget": {"epsilon": 3}},
        "columns": COLUMNS,
        "label": label,
    }
    return parse_contract({**content, **changes}, "customers.yaml")


def table() -> Table:
    def coded(column: str, *texts: str) -> pa.DictionaryArray:
        categories = customers().columns[column].categories
        codes = pa.array([categories.index(text) for text in texts], pa.int16())
        return pa.DictionaryArray.from_arrays(codes, pa.array(categories))

    return Table(
        pa.table(
            {
                "age": [18, 100],
                "Größe (cm)": [180.5, None],
                "plan": coded("plan", "basic", "(missing)"),
                "churned": coded("churned", "yes", "no"),
                "since": [16436, 20453],
            }
        )
    )


def test_columns_and_a_label_are_a_whole_contract() -> None:
    contract = customers()
    assert contract.target.answers == ("no", "yes")
    assert row_encoding(contract).sizes == (8, 9, 4, 8, 2) and LocalEncoding.of(
        contract, "k-ary"
    ).sizes == (4, 5, 4, 4, 2)
    assert contract.shots[:3] == (1, 2, 4)
    bins = row_bins(table(), contract)
    assert bins[1].tolist() == [7, 8, 3, 7, 0], "missing values are the last bin of a column"
    first, second = row_demonstrations(bins, np.zeros((2, 4)), central_form(contract), contract)
    assert "The since is 2015-01-01." in first and first.endswith(
        "What is the value of churned? Answer: yes"
    )
    assert "The Größe (cm) is unknown. The plan is unknown." in second and second.endswith(
        "Answer: no"
    )


@pytest.mark.parametrize(
    ("label", "kind", "count"),
    [
        (None, "none", 1),
        ("age", "number", 8),
        ("plan", "classes", 4),
        ({"column": "age", "cuts": [40], "question": "Forty?"}, "binary", 2),
    ],
)
def test_a_label_may_be_classes_a_number_or_nothing(label: Any, kind: str, count: int) -> None:
    contract = customers(label)
    bins = row_bins(table(), contract)
    assert (contract.target.kind, contract.target.count) == (kind, count)
    assert row_encoding(contract).sizes[-1] == count > bins[:, -1].max()
    for shots in contract.shots:
        assert len(partition(contract, shots)) == shots > assign(table(), contract, shots).max()
    shares = np.zeros((2, len(contract.features)))
    text = row_demonstrations(bins, shares, central_form(contract), contract)[0]
    assert text.endswith(".") if kind == "none" else "Answer: " in text


def test_caps_and_population_name_no_release_but_columns_do() -> None:
    digest = contract_digest(customers())
    assert digest == contract_digest(
        customers(
            privacy={"budget": {"epsilon": 9, "delta": 1e-6}}, population=4000, account="shop"
        )
    )
    published = customers(privacy={"budget": {"benchmark": True}}, split={"test_fraction": 0.2})
    assert digest not in (contract_digest(customers("plan")), contract_digest(published))
    stated = {
        "version": 1,
        "local": [{"name": "old", "column": "age", "cuts": [40], "texts": ["no", "yes"]}],
        "prompts": {"local": {"text": "{old}"}, "central": {"text": "{age}"}},
    }
    more = customers(privacy={"budget": {"epsilon": 9}}, **stated)
    assert contract_digest(more) != contract_digest(customers(**stated)), (
        "contracts of version 1 keep their names"
    )
    assert more.shots == (1,), "and nothing in them is derived that a release is made of"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"label": None, "queries": {"file": "q.csv"}},
            "queries: has no meaning without a label; expected no such key, or `label`",
        ),
        (
            {"label": None, "split": {"test_fraction": 0.2, "evaluation_epsilon": 1}},
            "split.evaluation_epsilon: has no meaning without a label",
        ),
        ({"label": "plans"}, "label.column: names 'plans', which is not a column"),
        (
            {"columns": {"churned": COLUMNS["churned"]}},
            "columns: has no column beside the label; expected at least one",
        ),
        (
            {"label": {"column": "plan", "answers": ["a"]}},
            "label.answers: has 1 answers; expected 4: one per category",
        ),
        (
            {"version": 1},
            "local: is missing; expected this key, or `version: 2`, in which it is derived",
        ),
        ({"source": {"frame": True}}, "account: is missing; expected the name of the account"),
        (
            {"groups": {2: [{"column": "age", "cuts": [40], "missing": True}]}},
            "groups.2.0.missing: does not fit the column",
        ),
        (
            {"groups": {3: [{"column": "Größe (cm)", "cuts": [100], "missing": True}]}},
            "groups.3: groups by a number that may be missing",
        ),
        (
            {"columns": {**COLUMNS, "since": {"type": "date", "bounds": ["2015-01-01", "soon"]}}},
            "got 'soon'; expected a date such as",
        ),
        (
            {"columns": {**COLUMNS, "age": {**COLUMNS["age"], "bins": [120]}}},
            "columns.age.bins: [120.0] leaves a part empty; expected rising cuts above 18 and up",
        ),
    ],
)
def test_what_cannot_be_derived_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        customers(**changes)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [("gekündigt?", "gekündigt"), ("bought_again", "bought again"), ("y", "y"), ("?", "?")],
)
def test_a_question_that_nobody_states_asks_for_the_value_of_a_column(
    column: str, words: str
) -> None:
    assert asked_about(column) == words
    stated = (
        DraftColumn("age", "integer", (18, 100)),
        DraftColumn(column if column != "?" else "x", "category", categories=("ja", "nein")),
    )
    words = words if column != "?" else "x"
    draft = Draft("shop", "shop.csv", stated, stated[1].name, ("ja",))
    assert draft.contract().target.question == f"Is the value of {words} ja?"
    plain = replace(draft, positive=()).contract()
    assert plain.target.question == f"What is the value of {words}?"


def test_a_released_average_has_the_decimals_of_a_prompt() -> None:
    whole = IntegerColumn(type="integer", bounds=(0, 100))
    real = RealColumn(type="real", bounds=(0, 100), decimals=1)
    assert (whole.shown(41.2967), whole.worded(41.2967)) == (41, "41")
    assert (real.shown(41.2967), real.worded(41.2967)) == (41.3, "41.3")
    assert whole.shown(MISSING) == MISSING
