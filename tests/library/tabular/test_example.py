"""The made-up customers to try things with."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import dpicl
from dpicl.ground.errors import ParameterError
from dpicl.release.door import schema_contract


def test_they_are_the_same_everywhere_and_a_schema_is_one_s_own() -> None:
    table, schema = dpicl.example()
    assert len(table) == 2000 and list(table.iloc[0].astype(str)) == [
        *("56", "north", "2021-11-19 00:00:00", "no", "3", "26.58", "no")
    ]
    schema["columns"].clear()
    assert list(dpicl.example().schema["columns"]) == list(table.columns)
    assert not dpicl.example(seed=1).table.equals(table)


def test_every_row_is_as_the_schema_says() -> None:
    table, schema = dpicl.example(20_000, seed=3)
    columns = schema_contract(schema).columns
    assert list(columns) == list(table.columns)
    for name, stated in schema["columns"].items():
        if "categories" in stated:
            assert set(table[name]) == set(stated["categories"])
        else:
            low, high = map(table[name].dtype.type, stated["bounds"])
            assert low <= table[name].min() and table[name].max() <= high


def test_the_label_can_be_learned_and_spending_has_a_long_tail() -> None:
    table, fresh = dpicl.example().table, dpicl.example(seed=1).table
    seen = ["age", "visits", "spent"]
    model = HistGradientBoostingClassifier(random_state=0, max_depth=3)
    model.fit(table[seen], table["bought"])
    odds = model.predict_proba(fresh[seen])[:, 1]
    assert 0.7 < roc_auc_score(fresh["bought"] == "yes", odds) < 0.95
    assert table["spent"].mean() > 1.5 * table["spent"].median()


def test_files_of_it_hold_the_same(tmp_path: Path) -> None:
    example = dpicl.example()
    example.write(tmp_path)
    table, new = (pd.read_csv(tmp_path / name) for name in ("customers.csv", "new.csv"))
    assert table["spent"].equals(example.table["spent"])
    assert list(new.columns) == list(table.columns[:-1]) and len(new) == 2
    fields = json.loads((tmp_path / "customers.schema.json").read_text())["fields"]
    assert [field["name"] for field in fields] == list(table.columns)
    assert fields[2]["constraints"] == {"minimum": "2020-01-01", "maximum": "2025-12-31"}
    assert fields[5] == {
        "name": "spent",
        "type": "number",
        "constraints": {"minimum": 0, "maximum": 2000},
    }


def test_no_rows_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"rows=0: expected a number of rows >= 1"):
        dpicl.example(0)
