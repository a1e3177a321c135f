"""A schema drafted from a data frame: what was read from rows is marked, and releases nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dpicl
from dpicl.ground.errors import DataError, DeclarationError, ParameterError, PrivacyError

BOUNDS = {"age": (18, 100), "joined": ("2020-01-01", "2025-12-31"), "visits": (0, 40)}


def table() -> pd.DataFrame:
    frame, _ = dpicl.example(400)
    return frame.assign(
        customer_id=[f"c{row % 90}" for row in range(400)],
        note=[f"only row {row}" for row in range(400)],
        spent=frame.spent.where(frame.spent > 20),
    )


def drafted(**changes: Any) -> dpicl.DraftSchema:
    return dpicl.draft(table(), label="bought", **changes)


def test_types_and_categories_are_those_of_the_rows_and_bounds_are_left_to_fill_in() -> None:
    draft = drafted()
    assert draft["draft"] is True and draft["label"] == "bought"
    columns = draft["columns"]
    assert {name: column["type"] for name, column in columns.items()} == {
        "age": "integer",
        "city": "category",
        "joined": "date",
        "member": "category",
        "visits": "integer",
        "spent": "real",
        "bought": "category",
    }
    assert columns["city"]["categories"] == ["north", "south", "west"]
    assert {name for name in columns if columns[name].get("bounds") == [None, None]} == {
        *draft.open
    }
    assert draft.open == ("age", "joined", "visits", "spent")
    assert columns["spent"]["nullable"] is True and "nullable" not in columns["age"]
    assert draft["source"]["ignore"] == ["note"] and "free text" in draft.left_out["note"]
    assert draft["privacy"] == {
        "unit": "person",
        "person": {"id_column": "customer_id", "max_rows": 4},
    }
    assert "population" not in draft and drafted(population=500)["population"] == 500


def test_it_says_what_is_to_be_done_and_shows_no_value_of_a_row() -> None:
    draft = drafted()
    for shown in (repr(draft), str(draft), draft._repr_html_()):
        assert "bounds to fill in: age, joined, visits, spent" in shown
        assert "read off the rows: replace by what is publicly known: city, member" in shown
        assert "north" not in shown and "only row" not in shown and "c1" not in shown


def test_nothing_is_released_before_it_was_looked_over(tmp_path: Path) -> None:
    draft = drafted()
    with pytest.raises(DeclarationError, match="columns.age.bounds.0: is not filled in"):
        dpicl.protect(table(), draft, epsilon=1, account="shop", home=tmp_path)
    for name, bounds in {**BOUNDS, "spent": (0, 2000)}.items():
        draft["columns"][name]["bounds"] = list(bounds)
    with pytest.raises(PrivacyError, match="is a draft"):
        dpicl.protect(table(), draft, epsilon=1, account="shop", home=tmp_path)
    assert not dpicl.Session(tmp_path).budget()


def test_once_looked_over_it_is_a_schema(tmp_path: Path) -> None:
    draft = drafted(population=90)
    schema = draft.reviewed({**BOUNDS, "spent": (0, 2000)})
    assert draft.open and "draft" in draft and "draft" not in schema
    release = dpicl.protect(
        table(), schema, epsilon=8, account="shop", method="mst_tabicl", home=tmp_path, anyway=True
    )
    assert list(release.table(5).columns) == list(schema["columns"])


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (BOUNDS, "bounds=spent: expected the lowest and the highest"),
        ({**BOUNDS, "spend": (0, 1)}, "bounds=spend.*did you mean 'spent'"),
        ({**BOUNDS, "spent": 2000}, "bounds=spent: expected a pair"),
        ({**BOUNDS, "spent": "ab"}, "bounds=spent: expected a pair"),
    ],
)
def test_bounds_that_are_missing_or_none_are_named(bounds: Any, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        drafted().reviewed(bounds)


@pytest.mark.parametrize("made", [pa.Table.from_pandas, lambda frame: frame])
def test_any_frame_is_drafted_alike(made: Any) -> None:
    frame = table()
    assert dpicl.draft(made(frame), label="bought") == drafted()
    counted = dpicl.draft(made(frame), label="bought", positive=["yes"])
    assert counted["label"]["parts"] == ["rest", ["yes"]]


def test_what_is_written_otherwise_is_mended_in_python() -> None:
    """And no option of a command is named."""
    frame = table().assign(
        born=[f"{1 + row % 28}.{1 + row % 12}.{1950 + row % 50}" for row in range(400)],
        price=[f"{row},5" for row in range(400)],
    )
    left_out = dpicl.draft(frame, label="bought").left_out
    assert left_out["born"] == (
        "dates that are not written as 2026-11-25; of 25.11.2026 in pandas: frame[NAME] = "
        'pd.to_datetime(frame[NAME], format="%d.%m.%Y")'
    )
    assert left_out["price"].endswith('pd.to_numeric(frame[NAME].str.replace(",", "."))')
    with pytest.raises(ParameterError, match="label=born: .*pd.to_datetime"):
        dpicl.draft(frame, label="born")
    mended = frame.assign(
        born=pd.to_datetime(frame["born"], format="%d.%m.%Y"),
        price=pd.to_numeric(frame["price"].str.replace(",", ".")),
    )
    columns = dpicl.draft(mended, label="bought")["columns"]
    assert (columns["born"]["type"], columns["price"]["type"]) == ("date", "real")
    with pytest.raises(ParameterError) as refused:
        dpicl.draft(frame, positive=["yes"])
    assert "--" not in str(refused.value)


def test_what_cannot_be_drafted_is_one_sentence() -> None:
    with pytest.raises(ParameterError, match="label=boughtt.*the data frame"):
        dpicl.draft(table(), label="boughtt")
    with pytest.raises(ParameterError, match="positive=maybe"):
        dpicl.draft(table(), label="bought", positive=["maybe"])
    with pytest.raises(DataError, match="no column"):
        dpicl.draft(table()[["note"]])
    with pytest.raises(ParameterError, match="rows=<int>"):
        dpicl.draft(3)
